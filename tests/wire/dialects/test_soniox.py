"""Soniox's realtime format: the first message, tokens that are final or may change, ends of turns, failures."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from streamer.base.codes import ErrorCode
from streamer.base.events import Done, Error, Flushed, Turn, TurnState
from streamer.wire.dialects import soniox
from streamer.wire.dialects.dialect import FLUSH, KEEPALIVE, STOP, Hangup
from streamer.wire.dialects.soniox import Soniox
from streamer.wire.upload import Problem
from tests.wire.dialects.dialect_steps import final, opened, partial, replies, stands_on_the_page, started, take, told

SECOND = bytes(32_000)
RAW = {"audio_format": "pcm_s16le", "sample_rate": 16_000, "num_channels": 1}
ENDS = {"enable_endpoint_detection": True}
OVER = Turn(TurnState.END, 0, 0.9, 3000)
FINALIZE = '{"type":"finalize"}'


def begin(**config: object) -> str:
    """Return the first message, as the SDK writes it; unset options are null."""
    usual = {"model": "stt-rt-v5", "language_hints": None, "context": None, "translation": None}
    return json.dumps({**usual, **config})


def client_of(**config: object) -> Soniox:
    """Return a websocket on which audio has come."""
    client = opened(Soniox)
    take(client, begin(**RAW, **config), SECOND)
    return client


def tokens(messages: list[Any]) -> list[tuple[str, bool]]:
    """Return the texts of tokens, and whether they are final."""
    return [(token["text"], token["is_final"]) for message in messages for token in message["tokens"]]


def test_the_page_has_the_config() -> None:
    """The table of the page is the one of the code."""
    assert stands_on_the_page("the config of Soniox", soniox.CONFIG)


def test_the_first_message() -> None:
    """It has no answer. The session begins with the audio."""
    client = opened(Soniox)
    config = {
        "model": "fine",
        "language_hints": ["xx", "de"],
        "context": {"terms": ["Ada", 7], "general": [{"key": "domain", "value": "history"}]},
        "enable_speaker_diarization": True,
        "max_endpoint_delay_ms": 1500,
        "client_reference_id": "me",
        "api_key": "any",
    }
    assert take(client, begin(**{**RAW, "num_channels": 2, "audio_format": "mulaw"}, **ENDS, **config)) == []
    start = started(take(client, SECOND))
    assert (start["model"], start["language"], start["hotwords"]) == ("fine", "de-DE", ["Ada"])
    assert (start["encoding"], start["sample_rate"], start["channels"]) == ("mulaw", 16_000, 2)
    assert (start["speakers"], start["endpoint"]["longest_pause_ms"]) == (True, 1500)
    usual = started(take(opened(Soniox), begin(**RAW), SECOND))
    assert (usual["turns"], usual["endpoint"], usual["written"]) == (False, {}, True)


def test_a_container() -> None:
    """It is what comes without a word about the audio."""
    client = opened(Soniox)
    steps = take(client, begin(), b"any bytes")
    assert (client.container, client.successive, steps[1]) == (True, False, b"any bytes")
    assert take(client, "") == [STOP]
    assert told(client, Done(1000))[-1]["finished"] is True
    none = opened(Soniox)
    take(none, begin(audio_format="auto"))
    error, stop = list(none.undecodable(Problem(ErrorCode.UNKNOWN_FORMAT, "This is no recording.")))
    assert (stop, replies([error])[0]["error_code"]) == (STOP, 415)
    assert (told(none, Done(0)), none.close(1000, "")[0]) == ([], 1008)


def test_tokens() -> None:
    """Final ones come once, and those that may change again and again. Joined, they are the text."""
    client = client_of(**ENDS, enable_language_identification=True)
    assert tokens(told(client, partial("hello wor", 100))) == [("hello", False), (" wor", False)]
    settled = told(client, replace(final("Hello world.", 100), turn=0.9), OVER)
    assert tokens(settled) == [("Hello", True), (" world.", True), ("<end>", True)]
    [message] = settled
    first = message["tokens"][0]
    assert (first["start_ms"], first["end_ms"], first["confidence"]) == (100, 200, 0.5)
    assert (message["final_audio_proc_ms"], message["total_audio_proc_ms"]) == (3000, 3000)
    assert tokens(told(client, partial("next", 4000))) == [(" next", False)]


def test_text_without_ends_of_turns() -> None:
    """Segments are final, and the turn goes on until the client ends it."""
    client = client_of()
    assert tokens(told(client, final("one", 0), partial("two", 1000))) == [("one", True), (" two", False)]
    assert take(client, FINALIZE) == [FLUSH]
    assert tokens(told(client, final("two", 1000), Flushed(2000))) == [(" two", True), ("<fin>", True)]


def test_finalize_is_always_answered() -> None:
    """Also if nothing was said, or no audio has come."""
    client = opened(Soniox)
    take(client, begin(**RAW))
    assert tokens(replies(take(client, FINALIZE))) == [("<fin>", True)]
    take(client, SECOND, FINALIZE)
    assert tokens(told(client, Flushed(1000))) == [("<fin>", True)]
    assert take(client, '{"type":"keepalive"}') == [KEEPALIVE]


def test_speakers() -> None:
    """Each final token has one."""
    client = client_of(enable_speaker_diarization=True)
    said = final("one two")
    spoken = tuple(replace(word, speaker=speaker) for word, speaker in zip(said.words or (), (0, 1), strict=True))
    [message] = told(client, replace(said, words=spoken))
    assert [token["speaker"] for token in message["tokens"]] == ["1", "2"]


def test_a_client_that_sends_nothing_any_more() -> None:
    """The session rests after a while: the turn ends, as after any long pause, and the websocket stays open."""
    client = client_of(**ENDS)
    resting = iter(client.rest())
    assert next(resting) == STOP
    messages = told(client, replace(final("bye"), turn=None), Done(1000))
    assert tokens(messages) == [("bye", True), ("<end>", True)]
    assert not any("finished" in message for message in messages)
    assert list(resting) == []


@pytest.mark.parametrize("end", ["", b""])
def test_the_end(end: str | bytes) -> None:
    """The last tokens come before it."""
    client = client_of(**ENDS)
    assert take(client, end, SECOND) == [STOP, Hangup(1000)]
    messages = told(client, replace(final("bye"), turn=None), Done(1000))
    assert tokens(messages) == [("bye", True)]
    assert messages[-1] == {"tokens": [], "final_audio_proc_ms": 1000, "total_audio_proc_ms": 1000, "finished": True}
    silent = opened(Soniox)
    assert replies(take(silent, begin(**RAW), end))[0]["finished"] is True


@pytest.mark.parametrize(
    "messages",
    [
        [b"audio"],
        ["{"],
        [begin(audio_format="opus")],
        [begin(audio_format="pcm_s16le")],
        [begin(**{**RAW, "num_channels": 99})],
        [begin(**RAW, translation={"type": "one_way"})],
        [begin(**RAW, enable_endpoint_detection="perhaps")],
        [begin(**RAW), '{"type":"sing"}'],
    ],
)
def test_mistakes(messages: list[str | bytes]) -> None:
    """They end the session, after an error with a status and a sentence."""
    client = opened(Soniox)
    steps = take(client, *messages)
    [error] = replies(steps)
    assert (error["tokens"], error["error_code"], len(error["error_message"].split()) > 3) == ([], 400, True)
    assert isinstance(steps[-1], Hangup)


def test_failures_and_refusals() -> None:
    """An error has the status that fits, and so has a refusal."""
    statuses = {
        ErrorCode.FULL: 503,
        ErrorCode.AUDIO_USED_UP: 402,
        ErrorCode.IDLE: 408,
        ErrorCode.ENDED_BY_OPERATOR: 403,
    }
    for code, status in statuses.items():
        [error] = told(client_of(), Error(code, "A reason.", fatal=True))
        assert (error["error_code"], error["error_message"]) == (status, "A reason.")
    status, text = Soniox.refusal(ErrorCode.UNAUTHORIZED, "No.", 401, "ab")
    assert (status, json.loads(text)) == (401, {"tokens": [], "error_code": 401, "error_message": "No."})
