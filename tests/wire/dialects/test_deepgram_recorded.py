"""Deepgram's answer to an uploaded recording, byte for byte."""

from __future__ import annotations

import hashlib
import json

import pytest

from streamer import __version__
from streamer.wire.dialects.deepgram_recorded import DeepgramRecorded
from streamer.wire.dialects.deepgram_results import model_info, uuid_of
from streamer.wire.errors import WireError
from streamer.wire.events import Done, Final, Word
from streamer.wire.upload import BareSamples, Problem

HELLO = Final(0, "Hello.", 240, 600, 1280, 0.9, (Word("Hello.", 240, 600, 0.9, "hello"),), cut_ms=920)
YOU = Final(0, "You?", 1000, 1200, 1500, 0.8, (Word("You?", 1000, 1200, 0.8, "you"),), cut_ms=1400)


def answered(*query: tuple[str, str], channels: int = 1, finals: tuple[Final, ...] = (HELLO, YOU)) -> str:
    """The answer to a recording with these words."""
    format = DeepgramRecorded({"default": ()}, "request", "2026-01-31T12:00:00.000Z")
    format.query(query)
    format.look(b"RIFF")
    format.look(b"more")
    format.start(channels)
    for final in finals:
        format.add(final)
    format.add(Done(1500))
    return format.document()[1]


def test_the_answer_byte_for_byte() -> None:
    """The answer has all fields that the SDKs read."""
    uuid, _ = model_info("default")
    sha = hashlib.sha256(b"RIFFmore").hexdigest()
    first = '{"word": "hello", "start": 0.24, "end": 0.6, "confidence": 0.9, "punctuated_word": "Hello."}'
    second = '{"word": "you", "start": 1.0, "end": 1.2, "confidence": 0.8, "punctuated_word": "You?"}'
    assert answered(("punctuate", "true")) == (
        '{"metadata": {"transaction_key": "deprecated", "request_id": "request", '
        f'"sha256": "{sha}", "created": "2026-01-31T12:00:00.000Z", "duration": 1.5, "channels": 1, '
        f'"models": ["{uuid}"], "model_info": {{"{uuid}": {{"name": "default", "version": "{__version__}", '
        '"arch": "streamer"}}}, "results": {"channels": [{"alternatives": [{"transcript": "Hello. You?", '
        f'"confidence": 0.85, "words": [{first}, {second}]}}]}}]}}}}\n'
    )


def test_scripts_without_spaces() -> None:
    """Segments in Chinese or Japanese are joined without spaces."""
    finals = tuple(Final(0, text, 0, 600, 1280, 0.9, (), cut_ms=920) for text in ("你好。", "“再见”", "OK"))
    [channel] = json.loads(answered(finals=finals))["results"]["channels"]
    assert channel["alternatives"][0]["transcript"] == "你好。“再见” OK"


def test_utterances_if_they_are_asked_for() -> None:
    """Utterances come in the order of speech, each with its channel and its own id."""
    finals = (
        Final(0, "later", 1000, 1200, 1500, 0.8, (), channel=0),
        Final(0, "sooner", 100, 300, 500, 0.7, (), channel=1),
    )
    told = json.loads(answered(("utterances", "true"), ("multichannel", "true"), channels=2, finals=finals))
    assert told["results"]["utterances"] == [
        {
            "start": 0.1,
            "end": 0.3,
            "confidence": 0.7,
            "channel": 1,
            "transcript": "sooner",
            "words": [],
            "id": uuid_of("request 0"),
        },
        {
            "start": 1.0,
            "end": 1.2,
            "confidence": 0.8,
            "channel": 0,
            "transcript": "later",
            "words": [],
            "id": uuid_of("request 1"),
        },
    ]
    texts = [channel["alternatives"][0]["transcript"] for channel in told["results"]["channels"]]
    assert (texts, told["metadata"]["channels"]) == (["later", "sooner"], 2)


def test_the_session_gets_the_options() -> None:
    """The session gets the options, also those of bare samples."""
    format = DeepgramRecorded({"default": ()})
    format.query(
        [
            ("encoding", "mulaw"),
            ("sample_rate", "8000"),
            ("channels", "2"),
            ("multichannel", "true"),
            ("utterances", "true"),
            ("utt_split", "0.5"),
            ("smart_format", "true"),
            ("keyterm", "Ada"),
        ]
    )
    assert (format.samples, format.separate) == (BareSamples("mulaw", 8000, 2), True)
    start = json.loads(format.start(2))
    assert start["endpoint"] == {"after_text_ms": 500}
    assert start["hotwords"] == [{"text": "Ada", "weight": 1.0}]
    assert (start["written"], start["partials"], start["channels"]) == (True, False, 2)
    assert start["second_pass"] is True


@pytest.mark.parametrize("body", [b'{"url":"http://elsewhere.example"}', b'\n  {"url"'])
def test_an_address_is_no_recording(body: bytes) -> None:
    """JSON with an address is refused, whatever content type the request has."""
    with pytest.raises(WireError, match="fetches no address"):
        DeepgramRecorded().look(body)


def test_refusals_have_the_form_of_deepgram() -> None:
    """A recording at fault is a bad request there."""
    status, text = DeepgramRecorded({}, "request").refusal(Problem("damaged_audio", "It is damaged."))
    assert (status, text) == (
        400,
        '{"err_code":"Bad Request","err_msg":"It is damaged.","request_id":"request"}\n',
    )
