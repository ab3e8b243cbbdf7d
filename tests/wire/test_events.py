"""The messages of the service as text."""

from __future__ import annotations

import json

import pytest

from streamer.base.codes import ErrorCode
from streamer.base.events import (
    Acknowledgement,
    Alternative,
    Done,
    Error,
    Final,
    Flushed,
    Partial,
    Ready,
    Recovered,
    ServerMessage,
    Speech,
    SpeechState,
    Starting,
    Word,
)
from streamer.base.text_context import ContextWord, TextContext
from streamer.wire.events import render


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
