"""The format of AssemblyAI: the address, turns that end once or twice, speakers, other options, and the end."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from streamer.base.codes import ErrorCode
from streamer.base.events import Done, Error, Flushed, Turn, TurnState
from streamer.wire.dialects import assemblyai
from streamer.wire.dialects.assemblyai import AssemblyAI
from streamer.wire.dialects.dialect import FLUSH, KEEPALIVE, STOP, Hangup
from streamer.wire.errors import WireError
from streamer.wire.upload import Problem
from tests.wire.dialects.dialect_steps import (
    final,
    opened,
    partial,
    replies,
    stands_on_the_page,
    started,
    take,
    told,
)

RATE = "sample_rate=16000"
SECOND = bytes(32_000)
END = Turn(TurnState.END, 0, 0.9, 1500)


def client_of(query: str = "") -> AssemblyAI:
    """Return a websocket on which audio has come."""
    client = opened(AssemblyAI, f"{RATE}&{query}")
    take(client, SECOND)
    return client


def start_of(query: str) -> dict[str, Any]:
    """Return the options of the session with this address."""
    return started(take(opened(AssemblyAI, f"{RATE}&{query}"), SECOND))


def ended_turn(text: str = "Hello, world.") -> Any:
    """Return the messages of a turn whose words have a written and a spoken form."""
    last = final(text)
    words = tuple(replace(word, spoken=word.word.strip(",.").lower(), speaker=1) for word in last.words or ())
    return partial("hel"), replace(last, words=words, turn=0.9), END


def test_the_page_has_the_options() -> None:
    """The table of the page is the one of the code."""
    assert stands_on_the_page("the options of AssemblyAI", assemblyai.OPTIONS)


@pytest.mark.parametrize(
    ("query", "eagerness", "pause_ms"),
    [
        ("", "medium", 2000),
        ("min_turn_silence=100&max_turn_silence=100", "medium", 400),
        ("end_of_turn_confidence_threshold=0.2&max_turn_silence=2400", "high", 2400),
        ("end_of_turn_confidence_threshold=1.0&max_turn_silence=99999", "low", 10_000),
        ("mode=min_latency", "high", 2000),
        ("mode=max_accuracy", "low", 2000),
        ("mode=max_accuracy&end_of_turn_confidence_threshold=0.4", "medium", 2000),
    ],
)
def test_ends_of_turns(query: str, eagerness: str, pause_ms: int) -> None:
    """What the client says about them chooses how eager the recogniser is, and the longest pause."""
    assert start_of(query)["endpoint"] == {"turn": True, "eagerness": eagerness, "longest_pause_ms": pause_ms}


def test_options_of_the_address() -> None:
    """As the SDK and the plugins write them."""
    query = 'speech_model=fine&keyterms_prompt=["Ada","Grace"]&language_codes=["de"]&filter_profanity=True'
    start = start_of(f"{query}&speaker_labels=true&format_turns=true&language_detection=true&prompt={'a' * 5000}")
    assert (start["model"], start["language"], start["hotwords"]) == ("fine", "de-DE", ["Ada", "Grace"])
    assert (start["profanity"], start["speakers"], start["written"]) == ("mask", True, True)
    assert (start["encoding"], start["sample_rate"]) == ("pcm_s16le", 16_000)
    assert start_of("encoding=pcm_mulaw&include_partial_turns=false")["partials"] is False
    assert start_of("redact_pii=false&webhook_url=&speaker_labels=False")["speakers"] is False


@pytest.mark.parametrize(
    "query",
    [
        "",
        f"{RATE}&encoding=opus",
        f"{RATE}&redact_pii=true",
        f"{RATE}&webhook_url=http://a",
        f"{RATE}&max_turn_silence=long",
        f"{RATE}&language_codes=[1",
        f"{RATE}&language_codes=xx",
        "sample_rate=7",
    ],
)
def test_refusals(query: str) -> None:
    """What makes no sense, and what a client would rely on, is refused before the upgrade with a sentence."""
    with pytest.raises(WireError):
        opened(AssemblyAI, query)
    status, text = AssemblyAI.refusal(ErrorCode.UNAUTHORIZED, "No.", 401, "ab")
    assert (status, json.loads(text)) == (401, {"error": "No."})


def test_the_first_message() -> None:
    """It has a name and an end of the session, which never comes."""
    client = opened(AssemblyAI, "sample_rate=8000")
    assert replies(client.greet()) == [{"type": "Begin", "id": "ab-12", "expires_at": "2099-12-31T23:59:59Z"}]


def test_a_turn_of_an_older_model() -> None:
    """It ends once, as it was spoken; with marks it ends twice, as the original does."""
    started, first, ended = told(client_of(), *ended_turn("hello world"))
    assert (started["type"], started["timestamp"]) == ("SpeechStarted", 0)
    assert (first["transcript"], first["end_of_turn"], first["words"][0]["word_is_final"]) == ("hel", False, False)
    assert set(first) == {
        *("type", "turn_order", "turn_is_formatted", "end_of_turn", "transcript", "end_of_turn_confidence", "words")
    }
    assert (ended["transcript"], ended["end_of_turn"], ended["turn_is_formatted"]) == ("hello world", True, False)
    assert ended["words"][1] == {"start": 100, "end": 200, "text": "world", "confidence": 0.5, "word_is_final": True}
    *_, spoken, written = told(client_of("format_turns=True"), *ended_turn())
    assert (spoken["transcript"], spoken["turn_is_formatted"], spoken["end_of_turn"]) == ("hello world", False, True)
    assert (written["transcript"], written["turn_is_formatted"]) == ("Hello, world.", True)
    assert spoken["turn_order"] == written["turn_order"] == 0


def test_a_turn_of_a_newer_model() -> None:
    """It always has marks, and ends once."""
    client = client_of("speech_model=universal-3-6-pro&format_turns=true")
    *_, ended = messages = told(client, *ended_turn())
    assert (len(messages), ended["turn_is_formatted"], ended["end_of_turn_confidence"]) == (3, True, 0.9)


def test_speakers() -> None:
    """Words and turns have letters."""
    *_, ended = told(client_of("speaker_labels=true"), *ended_turn())
    assert (ended["speaker_label"], {word["speaker"] for word in ended["words"]}) == ("B", {"B"})
    *_, nobody = told(client_of("speaker_labels=true"), final("so"), END)
    assert (nobody["speaker_label"], nobody["words"][0]["speaker"]) == ("UNKNOWN", "UNKNOWN")


def test_a_turn_that_is_held_open() -> None:
    """Its confidence says how probably it is over."""
    events = (Turn(TurnState.EAGER, 0, 0.6, 1200), Turn(TurnState.RESUMED, 0, 0.6, 1500))
    eager, resumed = told(client_of(), partial("so"), *events)[2:]
    assert (eager["end_of_turn_confidence"], resumed["end_of_turn_confidence"]) == (0.6, 0.0)
    assert told(client_of("include_partial_turns=false"), partial("so"), *events)[1:] == []


def test_the_client_ends_a_turn() -> None:
    """`ForceEndpoint` makes everything final."""
    client = client_of()
    assert take(client, '{"type":"ForceEndpoint"}', '{"type":"KeepAlive"}') == [FLUSH, KEEPALIVE]
    assert take(opened(AssemblyAI, RATE), '{"type":"KeepAlive"}') == []
    assert told(client, final("hello"), Flushed(1000))[-1]["end_of_turn"] is True


def test_other_options() -> None:
    """They count from the next turn on; what makes no sense changes nothing, and the client is warned."""
    client = client_of()
    update = {"type": "UpdateConfiguration", "max_turn_silence": 600, "format_turns": True, "keyterms_prompt": ["Ada"]}
    assert take(client, json.dumps({**update, "prompt": None})) == []
    stop, *steps = take(client, SECOND)
    assert (stop, started(steps)["endpoint"]["longest_pause_ms"], started(steps)["hotwords"]) == (STOP, 600, ["Ada"])
    assert take(client, json.dumps(update)) == []
    assert take(client, SECOND) == [SECOND]
    for name, wrong in (("max_turn_silence", "long"), ("keyterms_prompt", [5]), ("format_turns", {})):
        [warning] = replies(take(client, json.dumps({"type": "UpdateConfiguration", name: wrong})))
        assert (warning["type"], warning["warning_code"]) == ("Warning", 3006)
    assert take(client, SECOND) == [SECOND]


def test_unknown_messages() -> None:
    """They get a warning, and the session goes on."""
    for text in ("{", "[1]", '{"type":"Dance"}', "[" * 5000, '{"type":["a"]}'):
        assert replies(take(client_of(), text))[0]["type"] == "Warning"


def test_the_end() -> None:
    """The last turn ends, then the length of the audio comes, then a normal close."""
    client = client_of()
    assert take(client, '{"type":"Terminate"}', SECOND) == [STOP, Hangup(1000)]
    *_, ended, termination = told(client, final("bye"), Done(1000))
    assert ended["end_of_turn"]
    assert termination == {"type": "Termination", "audio_duration_seconds": 1, "session_duration_seconds": 1}
    silent = opened(AssemblyAI, RATE)
    steps = take(silent, '{"type":"Terminate"}')
    assert (replies(steps)[0]["audio_duration_seconds"], steps[-1]) == (0, Hangup(1000))


@pytest.mark.parametrize(
    ("code", "native", "close", "told_code"),
    [
        (ErrorCode.TOO_FAST, 4029, 4029, 4029),
        (ErrorCode.BAD_OPTION, 4000, 3006, 3006),
        (ErrorCode.FAILED, 1011, 3005, None),
        (ErrorCode.SHUTTING_DOWN, 1013, 1013, None),
        (ErrorCode.ENDED_BY_OPERATOR, 1008, 3005, 3005),
        (ErrorCode.SESSION_EXPIRED, 1000, 4031, None),
    ],
)
def test_failures(code: ErrorCode, native: int, close: int, told_code: int | None) -> None:
    """The close has a code that the client knows; where another connection helps, no error comes before it."""
    client = client_of()
    errors = told(client, Error(code, "So it is.", fatal=True))
    assert [error["error_code"] for error in errors] == ([] if told_code is None else [told_code])
    assert client.close(native, "So it is.") == (close, "So it is.")


def test_a_timeout_of_the_client() -> None:
    """It may say how long it wants to be silent."""
    client = opened(AssemblyAI, f"{RATE}&inactivity_timeout=20")
    assert (client.rest_after_s, client.idle_s) == (10, 10)
    assert opened(AssemblyAI, "encoding=ogg_opus&inactivity_timeout=20").idle_s == 20


def test_a_container() -> None:
    """Its audio is decoded first; the last message comes when all is recognised."""
    client = opened(AssemblyAI, "encoding=ogg_opus")
    assert (client.container, client.successive) == (True, False)
    _, begin = client.greet()
    assert "sample_rate" not in started([begin])
    assert (started([begin])["model"], started([begin])["second_pass"]) == ("default", "reader")
    [warning] = replies(take(client, b"OggS", '{"type":"UpdateConfiguration","mode":"min_latency"}')[1:])
    assert "container" in warning["warning"]
    assert take(client, '{"type":"Terminate"}') == [STOP]
    assert told(client, Done(2000))[-1]["audio_duration_seconds"] == 2
    broken = opened(AssemblyAI, "encoding=aac")
    assert list(broken.undecodable(Problem(ErrorCode.UNKNOWN_FORMAT, "No."))) == [STOP]
    assert broken.close(1000, "")[0] == 3006
