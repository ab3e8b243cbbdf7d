"""The options of a session: which are accepted or refused, and that the recogniser agrees."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

from streamer.audio.decoder import ENCODINGS as DECODED
from streamer.base import limits
from streamer.base.options import ENCODINGS, RECOGNISER_OPTIONS, Endpoint, Hotword
from streamer.base.text_context import ContextWord, TextContext
from streamer.engine import stream_options as engine
from streamer.wire.errors import WireError
from streamer.wire.native import encode, parse
from streamer.wire.options import Start, with_second_pass

WORDS = [{"word": "a", "pause_ms": 0}]
CONTEXT: dict[str, Any] = {"begins": True, "words": WORDS}


def start(**given: Any) -> Start:
    """Return a client's message with these options."""
    message = parse(encode({"type": "start", **given}))
    assert isinstance(message, Start)
    return message


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"encoding": "mulaw", "sample_rate": 8000}, Start(encoding="mulaw", sample_rate=8000)),
        ({"sample_rate": 192_000, "channels": 8}, Start(sample_rate=192_000, channels=8)),
        ({"channels": 2, "multichannel": True}, Start(channels=2, multichannel=True)),
        ({"alternatives": 10, "written": True}, Start(alternatives=10, written=True)),
        ({"stability": "high", "settle_ms": 500}, Start(stability="high", settle_ms=500)),
        ({"settle_ms": 0, "partial_words": True}, Start(partial_words=True)),
        ({"second_pass": True, "stability": "medium"}, Start(second_pass=True, stability="medium")),
        ({"second_pass": False, "settle_ms": 500}, Start(settle_ms=500)),
        ({"second_pass": "reader", "stability": "medium"}, Start(second_pass="reader", stability="medium")),
        ({"language": "pt-BR"}, Start(language="pt-BR")),
        ({"language": "auto"}, Start()),
        ({"endpoint": "off"}, Start(endpoint=Endpoint(silence=False))),
        ({"endpoint": {}}, Start()),
        ({"endpoint": {"longest_ms": 6000, "after_text_ms": 400}}, Start(endpoint=Endpoint(True, 400, 2400, 6000))),
        ({"hotwords": ["zoë o'neill"]}, Start(hotwords=(Hotword("zoë o'neill", 1.0),))),
        (
            {"hotwords": [{"text": "a b", "weight": 5}, {"text": "c"}]},
            Start(hotwords=(Hotword("a b", 5.0), Hotword("c"))),
        ),
        ({"hotwords": ["x"] * 200}, Start(hotwords=(Hotword("x"),) * 200)),
        ({"written": True, "dictation": True}, Start(written=True, dictation=True)),
        (
            {"context": [None, {"begins": False, "words": [{"word": "so", "pause_ms": 40}]}]},
            Start(context=(None, TextContext(False, (ContextWord("so", 40),)))),
        ),
    ],
)
def test_what_is_taken(given: dict[str, Any], expected: Start) -> None:
    """Every option can be given; nested ones may be incomplete."""
    assert start(**given) == expected


