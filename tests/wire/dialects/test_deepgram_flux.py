"""The format of Deepgram's Flux: the address, turns with all their fields, other thresholds, containers, the end."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from streamer.base.codes import ErrorCode
from streamer.base.events import Done, Error, Flushed, Turn, TurnState
from streamer.wire.dialects import deepgram_flux
from streamer.wire.dialects.deepgram_flux import DeepgramFlux
from streamer.wire.dialects.dialect import FLUSH, KEEPALIVE, STOP, Hangup, Reply
from streamer.wire.errors import WireError
from streamer.wire.upload import Problem
from tests.wire.dialects.dialect_steps import final, opened, partial, replies, stands_on_the_page, started, take, told

LINEAR = "encoding=linear16&sample_rate=16000"
SECOND = bytes(32_000)
FIELDS = {"type", "request_id", "sequence_id", "event", "turn_index", "audio_window_start", "audio_window_end"}
FIELDS |= {"transcript", "words", "end_of_turn_confidence"}


def client_of(query: str = "") -> DeepgramFlux:
    """Return a websocket on which audio has come."""
    client = opened(DeepgramFlux, f"{LINEAR}&{query}")
    list(client.greet())
    take(client, SECOND)
    return client


def turn(state: TurnState, probability: float = 0.9, audio_ms: int = 1500) -> Turn:
    """Return an event about a turn."""
    return Turn(state, 0, probability, audio_ms)


def configured(client: DeepgramFlux, **change: Any) -> dict[str, Any]:
    """Change options, and return the answer."""
    [answer] = replies(take(client, json.dumps({"type": "Configure", **change})))
    return dict(answer)


def test_the_page_has_the_options() -> None:
    """The table of the page is the one of the code."""
    assert stands_on_the_page("the options of Flux", deepgram_flux.OPTIONS)


@pytest.mark.parametrize(
    ("query", "eagerness", "pause_ms"),
    [
        ("", "medium", 2000),
        ("eot_threshold=0.7&eot_timeout_ms=5000", "medium", 5000),
        ("eot_threshold=0.5&eot_timeout_ms=60000", "high", 10_000),
        ("eot_threshold=0.85&eot_timeout_ms=10", "low", 400),
        ("eot_threshold=&eot_timeout_ms=", "medium", 2000),
    ],
)
def test_thresholds(query: str, eagerness: str, pause_ms: int) -> None:
    """They choose how eager the recogniser is, and the longest pause."""
    start = started(take(opened(DeepgramFlux, f"{LINEAR}&{query}"), SECOND))
    assert start["endpoint"] == {"turn": True, "eagerness": eagerness, "longest_pause_ms": pause_ms}
    assert (start["written"], start["encoding"], start["second_pass"]) == (True, "pcm_s16le", "reader")


def test_options_of_the_address() -> None:
    """Terms to listen for are hotwords; hints about the language and labels are no reason for a refusal."""
    query = (
        "model=fine&keyterm=Ada&keyterm=Grace&language_hint=xx&language_hint=de&tag=a&mip_opt_out=true&numerals=true"
    )
    start = started(take(opened(DeepgramFlux, f"{LINEAR}&{query}&profanity_filter=true&redact=false"), SECOND))
    assert [word["text"] if isinstance(word, dict) else word for word in start["hotwords"]] == ["Ada", "Grace"]
    assert (start["model"], start["language"], start["profanity"]) == ("fine", "de-DE", "mask")
    other = started(take(opened(DeepgramFlux, f"{LINEAR}&model=flux-general-multi&language_hint=xx"), SECOND))
    assert (other["model"], other["language"]) == ("default", "auto")


@pytest.mark.parametrize("query", ["eot_threshold=much", "eager_eot_threshold=7", "redact=numbers", "channels=2"])
def test_refusals(query: str) -> None:
    """What makes no sense, and what a client would rely on, is refused before the upgrade, in Deepgram's form."""
    with pytest.raises(WireError):
        opened(DeepgramFlux, f"{LINEAR}&{query}")
    status, text = DeepgramFlux.refusal(ErrorCode.UNAUTHORIZED, "No.", 401, "ab")
    assert (status, set(json.loads(text))) == (401, {"err_code", "err_msg", "request_id"})


