"""What clients of gRPC hear, with real calls and a real service: words, times, channels, and the ends of utterances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamer.testing import say, silence
from streamer.testing.exact_service import ExactService
from tests.bridge.grpc.grpc_client import (
    LINEAR,
    RIVA,
    SERVICES,
    TALK,
    V1,
    V2,
    Client,
    Held,
    audio_of,
    finals,
    first,
    linear,
    message,
    paced,
    pieces,
    text_of,
)
from tests.bridge.uploads.uploading import recording, sentences


@pytest.mark.parametrize("service", SERVICES)
def test_a_live_session(client: Client, service: str) -> None:
    """Text that may change comes before each final, and the transcripts of finals can be joined as they are."""
    responses = client.stream(service, TALK, interim_results=True)
    results = [result for response in responses for result in response.results]
    assert text_of(finals(responses)) == "hello world goodbye"
    assert not results[0].is_final
    assert 0 < results[0].stability < 1
    assert all(result.stability == 0 for result in finals(responses))
    assert all(not result.alternatives[0].words for result in results)


@pytest.mark.parametrize("service", SERVICES)
def test_only_finals(client: Client, service: str) -> None:
    """Without the wish for it, no text comes that may change."""
    results = [result for response in client.stream(service, TALK) for result in response.results]
    assert [result.is_final for result in results] == [True, True]


@pytest.mark.parametrize("service", SERVICES)
def test_a_recording(client: Client, service: str) -> None:
    """The whole transcript is one response, for bare samples and for a file."""
    unspecified: dict[str, Any] = {"language_code": "en-US"}
    if service == V2:
        unspecified = {"language_codes": ["en-US"], "auto_decoding_config": {}}
    for answer in (
        client.recognise(service, TALK.tobytes()),
        client.recognise(service, recording(TALK, "FLAC"), unspecified),
        client.recognise(service, recording(TALK), linear(service)),  # a header although the encoding has none
    ):
        assert text_of(answer.results) == "hello world goodbye"


@pytest.mark.parametrize("service", SERVICES)
def test_an_incomplete_sample(client: Client, service: str) -> None:
    """Audio that ends within a sample has all its words, live and as a recording."""
    cut = TALK.tobytes() + b"\0"
    assert text_of(finals(client.stream(service, cut))) == "hello world goodbye"
    assert text_of(client.recognise(service, cut).results) == "hello world goodbye"


def seconds(duration: Any) -> float:
    """Return a duration in seconds."""
    return float(duration.seconds + duration.nanos / 1e9)


@pytest.mark.parametrize("service", SERVICES)
def test_words(client: Client, service: str) -> None:
    """Words of finals have times and confidence, the same for live speech and for a recording."""
    config = linear(service)
    names = ("enable_word_time_offsets", "enable_word_confidence")[: 1 if service == RIVA else 2]
    wishes = dict.fromkeys(names, True)
    config |= {"features": wishes} if service == V2 else wishes
    live = finals(client.stream(service, TALK, config))
    recorded = client.recognise(service, TALK.tobytes(), config).results
    words = [word for result in live for word in result.alternatives[0].words]
    assert [word.word for word in words] == ["hello", "world", "goodbye"]
    assert words == [word for result in recorded for word in result.alternatives[0].words]
    if service == RIVA:
        times = [word.start_time / 1000 for word in words]
    else:
        times = [seconds(word.start_offset if service == V2 else word.start_time) for word in words]
    assert times == sorted(times)
    assert times[2] > len(say("hello world")) / 16_000 + 1.5 - 0.1
    assert all(0 < word.confidence <= 1 for word in words)


def test_where_results_end(client: Client) -> None:
    """Each result says how much audio it covers."""
    riva, google = (finals(client.stream(service, TALK)) for service in (RIVA, V1))
    ends = [seconds(result.result_end_time) for result in google]
    assert [result.audio_processed for result in riva] == pytest.approx(ends)
    assert riva[1].audio_processed == pytest.approx(len(TALK) / 16_000, abs=0.1)


def test_the_id_of_a_request(client: Client) -> None:
    """Riva's responses have it."""
    request = message(RIVA, "StreamingRecognizeRequest", streaming_config={"config": LINEAR}, id={"value": "this one"})
    [response] = client.call(RIVA, [request, audio_of(RIVA, say("stop").tobytes())])
    assert response.id.value == "this one"


