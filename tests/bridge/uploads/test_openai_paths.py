"""OpenAI's file endpoint, byte for byte as its own client reads it."""

from __future__ import annotations

import json

import pytest

from streamer.testing import say
from streamer.testing.exact_service import ExactService
from streamer.wire.openai_upload import MODELS, PATH, TRANSLATIONS
from tests.bridge.uploads.uploading import form, post, recording, sentences

WAV = recording(sentences(say("hello world"), say("goodbye")), "FLAC")
VERBOSE = (
    '{"task": "transcribe", "language": "english", "duration": 5.4, "text": "Hello world Goodbye", "segments": '
    '[{"id": 0, "seek": 0, "start": 0.04, "end": 1.32, "text": " Hello world", "tokens": [], "temperature": 0.0, '
    '"avg_logprob": -0.0101, "compression_ratio": 1.0, "no_speech_prob": 0.0}, {"id": 1, "seek": 0, "start": 3.0, '
    '"end": 3.76, "text": " Goodbye", "tokens": [], "temperature": 0.0, "avg_logprob": -0.0101, '
    '"compression_ratio": 1.0, "no_speech_prob": 0.0}], "usage": {"type": "duration", "seconds": 6}}\n'
)
WORDS = (
    '"words": [{"word": "Hello", "start": 0.04, "end": 0.6}, {"word": "world", "start": 0.76, "end": 1.32}, '
    '{"word": "Goodbye", "start": 3.0, "end": 3.76}]'
)


def transcribed(service: ExactService, *fields: tuple[str, str], file_first: bool = False) -> tuple[int, str, str]:
    """Return the status, type and content of an answer."""
    parts: list[tuple[str, str | bytes]] = [("model", "whisper-1"), *fields]
    body, kind = form(*([("file", WAV), *parts] if file_first else [*parts, ("file", WAV)]))
    status, headers, content = post(service.url, PATH, body, Content_Type=kind)
    return status, headers["content-type"], content.decode()


@pytest.mark.parametrize("file_first", [False, True])
@pytest.mark.parametrize(
    ("format", "content"),
    [
        ("json", '{"text": "Hello world Goodbye", "usage": {"type": "duration", "seconds": 6}}\n'),
        ("text", "Hello world Goodbye\n"),
        ("srt", "1\n00:00:00,040 --> 00:00:01,320\nHello world\n\n2\n00:00:03,000 --> 00:00:04,000\nGoodbye\n"),
        ("verbose_json", VERBOSE),
    ],
)
def test_each_format_is_as_openai_writes_it(
    uploading: ExactService, format: str, content: str, file_first: bool
) -> None:
    """Each format is as OpenAI writes it, wherever in the form the file is. Only JSON is called JSON."""
    status, kind, found = transcribed(uploading, ("response_format", format), file_first=file_first)
    assert (status, found) == (200, content)
    assert kind == ("application/json" if "json" in format else "text/plain; charset=utf-8")


def test_words_alone_leave_segments_out(uploading: ExactService) -> None:
    """Words without segments come if only words are asked for, and both if both are."""
    asked = ("response_format", "verbose_json"), ("timestamp_granularities[]", "word")
    words = transcribed(uploading, *asked)[2]
    assert WORDS in words
    assert "segments" not in words
    both = transcribed(uploading, *asked, ("timestamp_granularities[]", "segment"))[2]
    assert WORDS in both
    assert '"segments": [{"id": 0' in both


@pytest.mark.parametrize("file_first", [False, True])
def test_deltas_join_to_the_text(uploading: ExactService, file_first: bool) -> None:
    """Deltas join to the text, also if `stream` comes behind the file."""
    status, kind, content = transcribed(uploading, ("stream", "true"), ("language", "en"), file_first=file_first)
    assert (status, kind) == (200, "text/event-stream; charset=utf-8")
    *events, last, empty = content.split("\n\n")
    assert (last, empty) == ("data: [DONE]", "")
    told = [json.loads(event.removeprefix("data: ")) for event in events]
    assert told.pop() == {"type": "transcript.text.done", "text": "Hello world Goodbye"}
    assert {event["type"] for event in told} == {"transcript.text.delta"}
    assert "".join(event["delta"] for event in told) == "Hello world Goodbye"


def test_options_that_mean_nothing_here_are_ignored(uploading: ExactService) -> None:
    """Options of OpenAI that mean nothing here are ignored, because clients send many of them."""
    ignored = (
        ("prompt", "x"),
        ("temperature", "0"),
        ("include[]", "logprobs"),
        ("chunking_strategy[type]", "server_vad"),
    )
    assert transcribed(uploading, *ignored, ("stream", "false"))[0] == 200


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ([("response_format", "diarized_json")], "bad_option", "'response_format' must be json or text"),
        ([("language", "de")], "bad_option", "the recogniser knows only English"),
        ([("timestamp_granularities[]", "letter")], "bad_option", "must be word or segment"),
    ],
)
def test_refusals_have_the_form_of_openai(
    uploading: ExactService, fields: list[tuple[str, str]], code: str, words: str
) -> None:
    """Refusals have OpenAI's form: its client raises BadRequestError with the sentence."""
    status, _, content = transcribed(uploading, *fields)
    told = json.loads(content)["error"]
    assert (status, told["type"], told["param"], told["code"]) == (400, "invalid_request_error", None, code)
    assert words in told["message"]


def test_what_is_no_recording_is_a_bad_request(uploading: ExactService) -> None:
    """Data that is no recording gets 400, as at OpenAI."""
    for file in (b"", b"a text", WAV[:100]):
        body, kind = form(("model", "x"), ("file", file))
        status, _, content = post(uploading.url, PATH, body, Content_Type=kind)
        assert (status, json.loads(content)["error"]["type"]) == (400, "invalid_request_error")
    assert post(uploading.url, PATH, method="GET")[0] == 405


def test_translations_are_refused(uploading: ExactService) -> None:
    """A request for a translation is refused, and the answer names the path for transcriptions."""
    body, kind = form(("model", "whisper-1"), ("file", WAV))
    status, _, content = post(uploading.url, TRANSLATIONS, body, Content_Type=kind)
    assert status == 400
    assert PATH in json.loads(content)["error"]["message"]


def test_models_are_listed(uploading: ExactService) -> None:
    """The list of models has their public names."""
    default = {"id": "default", "object": "model", "created": 0, "owned_by": "streamer"}
    assert json.loads(post(uploading.url, MODELS, method="GET")[2]) == {"object": "list", "data": [default]}
    assert json.loads(post(uploading.url, f"{MODELS}/default", method="GET")[2]) == default
    assert post(uploading.url, f"{MODELS}/whisper-9", method="GET")[0] == 404
