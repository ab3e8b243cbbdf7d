"""The messages of the service as text, and the events of a model as they are read."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from streamer.base.codes import ErrorCode
from streamer.base.events import (
    Acknowledgement,
    Again,
    Alternative,
    Closed,
    Cut,
    Done,
    Error,
    Final,
    Flushed,
    HeadEvent,
    Heard,
    ModelEvent,
    Opened,
    Other,
    Partial,
    ReadBy,
    Ready,
    Recovered,
    ServerMessage,
    Speech,
    SpeechState,
    Starting,
    Turn,
    TurnState,
    Word,
    as_json,
)
from streamer.base.text_context import ContextWord, TextContext
from streamer.wire.events import Unknown, parse, render

FINAL = '{"type":"final","segment":0,"text":"Tag","start_ms":0,"end_ms":40,"audio_ms":90,"confidence":0.5}'


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (
            Ready("s1", "secret", "default", "streaming_asr", 16_000, 0),
            '{"type":"ready","n":7,"session":"s1","token":"secret","model":"default","triton_model":"streaming_asr",'
            '"sample_rate":16000,"from_sample":0}',
        ),
        (
            Partial(0, "grün", 2, 40, 960, (Word("grün", 40, 80),)),
            '{"type":"partial","n":7,"segment":0,"text":"grün","stable":2,"start_ms":40,"audio_ms":960,'
            '"words":[{"word":"grün","start_ms":40,"end_ms":80}]}',
        ),
        (
            Final(1, "2", 0, 40, 90, 0.5, (Word("2", 0, 40, 0.5, "two"),), "two", (Alternative("2", 0.5),), 80, 1),
            '{"type":"final","n":7,"segment":1,"text":"2","start_ms":0,"end_ms":40,"audio_ms":90,"confidence":0.5,'
            '"words":[{"word":"2","start_ms":0,"end_ms":40,"confidence":0.5,"spoken":"two"}],"spoken":"two",'
            '"alternatives":[{"text":"2","confidence":0.5}],"cut_ms":80,"channel":1}',
        ),
        (
            Final(1, "so", 0, 40, 90, 0.5, context=TextContext(False, (ContextWord("so", 40),))),
            '{"type":"final","n":7,"segment":1,"text":"so","start_ms":0,"end_ms":40,"audio_ms":90,"confidence":0.5,'
            '"context":{"begins":false,"words":[{"word":"so","pause_ms":40}]}}',
        ),
        (Speech(SpeechState.START, 40, 1), '{"type":"speech","n":7,"state":"start","at_ms":40,"channel":1}'),
        (Starting("chinese"), '{"type":"starting","n":7,"model":"chinese"}'),
        (Acknowledgement(320), '{"type":"heard","n":7,"audio_ms":320}'),
        (Flushed(320), '{"type":"flushed","n":7,"audio_ms":320}'),
        (Recovered(1500), '{"type":"recovered","n":7,"gap_ms":1500}'),
        (
            Error(ErrorCode.IDLE, "…", fatal=True),
            '{"type":"error","n":7,"code":"idle","message":"…","fatal":true}',
        ),
        (Done(320), '{"type":"done","n":7,"audio_ms":320}'),
    ],
)
def test_a_message_as_text(message: ServerMessage, text: str) -> None:
    """Type and number come first, then the fields in order; fields without a value are left out."""
    assert render(7, message) == text
    assert json.loads(text)["type"] == message.type


# Events of a model: typed, or refused with a sentence.


WORDS = ",".join(['{"word":"a","pause_ms":0}'] * 33)


@pytest.mark.parametrize(
    ("text", "event"),
    [
        ('{"type":"opened","model":"m","instance":"m_0_0"}', Opened("m", "m_0_0")),
        ('{"type":"opened"}', Opened()),
        ('{"type":"opened","piece_ms":80}', Opened(piece_ms=80)),
        (FINAL.replace("}", ',"language":"de"}'), Final(0, "Tag", 0, 40, 90, 0.5, language="de")),
        ('{"type":"opened","step_ms":336,"ahead_ms":0}', Opened(step_ms=336, ahead_ms=0)),
        ('{"type":"opened","languages":["auto","de-DE"]}', Opened(languages=("auto", "de-DE"))),
        ('{"type":"cut","sample":1600}', Cut(1600)),
        ('{"type":"heard","sample":160}', Heard(160)),
        ('{"type":"heard","sample":160,"due":480}', Heard(160, due=480)),
        ('{"type":"again","sample":9,"run":1,"speaking":true}', Again(9, 1, True)),
        ('{"type":"head","name":"k","at_ms":40,"content":{"a":1}}', HeadEvent("k", 40, {"a": 1})),
        ('{"type":"closed","model":"m"}', Closed("m")),
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
    "event",
    [
        Opened("m", "m_0_0", 80, ("auto", "de")),
        Closed("m", "m_0_0"),
        Partial(2, "a b", 1, 40, 960, (Word("a", 40, 80),)),
        Final(0, "2", 0, 40, 90, 0.5, (Word("2", 0, 40, 0.5, "two"),), "two", (Alternative("2", 0.5),)),
        Final(0, "a", 0, 40, 90, 0.5, turn=0.75),
        Speech(SpeechState.START, 40),
        Turn(TurnState.EAGER, 2, 0.75, 960),
        Cut(1600, speaking=True, begins=False),
        Cut(1600, speaking=False, begins=True, context=(ContextWord("so", 40),)),
        Cut(1600, told=True),
        Cut(1600, context=()),
        Flushed(320),
        Heard(160, 10, 480),
        Again(9, 1, True),
        HeadEvent("k", 40, {"a": [1]}),
        Final(0, "a", 0, 40, 90, 0.5, read_by=ReadBy.SECOND_PASS),
    ],
)
def test_what_a_model_says(event: ModelEvent) -> None:
    """Every event of a model arrives with all of its fields."""
    assert parse(as_json(event)) == event


def test_a_model_cannot_send_what_the_bridge_adds() -> None:
    """The channel, the time of the cut and the context of a final are those of the session, whatever a model says."""
    final = Final(0, "a", 0, 40, 90, 0.5, cut_ms=1, channel=3, context=TextContext(True, ()))
    unknown: Counter[Unknown] = Counter()
    assert parse(as_json(final), unknown) == Final(0, "a", 0, 40, 90, 0.5)
    assert unknown == {Unknown.FIELD: 3}


def test_what_a_later_model_adds_is_counted() -> None:
    """Unknown events, and unknown fields and values, also of words, are counted apart."""
    unknown: Counter[Unknown] = Counter()
    parse('{"type":"mood","value":[1],"at_ms":3}', unknown)
    assert unknown == {Unknown.EVENT: 1}
    parse('{"type":"heard","sample":160,"due":null,"age":1}', unknown)
    assert unknown == {Unknown.EVENT: 1, Unknown.FIELD: 1}
    final = as_json(Final(0, "a", 0, 40, 90, 0.5, read_by=ReadBy.FIRST_PASS)).replace("first_pass", "crystal_ball")
    assert parse(final, unknown) == Final(0, "a", 0, 40, 90, 0.5)
    assert unknown == {Unknown.EVENT: 1, Unknown.FIELD: 2}
    word = '{"word":"a","start_ms":0,"end_ms":9,"speaker":"b","pitch":9}'
    parse(f'{{"type":"partial","segment":0,"text":"a","stable":0,"start_ms":0,"audio_ms":9,"words":[{word}]}}', unknown)
    assert unknown == {Unknown.EVENT: 1, Unknown.FIELD: 4}


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
        ('{"type":"opened","step_ms":1281}', "'step_ms' of 'opened' must be from 20 to 1280, not 1281"),
        ('{"type":"opened","ahead_ms":-1}', "'ahead_ms' of 'opened' must be from 0 to 10000, not -1"),
        ('{"type":"opened","languages":["de",1]}', "'languages' of 'opened' must be strings of at most 35 characters"),
        (FINAL.replace("}", ',"language":""}'), "'language' of 'final' must have 1 to 35 characters"),
        (FINAL.replace("}", f',"language":"{"d" * 36}"}}'), "'language' of 'final' must have 1 to 35 characters"),
        (json.dumps({"type": "opened", "languages": ["de"] * 1001}), "has 1001 names; at most 1000 are allowed"),
        ("gr", "Expecting value"),
    ],
)
def test_what_is_no_event(text: str, complaint: str) -> None:
    """The message says what is wrong."""
    with pytest.raises(ValueError, match=complaint):
        parse(text)