@pytest.mark.parametrize("service", [V1, V2])
def test_voice_activity(client: Client, service: str) -> None:
    """Google's clients are told when somebody begins and stops to speak."""
    responses = client.stream(service, sentences(say("hello")), enable_voice_activity_events=True)
    events = [response for response in responses if response.speech_event_type]
    names = [type(each).DESCRIPTOR.fields_by_name["speech_event_type"].enum_type for each in events]
    kinds = [kind.values_by_number[each.speech_event_type].name for kind, each in zip(names, events, strict=True)]
    assert kinds[:2] == ["SPEECH_ACTIVITY_BEGIN", "SPEECH_ACTIVITY_END"]


def test_a_single_utterance(client: Client, exact: ExactService) -> None:
    """The first final is the last, and the service ends the call although its client goes on."""
    sent = Held(first(V1, single_utterance=True), *(audio_of(V1, piece) for piece in pieces(TALK)))
    more = paced((audio_of(V1, bytes(6400)) for _ in range(500)), 0.02)
    responses = list(client.call(V1, (request for part in (list(sent._requests), more) for request in part)))
    assert text_of(finals(responses)) == "hello world"
    assert responses[-2].speech_event_type == 1
    assert responses[-1].results[0].is_final


def test_the_end_of_an_utterance(client: Client) -> None:
    """Riva's client makes everything up to here final while it goes on."""
    request = message(RIVA, "StreamingRecognizeRequest", runtime_config={"force_eou": "true"})
    held = Held(first(RIVA), audio_of(RIVA, say("stop").tobytes()), request)
    call = client.call(RIVA, held)
    assert text_of(next(call).results) == "stop"
    held.end.set()
    assert list(call) == []


def test_the_end_of_an_utterance_with_audio(client: Client) -> None:
    """The audio of the same request belongs to the utterance, also in the first request with audio."""
    force = {"force_eou": "true"}
    request = message(RIVA, "StreamingRecognizeRequest", runtime_config=force, audio_content=say("stop").tobytes())
    held = Held(first(RIVA), request, audio_of(RIVA, say("again").tobytes()), request)
    call = client.call(RIVA, held)
    assert [text_of(next(call).results), text_of(next(call).results)] == ["stop", "again stop"]
    held.end.set()
    assert list(call) == []


@pytest.mark.parametrize("service", SERVICES)
def test_channels(client: Client, service: str) -> None:
    """Each channel has results of its own with its number, if that is wished."""
    left = say("left one")
    both = np.stack([left, np.resize(np.concatenate([say("right"), silence(3000)]), len(left))], 1)
    if service == V2:
        decoding = {**linear(service)["explicit_decoding_config"], "audio_channel_count": 2}
        config: dict[str, Any] = {
            **linear(service),
            "explicit_decoding_config": decoding,
            "features": {"multi_channel_mode": 1},
        }
    else:
        config = {**LINEAR, "audio_channel_count": 2, "enable_separate_recognition_per_channel": True}
    for results in (
        finals(client.stream(service, both.tobytes(), config)),
        client.recognise(service, recording(both), config).results,
    ):
        assert {result.channel_tag: result.alternatives[0].transcript.strip() for result in results} == {
            1: "left one",
            2: "right",
        }


def test_mu_law(client: Client) -> None:
    """Samples of the telephone are recognised."""
    coded = recording(TALK, "RAW", "ULAW")
    config = {"encoding": 3, "sample_rate_hertz": 16_000, "language_code": "en-US"}
    assert text_of(finals(client.stream(V1, coded, config))) == "hello world goodbye"


def test_the_models(client: Client) -> None:
    """Riva's client finds each model for live speech and for recordings."""
    answer = client.unary(RIVA, "GetRivaSpeechRecognitionConfig", message(RIVA, "RivaSpeechRecognitionConfigRequest"))
    assert [(each.model_name, dict(each.parameters)) for each in answer.model_config] == [
        ("default", {"type": kind, "language_code": "en-US"}) for kind in ("online", "offline")
    ]
