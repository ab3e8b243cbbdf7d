"""Deepgram's format of recordings, with a real service and real sockets."""

from __future__ import annotations

import hashlib
import json

import pytest

from streamer.testing import say
from streamer.testing.exact_service import ExactService
from streamer.wire.dialects.deepgram import PATH
from tests.bridge.uploads.uploading import post, recording, sentences

TALK = sentences(say("hello world"), say("goodbye"))


@pytest.mark.parametrize("kind", ["audio/wav", "application/json", ""])
def test_a_recording_is_transcribed(uploading: ExactService, kind: str) -> None:
    """A recording is transcribed whatever content type the request claims."""
    flac = recording(TALK, "FLAC")
    query = "model=nova-3&smart_format=true&utterances=true&diarize=true&detect_language=true"
    status, headers, content = post(uploading.url, f"{PATH}?{query}", flac, Content_Type=kind)
    told = json.loads(content)
    assert (status, headers["content-type"]) == (200, "application/json")
    assert told["metadata"]["sha256"] == hashlib.sha256(flac).hexdigest()
    assert told["metadata"]["duration"] == 5.4
    [channel] = told["results"]["channels"]
    [alternative] = channel["alternatives"]
    assert (channel["detected_language"], alternative["transcript"]) == ("en", "Hello world Goodbye")
    assert alternative["paragraphs"]["transcript"].replace("\n", " ") == " Speaker 0: Hello world Goodbye"
    assert [each["transcript"] for each in told["results"]["utterances"]] == ["Hello world", "Goodbye"]


@pytest.mark.parametrize(
    ("query", "transcript"), [("profanity_filter=true", "what the f*** is that"), ("", "what the fuck is that")]
)
def test_swear_words_are_masked(uploading: ExactService, query: str, transcript: str) -> None:
    """A client that wants it gets no swear word, neither in the transcript nor in its words."""
    flac = recording(sentences(say("what the fuck is that")), "FLAC")
    _, _, content = post(uploading.url, f"{PATH}?{query}", flac)
    [alternative] = json.loads(content)["results"]["channels"][0]["alternatives"]
    assert alternative["transcript"] == transcript
    assert [word["word"] for word in alternative["words"]] == transcript.split()


def test_samples_that_begin_like_json(uploading: ExactService) -> None:
    """Bare samples may begin with any byte; they are JSON only if the request says so."""
    path = f"{PATH}?encoding=linear16&sample_rate=16000"
    samples = b"{ " + TALK.astype("<i2").tobytes()
    assert b'"hello world goodbye"' in post(uploading.url, path, samples)[2]
    status, _, content = post(uploading.url, path, samples, Content_Type="application/json")
    assert (status, "fetches no address" in json.loads(content)["err_msg"]) == (400, True)


@pytest.mark.parametrize(
    ("query", "body", "words"),
    [
        ("", b'{"url":"http://elsewhere.example/talk.wav"}', "fetches no address"),
        ("redact=pci", b"RIFF", "nothing is redacted"),
        ("language=de", b"RIFF", "knows only English"),
        ("", b"a text", "cannot be read as audio"),
        ("", b"", "holds no recording"),
    ],
)
def test_refusals(uploading: ExactService, query: str, body: bytes, words: str) -> None:
    """A refusal has a sentence, in the form of Deepgram."""
    status, _, content = post(uploading.url, f"{PATH}?{query}", body)
    told = json.loads(content)
    assert (status, told["err_code"]) == (400, "Bad Request")
    assert words in told["err_msg"]
