"""The realtime format of ElevenLabs: the address, commits of the client and of pauses, times, speakers, failures."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from streamer.base.codes import ErrorCode
from streamer.base.events import Done, Error, Flushed
from streamer.wire.dialects import elevenlabs
from streamer.wire.dialects.dialect import FLUSH, KEEPALIVE, STOP, Hangup
from streamer.wire.dialects.elevenlabs import MOST_WAITING, ElevenLabs
from streamer.wire.errors import WireError
from tests.wire.dialects.dialect_steps import final, opened, partial, replies, stands_on_the_page, started, take, told

SECOND = bytes(32_000)


def chunk(audio: bytes = SECOND, **fields: Any) -> str:
    """Return a message with audio."""
    text = base64.b64encode(audio).decode()
    return json.dumps({"message_type": "input_audio_chunk", "audio_base_64": text, "commit": False, **fields})


COMMIT = chunk(b"", commit=True)


def client_of(query: str = "") -> ElevenLabs:
    """Return a websocket on which audio has come."""
    client = opened(ElevenLabs, query)
    take(client, chunk())
    return client


def test_the_page_has_the_options() -> None:
    """The table of the page is the one of the code."""
    assert stands_on_the_page("the options of ElevenLabs", elevenlabs.OPTIONS)


def test_options_of_the_address() -> None:
    """As the SDK and the plugin write them."""
    query = "model_id=fine&audio_format=pcm_24000&commit_strategy=vad&vad_silence_threshold_secs=0.3&language_code=de"
    start = started(take(opened(ElevenLabs, f"{query}&keyterms=Ada&keyterms=Grace&no_verbatim=true"), chunk()))
    assert (start["model"], start["language"], start["hotwords"]) == ("fine", "de-DE", ["Ada", "Grace"])
    assert (start["encoding"], start["sample_rate"], start["endpoint"]) == ("pcm_s16le", 24_000, {"after_text_ms": 400})
    usual = started(take(opened(ElevenLabs, "model_id=scribe_v2_realtime&entity_redaction="), chunk()))
    assert (usual["model"], usual["sample_rate"], usual["written"]) == ("default", 16_000, True)
    second = "model_id=fine&secondary_languages=fr&secondary_languages=de-DE&audio_format=ulaw_8000"
    start = started(take(opened(ElevenLabs, second), chunk()))
    assert (start["language"], start["encoding"], start["sample_rate"]) == ("de-DE", "mulaw", 8000)


@pytest.mark.parametrize(
    "query",
    [
        "audio_format=mp3",
        "audio_format=pcm_1",
        "audio_format=pcm_99999999999",
        "commit_strategy=often",
        "vad_silence_threshold_secs=long",
        "language_code=xx",
        "entity_redaction=pii",
        "include_timestamps=perhaps",
    ],
)
def test_refusals(query: str) -> None:
    """What makes no sense is refused before the upgrade, in the form of the vendor."""
    with pytest.raises(WireError):
        opened(ElevenLabs, query)
    status, text = ElevenLabs.refusal(ErrorCode.UNAUTHORIZED, "No.", 401, "ab")
    assert (status, json.loads(text)) == (401, {"detail": {"status": "unauthorized", "message": "No."}})


def test_the_first_message() -> None:
    """It says with which options the session begins."""
    [greeting] = replies(opened(ElevenLabs, "commit_strategy=vad").greet())
    assert (greeting["message_type"], greeting["session_id"]) == ("session_started", "ab-12")
    config = greeting["config"]
    assert (config["sample_rate"], config["commit_strategy"], config["language_code"]) == (16_000, "vad", "en")


def test_a_client_that_commits() -> None:
    """All text since its last commit waits, and comes once; a commit without text is answered too."""
    client = client_of()
    assert told(client, partial("on"), final("one"), partial("tw", 1000)) == [
        {"message_type": "partial_transcript", "text": "on"},
        {"message_type": "partial_transcript", "text": "one tw"},
    ]
    assert take(client, COMMIT) == [FLUSH]
    assert told(client, final("two", 1000), Flushed(2000)) == [
        {"message_type": "committed_transcript", "text": "one two"}
    ]
    assert take(client, COMMIT) == [FLUSH]
    assert told(client, Flushed(2000)) == [{"message_type": "committed_transcript", "text": ""}]
    assert replies(take(opened(ElevenLabs), COMMIT)) == [{"message_type": "committed_transcript", "text": ""}]


def test_a_commit_in_a_message_with_audio() -> None:
    """The audio comes first."""
    assert take(opened(ElevenLabs), chunk(commit=True))[1:] == [SECOND, FLUSH]


def test_a_pause_commits() -> None:
    """With `vad` each segment is committed; a commit of the client is answered once."""
    client = client_of("commit_strategy=vad")
    assert [message["text"] for message in told(client, final("one"))] == ["one"]
    take(client, COMMIT, COMMIT)
    assert [message["text"] for message in told(client, final("two"), final("three"), Flushed(2000))] == [
        "two",
        "three",
    ]
    assert [message["text"] for message in told(client, Flushed(2000))] == [""]
    take(client, COMMIT)
    assert [message["text"] for message in told(client, Flushed(2000))] == [""]


def test_times_and_speakers() -> None:
    """Each commit comes a second time, with words and the spaces between them."""
    client = client_of("include_language_detection=true")
    take(client, COMMIT)
    last = final("Hello there.", 200)
    last = replace(last, words=tuple(replace(word, speaker=1) for word in last.words or ()))
    plain, timed = told(client, last, Flushed(1000))
    assert (plain["text"], timed["text"], timed["language_code"]) == ("Hello there.", "Hello there.", "en")
    assert timed["message_type"] == "committed_transcript_with_timestamps"
    assert timed["words"] == [
        {"text": "Hello", "start": 0.2, "end": 0.3, "type": "word", "logprob": -0.6931, "speaker_id": "speaker_1"},
        {"text": " ", "start": 0.3, "end": 0.3, "type": "spacing", "logprob": 0.0},
        {"text": "there.", "start": 0.3, "end": 0.4, "type": "word", "logprob": -0.6931, "speaker_id": "speaker_1"},
    ]


def test_a_pause_of_the_client() -> None:
    """Empty audio keeps the session; after a long silence the next audio begins another one, and text still waits."""
    client = client_of("include_timestamps=true")
    assert take(client, chunk(b"")) == [KEEPALIVE]
    assert list(client.rest()) == [STOP]
    assert told(client, final("one"), Done(1000)) == []
    assert take(client, chunk(b"")) == []
    take(client, chunk(), COMMIT)
    plain, timed = told(client, final("two", 100), Flushed(1000))
    assert plain["text"] == "one two"
    assert [word["start"] for word in timed["words"] if word["type"] == "word"] == [0, 1.1]


def test_a_pause_that_is_the_end() -> None:
    """If the service closes the websocket while its client pauses, the text that waits is committed before."""
    client = client_of()
    list(client.rest())
    assert told(client, final("one"), Done(1000)) == []
    committed, error = map(json.loads, client.fail(ErrorCode.SHUTTING_DOWN, "The service ends."))
    assert (committed["message_type"], committed["text"]) == ("committed_transcript", "one")
    assert error == {"message_type": "transcriber_error", "error": "The service ends."}


def test_a_client_that_never_commits() -> None:
    """Its text is committed before it grows too long."""
    client = client_of()
    numbers = range(MOST_WAITING // 4)
    committed = [each for n in numbers for each in told(client, final(f"w{n}")) if "committed" in each["message_type"]]
    assert len(committed) == 1
    assert len(committed[0]["text"]) <= MOST_WAITING + 10


def test_messages_that_make_no_sense() -> None:
    """They get a warning; audio that is no base64 ends the connection."""
    for text in ("{", "[1]", '{"message_type":"dance"}', "[" * 5000, b"audio"):
        assert replies(take(client_of(), text))[0]["message_type"] == "warning"
    for audio in ("?", 5, ["a"]):
        error, hangup = take(client_of(), json.dumps({"message_type": "input_audio_chunk", "audio_base_64": audio}))
        assert replies([error])[0]["message_type"] == "input_error"
        assert isinstance(hangup, Hangup)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.FULL, "resource_exhausted"),
        (ErrorCode.TOO_FAST, "queue_overflow"),
        (ErrorCode.SESSION_EXPIRED, "session_time_limit_exceeded"),
        (ErrorCode.FAILED, "transcriber_error"),
    ],
)
def test_failures(code: ErrorCode, kind: str) -> None:
    """What is final comes as text that is not committed, and then the error has the name that the client knows."""
    partial, error = told(client_of(), final("one"), Error(code, "So it is.", fatal=True))
    assert partial == {"message_type": "partial_transcript", "text": "one"}
    assert error == {"message_type": kind, "error": "So it is."}