def test_connected_comes_first() -> None:
    """Its clients send no audio before it; every message has its number."""
    client = opened(DeepgramFlux, LINEAR)
    assert replies(client.greet()) == [{"type": "Connected", "request_id": "ab-12", "sequence_id": 0}]
    take(client, SECOND)
    assert [message["sequence_id"] for message in told(client, partial("a"), partial("b"))] == [1, 2]


def test_a_turn() -> None:
    """Each message has the whole turn and all fields; its end says why it ended."""
    client = client_of()
    last = replace(final("Hello there.", 200), turn=0.9)
    begun, grown, ended = told(client, partial("hel", 200), partial("hello", 200), last, turn(TurnState.END))
    assert [message["event"] for message in (begun, grown, ended)] == ["StartOfTurn", "Update", "EndOfTurn"]
    assert set(begun) == FIELDS
    assert set(ended) == FIELDS | {"trigger"}
    assert (ended["transcript"], ended["trigger"], ended["end_of_turn_confidence"]) == ("Hello there.", "model", 0.9)
    assert ended["words"][0] == {"word": "Hello", "confidence": 0.5, "start": 0.2, "end": 0.3}
    assert (ended["turn_index"], ended["audio_window_start"], ended["audio_window_end"]) == (0, 0.2, 1.5)
    assert begun["words"][0]["confidence"] == 0.0
    assert told(client, partial("next", 3000))[0]["turn_index"] == 1


def test_eager_ends() -> None:
    """They come only if the client asked for them, and from its threshold on."""
    events = (turn(TurnState.EAGER, 0.6), turn(TurnState.RESUMED, 0.6))
    for query in ("", "eager_eot_threshold=0.7"):
        assert told(client_of(query), partial("so"), *events)[1:] == []
    eager, resumed = told(client_of("eager_eot_threshold=0.4"), partial("so"), *events)[1:]
    assert (eager["event"], eager["transcript"]) == ("EagerEndOfTurn", "so")
    assert (resumed["event"], resumed["end_of_turn_confidence"]) == ("TurnResumed", 0.6)


def test_the_client_ends_a_turn() -> None:
    """`ForceEndTurn` makes everything final, and the end says whose it was."""
    client = client_of()
    assert take(client, '{"type":"ForceEndTurn"}') == [FLUSH]
    messages = told(client, partial("hel"), final("hello"), Flushed(1000))
    assert (messages[-1]["event"], messages[-1]["trigger"]) == ("EndOfTurn", "manual")


def test_other_thresholds() -> None:
    """They are confirmed with all that counts now, and the next turn has them."""
    client = client_of("eot_threshold=0.8&keyterm=Ada")
    same = configured(client, thresholds={"eot_threshold": None}, keyterms=None, language_hints=None)
    assert (same["type"], same["thresholds"], same["keyterms"]) == ("ConfigureSuccess", {"eot_threshold": 0.8}, ["Ada"])
    assert take(client, SECOND) == [SECOND]
    changed = configured(client, thresholds={"eot_threshold": 0.5, "eager_eot_threshold": 0.4}, keyterms=["Bo"])
    assert changed["thresholds"] == {"eot_threshold": 0.5, "eager_eot_threshold": 0.4}
    assert (changed["sequence_id"], changed["keyterms"]) == (2, ["Bo"])
    stop, *steps = take(client, SECOND)
    assert (stop, started(steps)["endpoint"]["eagerness"], started(steps)["hotwords"]) == (STOP, "high", ["Bo"])


def test_another_language() -> None:
    """A hint about the language counts from the next turn on, and later answers still have it."""
    client = client_of("model=fine")
    assert configured(client, language_hints=["xx", "de"])["language_hints"] == ["xx", "de"]
    stop, *steps = take(client, SECOND)
    assert (stop, started(steps)["language"]) == (STOP, "de-DE")
    assert configured(client, keyterms=["Ada"])["language_hints"] == ["xx", "de"]
    assert "language_hints" not in configured(client, language_hints=[])
    stop, *steps = take(client, SECOND)
    assert (stop, started(steps)["language"], started(steps)["hotwords"]) == (STOP, "auto", ["Ada"])


