"""What dialects without a start have in common: options of the query, sessions that begin with audio, and times."""

from __future__ import annotations

import pytest

from streamer.base.codes import ErrorCode
from streamer.base.json_types import JsonObject
from streamer.wire.dialects.audio_first import OPTIONS, AudioFirst
from streamer.wire.dialects.dialect import STOP, Step
from streamer.wire.errors import WireError
from tests.wire.dialects.dialect_steps import opened, started


class Plain(AudioFirst):
    """Such a dialect, without messages of its own."""

    protocol = "plain"
    path = "/plain"
    written = False

    def options(self) -> JsonObject:
        return {"partial_words": True}

    def receive(self, message: str | bytes) -> list[Step]:
        assert isinstance(message, bytes)
        return list(self.hear(message))

    def tell(self, message: object) -> list[str]:
        return []


def test_the_first_audio_begins_a_session() -> None:
    """Nothing is started before it, and nothing is started again."""
    plain = opened(Plain)
    assert plain.greet() == ()
    first = plain.receive(bytes(640))
    assert started(first)["second_pass"] == "reader"
    assert first[1:] == [bytes(640)]
    assert plain.receive(bytes(640)) == [bytes(640)]


def test_options_in_the_query() -> None:
    """They have their names in the protocol. What the format fixes, and what nobody knows, is ignored."""
    plain = opened(
        Plain, "written=true&hotwords=Ada,Grace&model=fine&language=de&partial_words=false&channels=2&colour=red"
    )
    start = started(plain.receive(bytes(2)))
    assert (start["written"], start["hotwords"]) == (True, ["Ada", "Grace"])
    assert (start["model"], start["language"], start["partial_words"]) == ("fine", "de-DE", True)
    assert (start["channels"], "colour" in start) == (1, False)
    assert {"encoding", "sample_rate", "channels", "words"}.isdisjoint(OPTIONS)


@pytest.mark.parametrize("query", ["language=fr", "step_ms=7", "written=perhaps", "hotwords=[1]"])
def test_an_option_that_makes_no_sense(query: str) -> None:
    """It refuses the request, before the websocket is open."""
    with pytest.raises(WireError):
        opened(Plain, query)


@pytest.mark.parametrize("query", ["written=", "language=", "model=whisper-1", "language=en-US", "settle_ms=800"])
def test_an_option_that_is_no_reason_to_refuse(query: str) -> None:
    """An empty one, an unknown model, and one that excludes a second pass."""
    start = started(opened(Plain, query).receive(bytes(2)))
    assert (start["model"], start["written"]) == ("default", False)
    assert ("second_pass" in start) == ("settle" not in query)


def test_samples_may_be_cut_anywhere() -> None:
    """Only whole samples go on, and none is lost."""
    plain = opened(Plain)
    assert plain.receive(b"a") == []
    assert plain.receive(b"bc")[1:] == [b"ab"]
    assert plain.receive(b"d") == [b"cd"]


def test_a_rest_ends_the_session_and_keeps_the_time() -> None:
    """The next audio begins another session, whose times go on where the last one ended."""
    plain = opened(Plain)
    assert list(plain.rest()) == []
    plain.receive(bytes(32_000))
    assert (list(plain.rest()), plain.base_ms, plain.sent_ms) == ([STOP], 0, 1000)
    assert started(plain.receive(bytes(16_000)))
    assert (plain.base_ms, plain.sent_ms) == (1000, 1500)


def test_a_rest_within_a_sample() -> None:
    """The second byte of a sample may come after a rest."""
    plain = opened(Plain)
    plain.receive(b"abc")
    assert list(plain.rest()) == [STOP]
    assert plain.receive(b"d")[1:] == [b"cd"]


def test_refusals_and_closes() -> None:
    """These clients know no codes of the protocol; a refusal has its JSON."""
    status, text = Plain.refusal(ErrorCode.FULL, "Try again.", 503, "ab-12")
    assert (status, text) == (503, '{"error":{"code":"full","message":"Try again."}}\n')
    plain = opened(Plain)
    assert [plain.close(code, "why")[0] for code in (1000, 1011, 1013, 4008, 4029)] == [1000, 1011, 1013, 1008, 1008]
