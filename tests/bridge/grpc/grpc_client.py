"""A client of the port for gRPC, made of nothing but grpcio and the messages of the service."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

import grpc
import numpy as np

from streamer.bridge.grpc.messages import OPERATIONS, message_class
from streamer.bridge.grpc.messages import SERVICES as METHODS
from streamer.testing import say, silence
from streamer.testing.exact_speech import Audio
from tests.bridge.service_client import PATIENCE_S

RIVA: Final = "nvidia.riva.asr.RivaSpeechRecognition"
V1: Final = "google.cloud.speech.v1.Speech"
V2: Final = "google.cloud.speech.v2.Speech"
SERVICES: Final = (RIVA, V1, V2)
TALK: Final = np.concatenate([say("hello world"), silence(1500), say("goodbye")])
_AUDIO: Final = {RIVA: "audio_content", V1: "audio_content", V2: "audio"}
LINEAR: Final = {"encoding": 1, "sample_rate_hertz": 16_000, "language_code": "en-US"}
LINEAR_V2: Final = {
    "explicit_decoding_config": {"encoding": 1, "sample_rate_hertz": 16_000, "audio_channel_count": 1},
    "language_codes": ["en-US"],
}
Metadata = tuple[tuple[str, str], ...]


def linear(service: str) -> dict[str, Any]:
    """Return the configuration for samples of 16 bits at 16 kHz."""
    return dict(LINEAR_V2 if service == V2 else LINEAR)


def message(service: str, name: str, /, **fields: Any) -> Any:
    """Make a message of the package of a service."""
    return message_class(f"{service.rpartition('.')[0]}.{name}")(**fields)


def first(service: str, config: dict[str, Any] | None = None, **streaming: Any) -> Any:
    """Return the first request of a live session. `streaming`: fields besides the configuration of the recogniser."""
    config = linear(service) if config is None else config
    if service == V2 and streaming:
        streaming = {"streaming_features": streaming}
    return message(service, "StreamingRecognizeRequest", streaming_config={"config": config, **streaming})


def audio_of(service: str, audio: bytes) -> Any:
    """Return a request with audio."""
    return message(service, "StreamingRecognizeRequest", **{_AUDIO[service]: audio})


def pieces(audio: Audio | bytes, size: int = 6400) -> list[bytes]:
    """Divide audio."""
    data = audio if isinstance(audio, bytes) else audio.tobytes()
    return [data[place : place + size] for place in range(0, len(data), size)]


class Client:
    """One connection."""

    def __init__(self, port: int | None, credentials: Any = None, host: str = "127.0.0.1", ahead: int = 0) -> None:
        """`ahead`: how many bytes the client takes at most that its program has not read. 0: what gRPC chooses."""
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
        if ahead:
            options += [("grpc.http2.lookahead_bytes", ahead), ("grpc.http2.bdp_probe", 0)]
        address = f"{host}:{port}"
        if credentials is None:
            self.channel = grpc.insecure_channel(address, options)
        else:
            self.channel = grpc.secure_channel(address, credentials, options)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *details: object) -> None:
        self.channel.close()

    def call(self, service: str, requests: Iterable[Any], metadata: Metadata = (), timeout: float = PATIENCE_S) -> Any:
        """Begin a live session with these requests. Returns the call, whose responses can be iterated."""
        package = service.rpartition(".")[0]
        method = self.channel.stream_stream(
            f"/{service}/StreamingRecognize",
            request_serializer=lambda each: each if isinstance(each, bytes) else each.SerializeToString(),
            response_deserializer=message_class(f"{package}.StreamingRecognizeResponse").FromString,
        )
        return method(iter(requests), metadata=metadata, timeout=timeout)

    def stream(self, service: str, audio: Audio | bytes, config: Any = None, **streaming: Any) -> list[Any]:
        """Recognise audio in a live session. Returns all responses."""
        sent = [first(service, config, **streaming), *(audio_of(service, piece) for piece in pieces(audio))]
        return list(self.call(service, sent))

    def unary(self, service: str, method: str, request: Any, metadata: Metadata = ()) -> Any:
        """Call a method without streams."""
        package = service.rpartition(".")[0]
        answer = next(each.response for each in METHODS[service] if each.name == method)
        answer = answer if answer.startswith("google.") else f"{package}.{answer}"
        call = self.channel.unary_unary(
            f"/{service}/{method}",
            request_serializer=lambda each: each.SerializeToString(),
            response_deserializer=message_class(answer).FromString,
        )
        return call(request, metadata=metadata, timeout=PATIENCE_S)

    def begin(self, audio: bytes, metadata: Metadata = ()) -> Any:
        """Have a recording recognised without waiting for it. Returns the operation."""
        request = message(V1, "LongRunningRecognizeRequest", config=LINEAR, audio={"content": audio})
        return self.unary(V1, "LongRunningRecognize", request, metadata)

    def ask(self, name: str, method: str = "GetOperation", metadata: Metadata = ()) -> Any:
        """Ask for an operation."""
        return self.unary(OPERATIONS, method, message(OPERATIONS, f"{method}Request", name=name), metadata)

    def result(self, name: str, metadata: Metadata = ()) -> Any:
        """Wait for the end of an operation. Returns it."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if (operation := self.ask(name, metadata=metadata)).done:
                return operation
            time.sleep(0.05)
        raise AssertionError("the operation did not end")

    def recognise(self, service: str, audio: bytes, config: Any = None) -> Any:
        """Recognise a recording. Returns the response."""
        config = linear(service) if config is None else config
        places: dict[str, dict[str, Any]] = {RIVA: {"audio": audio}, V1: {"audio": {"content": audio}}}
        place = places.get(service, {"content": audio})
        return self.unary(service, "Recognize", message(service, "RecognizeRequest", config=config, **place))


def finals(responses: Iterable[Any]) -> list[Any]:
    """Return the results that never change."""
    return [result for response in responses for result in response.results if result.is_final]


def text_of(results: Iterable[Any]) -> str:
    """Return the transcripts of results, joined as they are."""
    return "".join(result.alternatives[0].transcript for result in results).strip()


def paced(requests: Iterable[Any], pause_s: float = 0.05) -> Iterator[Any]:
    """Yield requests one after another, with pauses."""
    for request in requests:
        yield request
        time.sleep(pause_s)


def refusal(call: Any) -> tuple[str, str]:
    """Return the status with which a call or a function fails, and its sentence."""
    try:
        list(call() if callable(call) and not hasattr(call, "code") else call)
    except grpc.RpcError as error:
        return error.code().name, error.details()
    return "OK", ""


class Held:
    """Requests of a client that goes on until it is told to end."""

    def __init__(self, *requests: Any) -> None:
        self._requests = requests
        self.end = threading.Event()

    def __iter__(self) -> Iterator[Any]:
        yield from self._requests
        assert self.end.wait(PATIENCE_S)
