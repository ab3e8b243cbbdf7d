"""The messages of the vendors: their fields, as bytes and back."""

from __future__ import annotations

import pytest

from streamer.bridge.grpc.messages import PACKAGES, SERVICES, Codec, Unreadable, message_class
from streamer.wire.dialects.grpc_options import FIELDS
from tests.bridge.grpc.grpc_client import LINEAR, RIVA, V1, V2, audio_of, first, message


def test_bytes_as_the_vendors_write_them() -> None:
    """Field 1 of Google's first request is the configuration, and 2 the audio; unknown fields are ignored."""
    codec = Codec(V1, SERVICES[V1][0])
    config = bytes((8, 1, 16, 0x80, 0x7D)) + b"\x1a\x02en" + b"\xfa\x01\x03new"  # field 31 is not known here
    data = b"\x0a" + bytes((len(config) + 2,)) + b"\x0a" + bytes((len(config),)) + config + b"\x12\x03pcm"
    expected = {"encoding": "LINEAR16", "sample_rate_hertz": 16_000, "language_code": "en"}
    assert codec.read(data) == ({"streaming_config": {"config": expected}}, b"pcm")


@pytest.mark.parametrize("service", [RIVA, V1, V2])
def test_audio_is_no_field(service: str) -> None:
    """It comes beside the other fields, in a live session and in a recording."""
    live, whole = (Codec(service, method) for method in SERVICES[service][:2])
    assert live.read(audio_of(service, b"sound").SerializeToString()) == ({}, b"sound")
    fields, audio = live.read(first(service).SerializeToString())
    assert (list(fields), audio) == (["streaming_config"], b"")
    if service == V1:
        request = message(V1, "RecognizeRequest", config=LINEAR, audio={"content": b"sound"})
        assert whole.read(request.SerializeToString())[1] == b"sound"


def test_bytes_that_are_no_message() -> None:
    """They are refused, also text that is not UTF-8."""
    codec = Codec(RIVA, SERVICES[RIVA][0])
    for data in (b"\xff\xff", b"\x0a\x7f", b"\x0a\x06\x0a\x04\x1a\x02\xff\xfe"):
        with pytest.raises(Unreadable):
            codec.read(data)


def test_a_duration_that_none_can_be() -> None:
    """It is refused as bytes that are no message, because JSON has no form for it."""
    endless = {"speech_start_timeout": {"seconds": 1, "nanos": 2**31 - 1}}
    request = message(
        V1, "StreamingRecognizeRequest", streaming_config={"config": LINEAR, "voice_activity_timeout": endless}
    )
    with pytest.raises(Unreadable):
        Codec(V1, SERVICES[V1][0]).read(request.SerializeToString())


def test_a_response() -> None:
    """It is written from its fields, with enums by their names."""
    data = Codec(V2, SERVICES[V2][0]).write(
        '{"speech_event_type": "SPEECH_ACTIVITY_END", "speech_event_offset": {"seconds": 2, "nanos": 5}}'
    )
    assert data == b"\x18\x03\x3a\x04\x08\x02\x10\x05"


def test_each_wish_is_a_field() -> None:
    """What the reference shows can be asked for."""
    names = {package: " ".join(messages.values()).split() for package, messages in PACKAGES.items()}
    packages = [service.rpartition(".")[0] for service in (RIVA, V1, V2)]
    for field in FIELDS:
        for package, name in zip(packages, field[:3], strict=True):
            assert not name or name in names[package], (package, name)


def test_beside_the_packages_of_the_vendors() -> None:
    """The descriptors are in a pool of their own, so those of others may have the same names."""
    from google.protobuf import descriptor_pool

    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("nvidia.riva.asr.RecognizeRequest")
    assert message_class("nvidia.riva.asr.RecognizeRequest").DESCRIPTOR.name == "RecognizeRequest"
