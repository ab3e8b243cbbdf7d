"""Recordings that are recognised while their clients do not wait, with real calls, and how long results are kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamer.base.codes import ErrorCode
from streamer.bridge.access.keys import KeyFile
from streamer.bridge.access.quotas import Caller
from streamer.bridge.access.rules import AccessRules, PortPolicy
from streamer.bridge.grpc.messages import message_class
from streamer.bridge.grpc.operations import KEPT_S, MOST, MOST_OF_CALLER, Operations
from streamer.bridge.upstreams.admission import Refused
from streamer.testing import say
from streamer.testing.exact_service import ExactService
from streamer.wire.dialects.grpc_speech import Status
from streamer.wire.errors import WireError
from tests.bridge.access.bare_port import ALICE, BOB
from tests.bridge.grpc.conftest import ANY
from tests.bridge.grpc.grpc_client import V1, V2, Client, message, refusal, text_of

ANNA = Caller("10.0.0.1")


@pytest.fixture
def client(exact: ExactService) -> Iterator[Client]:
    """Provide a connection to the service."""
    with Client(exact.grpc_port) as connected:
        yield connected


def results(operation: Any) -> Any:
    """Return the results of an operation."""
    response = message_class("google.cloud.speech.v1.LongRunningRecognizeResponse")()
    assert operation.response.type_url.endswith(f"/{response.DESCRIPTOR.full_name}")
    response.ParseFromString(operation.response.value)
    return response.results


def test_a_recording(client: Client) -> None:
    """The operation comes at once, and later its result, as often as it is asked for."""
    begun = client.begin(say("hello world").tobytes())
    assert (begun.done, bool(begun.name)) == (False, True)
    for operation in (client.result(begun.name), client.ask(begun.name)):
        assert text_of(results(operation)) == "hello world"
        metadata = message_class("google.cloud.speech.v1.LongRunningRecognizeMetadata")()
        metadata.ParseFromString(operation.metadata.value)
        assert metadata.progress_percent == 100
        assert metadata.last_update_time.seconds >= metadata.start_time.seconds > 0


def test_several_at_a_time(exact: ExactService, client: Client) -> None:
    """Each has its own words, also for a client that has lost its connection."""
    with Client(exact.grpc_port) as lost:
        names = [lost.begin(say(text).tobytes()).name for text in ("hello", "goodbye")]
    texts = [text_of(results(client.result(name))) for name in names]
    assert texts == ["hello", "goodbye"]


def test_a_recording_that_fails(client: Client) -> None:
    """The operation ends with the status that a call would have."""
    request = message(V1, "LongRunningRecognizeRequest", config={"language_code": "en"}, audio={"content": b"RIFFnone"})
    operation = client.result(client.unary(V1, "LongRunningRecognize", request).name)
    assert operation.error.code == Status.INVALID_ARGUMENT
    assert operation.error.message
    assert not operation.response.value


def test_what_is_refused(client: Client) -> None:
    """A bucket, an empty recording, and several recordings of a bucket; none leaves an operation."""
    bucket = message(V1, "LongRunningRecognizeRequest", config={"language_code": "en"}, audio={"uri": "gs://a/b"})
    status, sentence = refusal(lambda: client.unary(V1, "LongRunningRecognize", bucket))
    assert (status, "fetches no recording" in sentence) == ("INVALID_ARGUMENT", True)
    assert refusal(lambda: client.begin(b""))[0] == "INVALID_ARGUMENT"
    status, sentence = refusal(lambda: client.unary(V2, "BatchRecognize", message(V2, "BatchRecognizeRequest")))
    assert (status, "Recognize" in sentence) == ("INVALID_ARGUMENT", True)


def test_an_end_by_the_client(client: Client) -> None:
    """A cancelled operation has a status, and a deleted one is gone; so is one that never was."""
    name = client.begin(say("hello").tobytes() * 50).name
    client.ask(name, "CancelOperation")
    operation = client.result(name)
    assert operation.error.code in (Status.CANCELLED, Status.OK)  # it may have been faster
    client.ask(name, "DeleteOperation")
    for method in ("GetOperation", "CancelOperation", "DeleteOperation"):
        assert refusal(lambda method=method: client.ask(name, method))[0] == "NOT_FOUND"


def test_keys(tmp_path: Path) -> None:
    """A result is for the key that asked for it, and for nobody else."""
    (keys := tmp_path / "keys").write_text(f"{ALICE.line}\n{BOB.line}\n")
    alice, bob = [(("x-goog-api-key", key.secret),) for key in (ALICE, BOB)]
    policy = PortPolicy(AccessRules(KeyFile(keys)), grpc=ANY)
    with ExactService(slots=3, policy=policy) as service, Client(service.grpc_port) as client:
        name = client.begin(say("hello").tobytes(), alice).name
        assert refusal(lambda: client.ask(name, metadata=bob))[0] == "NOT_FOUND"
        assert refusal(lambda: client.ask(name))[0] == "UNAUTHENTICATED"
        assert text_of(results(client.result(name, alice))) == "hello"


def test_how_long_results_are_kept() -> None:
    """They go after a while; operations that run do not."""
    now = 0.0
    kept = Operations(lambda: now)
    ended, running = kept.begin(ANNA), kept.begin(ANNA)
    kept.end(ended, Status.OK, "")
    now = KEPT_S - 1
    assert kept.find(ended.name, ANNA) is ended
    now = KEPT_S
    assert kept.find(running.name, ANNA) is running
    with pytest.raises(WireError) as gone:
        kept.find(ended.name, ANNA)
    assert gone.value.code is ErrorCode.NOT_FOUND


def test_how_many_are_kept() -> None:
    """The oldest result of a caller makes room for its next operation; others lose nothing by that."""
    kept = Operations()
    other = kept.begin(Caller("10.0.0.2"))
    kept.end(other, Status.OK, "")
    own = [kept.begin(ANNA) for _ in range(MOST_OF_CALLER)]
    with pytest.raises(Refused) as refused:
        kept.begin(ANNA)
    assert refused.value.code is ErrorCode.TOO_MANY_SESSIONS
    kept.end(own[3], Status.OK, "")
    kept.begin(ANNA)
    with pytest.raises(WireError):
        kept.find(own[3].name, ANNA)
    assert kept.find(other.name, ANNA) is other
    for number in range(MOST - MOST_OF_CALLER - 1):
        kept.begin(Caller(f"10.0.{1 + number // 9}.3"))
    with pytest.raises(Refused) as full:
        kept.begin(Caller("10.1.0.9"))
    assert full.value.code is ErrorCode.BUSY