@pytest.mark.parametrize(
    "change",
    [
        {"thresholds": {"eot_threshold": "much"}},
        {"thresholds": {"eager_eot_threshold": True}},
        {"thresholds": [1]},
        {"thresholds": {"eot_timeout_ms": 10**400}},
        {"keyterms": [5]},
        {"language_hints": {}},
    ],
)
def test_thresholds_that_make_no_sense(change: dict[str, Any]) -> None:
    """They change nothing, and the client learns why."""
    client = client_of()
    answer = configured(client, **change)
    assert (answer["type"], answer["code"]) == ("ConfigureFailure", "BAD_OPTION")
    assert len(answer["description"].split()) > 4
    assert take(client, SECOND) == [SECOND]


def test_unknown_messages() -> None:
    """They get a warning, because an error would end the session of the client."""
    for text in ("{", "[1]", '{"type":"Dance"}', "[" * 5000, '{"type":["a"]}'):
        [warning] = replies(take(client_of(), text))
        assert (warning["type"], warning["code"]) == ("Warning", "UNPARSABLE_CLIENT_MESSAGE")
    assert take(client_of(), '{"type":"KeepAlive"}') == [KEEPALIVE]


def test_the_end() -> None:
    """The last turn ends too, and then comes a normal close."""
    client = client_of()
    assert take(client, '{"type":"CloseStream"}', SECOND) == [STOP, Hangup(1000)]
    messages = told(client, final("bye"), Done(1000))
    assert (messages[-1]["event"], messages[-1]["trigger"]) == ("EndOfTurn", "manual")
    assert client.close(1000, "") == (1000, "")


def test_failures() -> None:
    """A mistake of the client is an error; where another connection helps, only the close comes."""
    mistake = Error(ErrorCode.BAD_OPTION, "The hotwords are wrong.", fatal=True)
    [error] = told(client_of(), mistake)
    assert (error["type"], error["code"], error["description"]) == ("Error", "BAD_OPTION", "The hotwords are wrong.")
    assert told(client_of(), Error(ErrorCode.SHUTTING_DOWN, "The service ends.", fatal=True)) == []
    assert client_of().close(4000, "wrong") == (1008, "wrong")


def test_a_container() -> None:
    """Without an encoding, audio is decoded first, in one session whose options stay."""
    client = opened(DeepgramFlux, "model=flux-general-en&eager_eot_threshold=0.4")
    assert (client.container, client.successive, client.subprotocols) == (True, False, ("token", "bearer"))
    connected, begin = client.greet()
    assert "encoding" not in started([begin])
    assert replies([connected])[0]["type"] == "Connected"
    assert take(client, b"", b"RIFF") == [b"RIFF"]
    assert configured(client, thresholds={"eot_threshold": 0.5})["code"] == "UNSUPPORTED"
    assert configured(client, thresholds={"eager_eot_threshold": 0.4})["type"] == "ConfigureSuccess"
    fine = opened(DeepgramFlux, "model=fine")
    list(fine.greet())
    assert configured(fine, language_hints=["de"])["code"] == "UNSUPPORTED"
    assert take(client, '{"type":"ForceEndTurn"}', '{"type":"CloseStream"}') == [FLUSH, STOP]
    assert list(client.undecodable(Problem(ErrorCode.DAMAGED_AUDIO, "Cut."))) == [STOP]
    assert client.close(1000, "") == (1000, "")


def test_a_container_that_cannot_be_decoded() -> None:
    """The close says so."""
    client = opened(DeepgramFlux, "model=flux-general-en")
    assert list(client.undecodable(Problem(ErrorCode.UNKNOWN_FORMAT, "No."))) == [STOP]
    assert client.close(1000, "") == (1008, "DATA-0000")


def test_a_text_that_cannot_be_sent_back() -> None:
    """JSON may name characters that do not exist. Other options have them in their answer, so they are refused."""
    client = opened(DeepgramFlux, "encoding=linear16&sample_rate=16000")
    steps = take(client, '{"type":"Configure","keyterms":["\\ud800"]}')
    assert replies(steps)[0]["type"] == "ConfigureFailure"
    [reply] = steps
    assert isinstance(reply, Reply)
    assert reply.text.encode()