@pytest.mark.parametrize(
    ("given", "code", "says"),
    [
        ({"encoding": "opus"}, "unsupported_audio", "send pcm_s16le, pcm_f32le, mulaw or alaw"),
        ({"sample_rate": 7999}, "unsupported_audio", "send a whole number from 8000 to 192000"),
        ({"sample_rate": 192_001}, "unsupported_audio", "192001 is not supported"),
        ({"sample_rate": 44_100.0}, "bad_option", "a whole number, not a number with a fraction"),
        ({"channels": 0}, "unsupported_audio", "from 1 to 8"),
        ({"channels": 9}, "unsupported_audio", "from 1 to 8"),
        ({"multichannel": 2}, "bad_option", "'multichannel' must be true or false"),
        ({"alternatives": 11}, "bad_option", "from 0 to 10, not 11"),
        ({"alternatives": True}, "bad_option", "a whole number, not true or false"),
        ({"written": "yes"}, "bad_option", "true or false, not a string"),
        ({"stability": "most"}, "bad_option", 'low, medium or high, not "most"'),
        ({"settle_ms": 499}, "bad_option", "0 or a whole number from 500 to 10000, not 499"),
        ({"second_pass": True, "settle_ms": 500}, "bad_option", "excludes 'settle_ms' and 'stability' high"),
        ({"second_pass": True, "stability": "high"}, "bad_option", "excludes 'settle_ms'"),
        ({"second_pass": "reader", "settle_ms": 500}, "bad_option", "excludes 'settle_ms' and 'stability' high"),
        ({"second_pass": "writer"}, "bad_option", "'second_pass' must be true, false or \"reader\", not"),
        ({"second_pass": 1}, "bad_option", "'second_pass' must be true, false or \"reader\", not 1"),
        ({"second_pass": ["reader"]}, "bad_option", "'second_pass' must be true, false or \"reader\", not"),
        ({"language": ""}, "bad_option", '"auto" or the name of a language such as "de" or "de-DE"'),
        ({"language": "x" * 36}, "bad_option", "the name of a language"),
        ({"language": "de DE"}, "bad_option", "the name of a language"),
        ({"language": None}, "bad_option", "'language' must be a string, not null"),
        ({"endpoint": "on"}, "bad_option", '"off" or an object, not "on"'),
        ({"endpoint": {"silence": 1}}, "bad_option", "'silence' of 'endpoint' must be true or false"),
        ({"endpoint": {"turn": True, "silence": False}}, "bad_option", "cannot have 'turn' without 'silence'"),
        ({"endpoint": {"turn": True, "after_text_ms": 500}}, "bad_option", "send 'longest_pause_ms'"),
        ({"endpoint": {"eagerness": "high"}}, "bad_option", "only with 'turn':true"),
        ({"endpoint": {"turn": True, "eagerness": "none"}}, "bad_option", 'must be low, medium or high, not "none"'),
        (
            {"endpoint": {"after_text_ms": 399}},
            "bad_option",
            "'after_text_ms' of 'endpoint' must be",
        ),
        ({"endpoint": {"longest_ms": 5999}}, "bad_option", "from 6000 to 60000"),
        ({"endpoint": {"pause_ms": 1}}, "unknown_option", "'endpoint' has no option \"pause_ms\"; it takes silence"),
        ({"hotwords": "kubernetes"}, "bad_option", "'hotwords' must be a list, not a string"),
        ({"hotwords": ["x"] * 201}, "bad_option", "at most 200 phrases, not 201"),
        ({"hotwords": [7]}, "bad_option", "a string or an object, not a whole number"),
        ({"hotwords": [{"weight": 1}]}, "bad_option", "needs a 'text'"),
        ({"hotwords": [{"text": "x", "boost": 1}]}, "unknown_option", "'hotwords' has no option \"boost\""),
        ({"hotwords": [{"text": "x", "weight": 5.1}]}, "bad_option", "a number from 0 to 5"),
        ({"hotwords": [{"text": "x", "weight": float("nan")}]}, "bad_option", "a number from 0 to 5"),
        (
            {"hotwords": [{"text": "x", "weight": True}]},
            "bad_option",
            "'weight' of 'hotwords' must be a number, not",
        ),
        ({"hotwords": ["  "]}, "bad_option", "1 to 6 words"),
        ({"hotwords": ["a b c d e f g"]}, "bad_option", "1 to 6 words"),
        ({"hotwords": ["x" * 61]}, "bad_option", "at most 60 characters"),
        ({"hotwords": ["?!"]}, "bad_option", "letters or digits"),
        ({"hotwords": ["a\u0000b"]}, "bad_option", "letters or digits"),
        ({"context": {}}, "bad_option", "a list of at most 8 entries"),
        ({"context": [None] * 9}, "bad_option", "one for each channel"),
        ({"context": [{"begins": True}]}, "bad_option", "null, or the 'context' of a final"),
        ({"context": [{"begins": 1, "words": []}]}, "bad_option", "null, or the 'context' of a final"),
        ({"context": [CONTEXT | {"words": WORDS * 33}]}, "bad_option", "at most 32 words, not 33"),
        ({"context": [CONTEXT | {"words": [{"word": "", "pause_ms": 0}]}]}, "bad_option", "1 to 60 printable"),
        ({"context": [CONTEXT | {"words": [{"word": "a" * 61, "pause_ms": 0}]}]}, "bad_option", "1 to 60 printable"),
        ({"context": [CONTEXT | {"words": [{"word": "\ud800", "pause_ms": 0}]}]}, "bad_option", "1 to 60 printable"),
        ({"context": [CONTEXT | {"words": [{"word": "a", "pause_ms": -1}]}]}, "bad_option", "from 0 to 60000"),
        ({"context": [CONTEXT | {"words": [{"word": "a", "pause_ms": True}]}]}, "bad_option", "from 0 to 60000"),
    ],
)
def test_what_is_refused(given: dict[str, Any], code: str, says: str) -> None:
    """The message names the option, its value and what is expected."""
    with pytest.raises(WireError) as caught:
        start(**given)
    assert caught.value.code == code
    assert caught.value.close_code == (4001 if code == "unsupported_audio" else 4000)
    assert says in caught.value.message
    assert len(caught.value.message) < 250


def test_a_lone_surrogate_is_no_letter() -> None:
    """Text that UTF-8 cannot hold is refused before it is written anywhere."""
    with pytest.raises(WireError, match="letters or digits"):
        parse('{"type":"start","hotwords":["a\\ud800"]}')


def test_the_size_of_the_audio() -> None:
    """A frame is one sample of every channel."""
    telephone = Start(encoding="alaw", sample_rate=8000, channels=2)
    assert (telephone.frame_bytes, telephone.bytes_per_s) == (2, 16_000)
    assert Start(encoding="pcm_f32le", sample_rate=48_000).bytes_per_s == 192_000


def test_every_encoding_can_be_decoded() -> None:
    """The decoder knows every encoding that a client may send."""
    assert set(ENCODINGS) == set(DECODED)


