"""Reading the events of a model: typed, or refused with a sentence."""

from __future__ import annotations

import json

import pytest

from streamer.engine import stream_events as engine
from streamer.engine.text.marks import HeardWord
from streamer.wire.events import (
    Alternative,
    Final,
    Flushed,
    HeadEvent,
    Partial,
    Speech,
    SpeechState,
    Turn,
    TurnState,
    Word,
)
from streamer.wire.model_events import Again, Cut, Heard, ModelEvent, Opened, Other, parse
from streamer.wire.options import ContextWord

WORDS = ",".join(['{"word":"a","pause_ms":0}'] * 33)


@pytest.mark.parametrize(
    ("text", "event"),
    [
        ('{"type":"opened","model":"m","instance":"m_0_0"}', Opened("m", "m_0_0")),
        ('{"type":"opened"}', Opened()),
        ('{"type":"opened","piece_ms":80}', Opened(piece_ms=80)),
        ('{"type":"opened","languages":["auto","de-DE"]}', Opened(languages=("auto", "de-DE"))),
        ('{"type":"cut","sample":1600}', Cut(1600)),
        ('{"type":"heard","sample":160}', Heard(160)),
        ('{"type":"heard","sample":160,"due":480}', Heard(160, due=480)),
        ('{"type":"again","sample":9,"run":1,"speaking":true}', Again(9, 1, True)),
        ('{"type":"head","name":"k","at_ms":40,"content":{"a":1}}', HeadEvent("k", 40, {"a": 1})),
        ('{"type":"closed","model":"m"}', Other("closed", {"model": "m"})),
        ('{"type":"mood","value":[1]}', Other("mood", {"value": [1]})),
        (
            '{"type":"final","segment":0,"text":"a","start_ms":0,"end_ms":40,"audio_ms":90,"confidence":1,"later":2}',
            Final(0, "a", 0, 40, 90, 1),
        ),
    ],
)
def test_an_event(text: str, event: ModelEvent) -> None:
    """Missing optional fields are None, and an unknown event of a later model is kept."""
    assert parse(text) == event


@pytest.mark.parametrize(
    ("said", "event"),
    [
        (
            engine.Partial(2, "a b", 1, 40, 960, (engine.SpokenWord("a", 40, 80),)),
            Partial(2, "a b", 1, 40, 960, (Word("a", 40, 80),)),
        ),
        (
            engine.Final(
                0,
                "2",
                0,
                40,
                90,
                0.5,
                words=(engine.SpokenWord("2", 0, 40, 0.5, "two"),),
                spoken="two",
                alternatives=(engine.Alternative("2", 0.5),),
            ),
            Final(0, "2", 0, 40, 90, 0.5, (Word("2", 0, 40, 0.5, "two"),), "two", (Alternative("2", 0.5),)),
        ),
        (engine.Final(0, "a", 0, 40, 90, 0.5, turn=0.75), Final(0, "a", 0, 40, 90, 0.5, turn=0.75)),
        (engine.Speech("start", 40), Speech(SpeechState.START, 40)),
        (engine.Turn("eager", 2, 0.75, 960), Turn(TurnState.EAGER, 2, 0.75, 960)),
        (engine.Cut(1600, speaking=True, begins=False), Cut(1600, speaking=True, begins=False)),
        (
            engine.Cut(1600, speaking=False, begins=True, context=(HeardWord("so", 40),)),
            Cut(1600, speaking=False, begins=True, context=(ContextWord("so", 40),)),
        ),
        (engine.Cut(1600, told=True), Cut(1600, speaking=False, begins=True, told=True)),
        (engine.Cut(1600, context=()), Cut(1600, speaking=False, begins=True, context=())),
        (engine.Flushed(320), Flushed(320)),
        (engine.Heard(160, 10), Heard(160, 10)),
        (engine.Heard(160, 10, 480), Heard(160, 10, 480)),
    ],
)
def test_what_our_recogniser_says(said: engine.StreamEvent, event: ModelEvent) -> None:
    """Every event of the recogniser arrives with all of its fields."""
    assert parse(engine.as_json(said)) == event


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[]", "an event must be an object, not a list"),
        ("{}", "an event must have a 'type', which is a string"),
        ('{"type":"heard"}', "'heard' lacks 'sample'"),
        ('{"type":"head","name":"","at_ms":0,"content":{}}', "'name' of 'head' must have 1 to 64 characters"),
        ('{"type":"head","name":"k","at_ms":0,"content":[]}', "'content' of 'head' cannot be"),
        ('{"type":"heard","sample":true}', "'sample' of 'heard' cannot be true or false"),
        ('{"type":"cut","sample":1,"begins":1}', "'begins' of 'cut' cannot be a whole number"),
        ('{"type":"cut","sample":1,"context":[{"word":"a"}]}', "'part of an event' lacks 'pause_ms'"),
        (f'{{"type":"cut","sample":1,"context":[{WORDS}]}}', "'context' of 'cut' has 33 words; at most 32 are allowed"),
        ('{"type":"turn","state":"over","segment":0,"probability":1,"audio_ms":1}', "'over' is not a valid TurnState"),
        ('{"type":"speech","state":"pause","at_ms":1}', "'pause' is not a valid SpeechState"),
        (
            '{"type":"partial","segment":0,"text":"a","stable":0,"start_ms":0,"audio_ms":1,"words":["a"]}',
            "'words' of 'partial' must be a list of objects",
        ),
        (
            '{"type":"partial","segment":0,"text":"a","stable":0,"start_ms":0,"audio_ms":1,"words":[{}]}',
            "'part of an event' lacks 'word'",
        ),
        ('{"type":"opened","piece_ms":1}', "'piece_ms' of 'opened' must be from 20 to 640, not 1"),
        ('{"type":"opened","languages":["de",1]}', "'languages' of 'opened' must be strings of at most 35 characters"),
        (json.dumps({"type": "opened", "languages": ["de"] * 1001}), "has 1001 names; at most 1000 are allowed"),
        ("gr", "Expecting value"),
    ],
)
def test_what_is_no_event(text: str, complaint: str) -> None:
    """The message says what is wrong."""
    with pytest.raises(ValueError, match=complaint):
        parse(text)
