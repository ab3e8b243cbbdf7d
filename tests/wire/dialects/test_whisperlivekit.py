"""The format of WhisperLiveKit: the whole state, or what is new in it, and the end."""

from __future__ import annotations

from typing import Any

import pytest

from streamer.base.events import Done
from streamer.wire.dialects.dialect import STOP, Hangup
from streamer.wire.dialects.whisperlivekit import MOST_LINES, WhisperLiveKit
from streamer.wire.errors import WireError
from tests.wire.dialects.dialect_steps import final, opened, partial, replies, started, take, told

SECOND = bytes(32_000)
FIELDS = (
    *("status", "lines", "buffer_transcription", "buffer_diarization", "buffer_translation"),
    *("remaining_time_transcription", "remaining_time_transcription_processing"),
    *("remaining_time_transcription_policy", "remaining_time_diarization"),
)


def rebuilt(messages: list[Any]) -> list[list[str]]:
    """Return the lines after each message of the mode `diff`, as a client makes them."""
    lines: list[Any] = []
    states = []
    for message in messages:
        if message["type"] == "snapshot":
            lines = list(message["lines"])
        else:
            lines = lines[message.get("lines_pruned", 0) :] + message.get("new_lines", [])
            assert len(lines) == message["n_lines"]
        states.append([line["text"] for line in lines])
    return states


@pytest.mark.parametrize(
    ("query", "mode"), [("", "full"), ("mode=full", "full"), ("mode=diff", "diff"), ("mode=x", "full")]
)
def test_the_first_message(query: str, mode: str) -> None:
    """It says at once how audio must come."""
    greeting = replies(opened(WhisperLiveKit, query).greet())
    assert greeting == [{"type": "config", "useAudioWorklet": True, "mode": mode}]


def test_options_of_the_address() -> None:
    """A language is one of the model; what there is not is ignored."""
    start = started(take(opened(WhisperLiveKit, "language=auto&target_language=fr&token=key"), SECOND))
    assert (start["language"], start["written"], start["encoding"]) == ("auto", True, "pcm_s16le")
    with pytest.raises(WireError):
        opened(WhisperLiveKit, "language=fr")


def test_the_whole_state() -> None:
    """Each message has all lines and the text that may still change."""
    client = opened(WhisperLiveKit)
    take(client, SECOND, SECOND)
    first, second, third = told(client, partial("hel"), final("hello", 3661_230, 3_662_000), partial("wor", 0, 1500))
    assert tuple(first) == FIELDS
    assert (first["status"], first["lines"], first["buffer_transcription"]) == ("active_transcription", [], "hel")
    assert first["remaining_time_transcription"] == 1.0
    assert second["lines"] == [{"speaker": 1, "text": "hello", "start": "1:01:01.23", "end": "1:01:01.33"}]
    assert (second["buffer_transcription"], third["buffer_transcription"]) == ("", "wor")
    assert (third["lines"], third["remaining_time_transcription"]) == (second["lines"], 0.5)


def test_silence() -> None:
    """Without any text, the state says so."""
    client = opened(WhisperLiveKit)
    take(client, SECOND)
    assert told(client, partial(""))[0]["status"] == "no_audio_detected"


def test_what_is_new() -> None:
    """In the mode `diff` each line comes once, and messages have numbers."""
    client = opened(WhisperLiveKit, "mode=diff")
    take(client, SECOND)
    messages = told(client, partial("on"), final("one"), partial("tw"), final("two", 1000))
    assert [(message["type"], message["seq"]) for message in messages] == [
        ("snapshot", 1),
        *(("diff", n) for n in (2, 3, 4)),
    ]
    assert [len(message.get("new_lines", ())) for message in messages[1:]] == [1, 0, 1]
    assert rebuilt(messages) == [[], ["one"], ["one"], ["one", "two"]]


@pytest.mark.parametrize("query", ["", "mode=diff"])
def test_a_long_session(query: str) -> None:
    """A state has the last lines only, so it does not grow for ever."""
    client = opened(WhisperLiveKit, query)
    take(client, SECOND)
    numbers = list(range(MOST_LINES + 50))
    messages = told(client, *(final(str(number), number) for number in numbers))
    expected = [str(number) for number in numbers[-MOST_LINES:]]
    assert (rebuilt(messages)[-1] if query else [line["text"] for line in messages[-1]["lines"]]) == expected


def test_the_end() -> None:
    """An empty message is the end. The client may close when all is said, and the service does then."""
    client = opened(WhisperLiveKit)
    take(client, SECOND)
    assert take(client, b"") == [STOP, Hangup(1000)]
    assert told(client, final("one"), Done(1000))[-1] == {"type": "ready_to_stop"}
    assert take(client, SECOND, b"") == []


def test_an_end_without_audio() -> None:
    """It is answered too."""
    steps = take(opened(WhisperLiveKit), "text", b"")
    assert (replies(steps), steps[-1]) == ([{"type": "ready_to_stop"}], Hangup(1000))


def test_a_rest_keeps_times_and_lines() -> None:
    """After a silence of the client, lines go on."""
    client = opened(WhisperLiveKit)
    take(client, SECOND)
    assert list(client.rest()) == [STOP]
    assert len(told(client, final("one"), Done(1000))) == 1
    take(client, SECOND)
    [state] = told(client, final("two", 250))
    assert [line["start"] for line in state["lines"]] == ["0:00:00.00", "0:00:01.25"]
