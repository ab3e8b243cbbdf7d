"""The format of WhisperLive: the first message, lists of segments, warnings, and what ends a connection."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streamer.base.codes import ErrorCode
from streamer.base.events import Done, Error
from streamer.wire.dialects.dialect import STOP, Hangup, Reply, Step
from streamer.wire.dialects.whisperlive import END, OPTIONS, WhisperLive
from tests.wire.dialects.dialect_steps import final, opened, partial, replies, started, take, told

SECOND = bytes(64_000)
# What the client of the package sends if nothing was set.
USUAL: dict[str, Any] = {
    "uid": "ab",
    "language": None,
    "task": "transcribe",
    "model": "small",
    "use_vad": True,
    "send_last_n_segments": 10,
    "no_speech_thresh": 0.45,
    "clip_audio": False,
    "same_output_threshold": 10,
    "enable_translation": False,
    "target_language": "fr",
    "hotwords": None,
    "enable_diarization": False,
    "max_speakers": 10,
    "known_speakers": [],
    "word_timestamps": False,
    "initial_prompt": None,
    "vad_parameters": None,
}


def greeted(**options: Any) -> tuple[WhisperLive, list[Step]]:
    """Return a dialect that got its first message, and what it did."""
    client = opened(WhisperLive)
    return client, take(client, json.dumps({**USUAL, **options}))


def test_the_page_has_the_options() -> None:
    """The reference has each option with its meaning."""
    page = Path("docs/reference/compatibility.md").read_text()
    table = page.partition("<!-- the options of WhisperLive")[2].partition("\n\n")[0]
    assert table.splitlines()[3:] == [f"| `{name}` | {meaning} |" for name, meaning in OPTIONS.items()]


def test_what_a_client_leaves_at_its_default() -> None:
    """It is no reason to refuse or to warn: the service is ready at once."""
    client, steps = greeted()
    assert replies(steps) == [{"uid": "ab", "message": "SERVER_READY", "backend": "faster_whisper"}]
    start = started(take(client, SECOND))
    assert (start["encoding"], start["sample_rate"], start["written"]) == ("pcm_f32le", 16_000, True)
    assert (start["model"], start.get("language"), start.get("hotwords")) == ("default", None, None)


def test_what_a_client_asks_for() -> None:
    """Its model and language, and words to listen for."""
    client, _ = greeted(model="fine", language="de", hotwords="Ada, Grace Hopper,")
    start = started(take(client, SECOND))
    assert (start["model"], start["language"], start["hotwords"]) == ("fine", "de-DE", ["Ada", "Grace Hopper"])


def test_warnings() -> None:
    """What the service does not do is told, and the session goes on."""
    _, steps = greeted(enable_translation=True, enable_diarization=True)
    *warnings, ready = replies(steps)
    assert [warning["status"] for warning in warnings] == ["WARNING", "WARNING"]
    assert ready["message"] == "SERVER_READY"


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"task": "translate"}, "translate"),
        ({"language": "fr"}, "only English"),
        ({"model": "fine", "language": "fr"}, "de-DE"),
        ({"audio_format": "int32"}, "audio_format"),
        ({"audio_format": ["int16"]}, "audio_format"),
    ],
)
def test_refusals(options: dict[str, Any], word: str) -> None:
    """The client gets a sentence that it shows, and a close."""
    _, steps = greeted(**options)
    [refusal] = replies(steps)
    assert (refusal["uid"], refusal["status"], word in refusal["message"]) == ("ab", "ERROR", True)
    assert isinstance(steps[-1], Hangup)
    assert steps[-1].code == 1008


@pytest.mark.parametrize(
    "first",
    ["hello", "[]", "{}", '{"uid": 5}', json.dumps({"uid": "a" * 201}), bytes(640), "[" * 9999, '{"uid": "\\ud800"}'],
)
def test_a_first_message_without_a_name(first: str | bytes) -> None:
    """It closes the connection, because each message needs the name."""
    [step] = take(opened(WhisperLive), first)
    assert isinstance(step, Hangup)
    assert (step.code, "uid" in step.reason) == (1008, True)


@pytest.mark.parametrize(
    ("format", "sent", "heard"),
    [
        ("int16", b"\x01\x02", b"\x01\x02"),
        ("uint8", b"\x00\x80\xff", b"\x00\x80\x00\x00\x00\x7f"),
        ("float32", b"abcd", b"abcd"),
    ],
)
def test_samples(format: str, sent: bytes, heard: bytes) -> None:
    """They come as floats, or as 16 or 8 bits if the client says so."""
    client, _ = greeted(audio_format=format)
    assert take(client, sent)[1:] == [heard]


def test_segments() -> None:
    """The last of a list may still change; times are strings; a client gets as many as it asked for."""
    client, _ = greeted(send_last_n_segments=2, word_timestamps=True)
    take(client, SECOND)
    [first] = told(client, partial("hel", 200))
    assert first == {"uid": "ab", "segments": [{"start": "0.200", "end": "1.000", "text": " hel", "completed": False}]}
    [second] = told(client, final("hello", 200))
    assert second["segments"] == [
        {
            "start": "0.200",
            "end": "0.300",
            "text": " hello",
            "completed": True,
            "words": [{"word": " hello", "start": "0.200", "end": "0.300", "probability": 0.5}],
        }
    ]
    [third] = told(client, partial("world", 1200, 1800))
    assert [segment["completed"] for segment in third["segments"]] == [True, False]
    last = told(client, final("world", 1200), final("again", 1500))[-1]
    assert [segment["text"] for segment in last["segments"]] == [" world", " again"]
    assert told(client, partial("")) == []


def test_the_end() -> None:
    """It comes as bytes; the rest follows, and a normal close."""
    client, _ = greeted()
    take(client, SECOND)
    assert take(client, END) == [STOP, Hangup(1000)]
    assert told(client, final("one"), Done(1000))[0]["segments"][0]["text"] == " one"
    assert take(client, SECOND, END, "{}") == []


def test_a_rest_keeps_times_and_segments() -> None:
    """A client waits for the last words without a sign that it has sent everything."""
    client, _ = greeted()
    take(client, SECOND)
    assert list(client.rest()) == [STOP]
    told(client, final("one"), Done(1000))
    take(client, SECOND)
    [both] = told(client, partial("two", 250))
    assert [segment["start"] for segment in both["segments"]] == ["0.000", "1.250"]
    assert WhisperLive.rest_after_s is not None
    assert WhisperLive.rest_after_s < 15


@pytest.mark.parametrize(
    ("code", "told_as"),
    [
        (ErrorCode.FULL, {"status": "WAIT"}),
        (ErrorCode.BAD_OPTION, {"status": "ERROR"}),
        (ErrorCode.SESSION_EXPIRED, {"message": "DISCONNECT"}),
        (ErrorCode.ENDED_BY_OPERATOR, {"message": "DISCONNECT"}),
        (ErrorCode.FAILED, None),
        (ErrorCode.SHUTTING_DOWN, None),
    ],
)
def test_the_reason_of_a_close(code: ErrorCode, told_as: dict[str, str] | None) -> None:
    """Nothing is said where the client should connect again, because it does not after a reason."""
    client, _ = greeted()
    take(client, SECOND)
    messages = told(client, Error(code, "A sentence.", fatal=True))
    assert len(messages) == (told_as is not None)
    for message in messages:
        assert (told_as or {}).items() <= message.items()
        assert not isinstance(message.get("message"), str) or message["message"] in ("A sentence.", "DISCONNECT")


def test_other_texts_are_ignored() -> None:
    """After the first message, only audio counts."""
    client, steps = greeted()
    assert isinstance(steps[-1], Reply)
    assert take(client, "hello", '{"uid": "other"}') == []