def test_what_the_recogniser_is_told() -> None:
    """The model's options are JSON, without those that only the service uses, and without defaults."""
    options = start(
        encoding="mulaw", sample_rate=8000, channels=2, multichannel=True, live=True, hotwords=["x"], endpoint="off"
    ).model_options()
    assert not {"encoding", "sample_rate", "channels", "multichannel", "live"} & set(options)
    told = json.loads(json.dumps(options))
    assert "context" not in told
    assert told["hotwords"] == [{"text": "x", "weight": 1.0}]
    assert told["endpoint"] == {"silence": False}
    assert told.keys() == {"hotwords", "endpoint"}


@pytest.mark.parametrize(
    ("second_pass", "told"),
    [("reader", {"second_pass": True, "reader": True}), (True, {"second_pass": True}), (False, {})],
)
def test_a_reader_is_an_option_of_its_own_for_the_recogniser(second_pass: bool | str, told: dict[str, Any]) -> None:
    """A model that knows no readers leaves out the second option, and does a second pass of its own."""
    options = start(second_pass=second_pass).model_options()
    assert options == told
    assert (recognised(options).second_pass, recognised(options).reader) == (bool(second_pass), "reader" in told)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"second_pass": "reader"}),
        ({"second_pass": False}, {"second_pass": False}),
        ({"second_pass": True, "written": True}, {"second_pass": True, "written": True}),
        ({"stability": "medium"}, {"stability": "medium", "second_pass": "reader"}),
        ({"stability": "high"}, {"stability": "high"}),
        ({"settle_ms": 500}, {"settle_ms": 500}),
    ],
)
def test_recordings_are_read_by_a_reader(given: dict[str, Any], expected: dict[str, Any]) -> None:
    """Whoever does not say anything gets a reader, unless words must not change."""
    assert with_second_pass(given) == expected
    assert start(**expected)


def recognised(options: dict[str, Any]) -> engine.StreamOptions:
    """Return the options as the recogniser reads them."""
    told = json.loads(json.dumps(options))
    return engine.StreamOptions.from_dict(told, limits.STEPS_MS, limits.SEARCHES)


def test_the_recogniser_has_the_same_options() -> None:
    """Names and defaults are the same on the wire and in the recogniser."""
    told = Start().model_options()
    assert told == {}
    # These come only from the bridge: the reader, the caller, and the state from which a replay goes on.
    service = {"reader", "growing", "caller", "speaking", "told", "begins", "context"}
    assert {*RECOGNISER_OPTIONS, *service} == {field.name for field in fields(engine.StreamOptions)}
    usual = json.loads(json.dumps({name: vars(Start())[name] for name in RECOGNISER_OPTIONS}, default=vars))
    assert recognised(told) == recognised(usual) == engine.StreamOptions()
    assert recognised({"endpoint": {}}) == engine.StreamOptions()


@pytest.mark.parametrize(
    ("name", "good", "wrong"),
    [
        ("alternatives", [0, 10], [-1, 11]),
        ("settle_ms", [0, 500, 10_000], [1, 499, 10_001]),
        ("stability", ["low", "medium", "high"], ["", "off"]),
        ("endpoint", ["off", {}, {"silence": False}], ["on", None, True, {"other": 1}, {"silence": 0}]),
        ("endpoint", [{"turn": True, "eagerness": "low"}], [{"turn": 1}, {"turn": True, "eagerness": "none"}]),
        ("endpoint", [{"turn": True, "longest_pause_ms": 400}], [{"turn": True, "longest_pause_ms": 399}]),
        *(
            ("endpoint", [{name: low}, {name: high}], [{name: low - 1}, {name: high + 1}, {name: float(low)}])
            for name, low, high in (
                ("after_text_ms", 400, 10_000),
                ("without_text_ms", 400, 20_000),
                ("longest_ms", 6_000, 60_000),
            )
        ),
        ("hotwords", [[], ["a b c d e f"], ["x" * 60], ["x"] * 200], ["x", ["x" * 61], ["a b c d e f g"], ["x"] * 201]),
        (
            "hotwords",
            [[{"text": "x", "weight": w}] for w in (0, 1, 2.5, 5)],
            [[{"text": "x", "weight": w}] for w in (-1, 6)],
        ),
        ("hotwords", [[{"text": "x"}]], [[{"weight": 1}], [" "], [{"text": "x", "more": 1}]]),
    ],
)
def test_the_recogniser_has_the_same_bounds(name: str, good: list[Any], wrong: list[Any]) -> None:
    """The recogniser accepts and refuses the same values as the wire."""
    for value in good:
        assert recognised(start(**{name: value}).model_options())
    for value in wrong:
        with pytest.raises(WireError):
            start(**{name: value})
        with pytest.raises(engine.BadOptions):
            recognised({name: value})


def test_partials_of_a_reader_are_an_option_of_their_own_for_the_recogniser() -> None:
    """So an earlier recogniser, which does not know them, leaves out only that."""
    told = start(second_pass="reader", partials="reader").model_options()
    assert told == {"second_pass": True, "reader": True, "partials": True, "growing": True}
    assert recognised(told) == recognised({"second_pass": "reader", "partials": "reader"})
