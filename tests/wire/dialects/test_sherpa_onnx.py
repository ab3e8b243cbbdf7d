"""The format of sherpa-onnx: audio and its end, numbered segments with their own times, and the last message."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamer.base.codes import ErrorCode
from streamer.base.events import Done, Error, Partial
from streamer.base.events import Final as FinalMessage
from streamer.wire.dialects.dialect import STOP, Reply
from streamer.wire.dialects.sherpa_onnx import END, ENDED, Result, SherpaOnnx
from tests.wire.dialects.dialect_steps import final, opened, partial, started, take

SECOND = bytes(64_000)
FIELDS = (
    *("text", "tokens", "timestamps", "ys_probs", "lm_probs", "context_scores", "segment", "words", "start_time"),
    *("is_final", "is_eof"),
)


def results(texts: Any) -> list[Any]:
    return [json.loads(text) if text != ENDED else ENDED for text in texts]


def tell(client: SherpaOnnx, *messages: Partial | FinalMessage | Done | Error) -> list[Any]:
    return results([text for message in messages for text in client.tell(message)])


def test_audio() -> None:
    """It is floats at 16 kHz, without marks and capitals, and other texts than the end are ignored."""
    client = opened(SherpaOnnx)
    steps = take(client, "hello", '{"config":{}}', SECOND)
    start = started(steps)
    assert (start["encoding"], start["sample_rate"], start["written"]) == ("pcm_f32le", 16_000, False)
    assert steps[1:] == [SECOND]


def test_segments() -> None:
    """Each message has all fields of the original; a new segment has its own number and its own times."""
    client = opened(SherpaOnnx)
    take(client, SECOND)
    first, last, second = tell(
        client, partial("hel", 200), final("hello world", 200, 1500), partial("good", 1800, 2500)
    )
    assert tuple(first) == FIELDS
    assert (first["text"], first["tokens"], first["timestamps"]) == ("hel", [" hel"], [0.2])
    assert (first["is_final"], last["is_final"], second["is_final"]) == (False, True, False)
    assert (last["tokens"], last["timestamps"]) == ([" hello", " world"], [0.2, 0.3])
    assert last["ys_probs"] == pytest.approx([-0.6931, -0.6931])
    assert (last["segment"], last["start_time"]) == (0, 0.0)
    assert (second["segment"], second["start_time"], second["timestamps"]) == (1, 1.5, [0.3])


def test_the_end() -> None:
    """The last message says so, and then a word follows that is no JSON. Another recording begins at zero."""
    client = opened(SherpaOnnx)
    take(client, SECOND)
    tell(client, final("one", 0, 1000))
    assert take(client, END) == [STOP]
    assert tell(client, final("two", 1200, 2000)) == []
    *others, last, end = tell(client, final("three", 2200, 3000), Done(3000))
    assert [(each["text"], each["segment"], each["is_eof"]) for each in others] == [("two", 1, False)]
    assert (last["text"], last["segment"], last["is_final"], last["is_eof"], end) == ("three", 2, True, True, ENDED)
    assert started(take(client, SECOND))
    [again] = tell(client, partial("four", 100))
    assert (again["segment"], again["start_time"], again["timestamps"]) == (0, 0.0, [0.1])


def test_a_failure_after_the_end() -> None:
    """The words that are final come still, and neither the last message nor the word behind it."""
    client = opened(SherpaOnnx)
    take(client, SECOND, END)
    told = tell(client, final("one", 0, 1000), Error(ErrorCode.FAILED, "It failed.", fatal=True))
    assert [(each["text"], each["is_final"], each["is_eof"]) for each in told] == [("one", True, False)]


def test_an_end_without_audio() -> None:
    """It is answered at once: some clients read the last message in any case."""
    client = opened(SherpaOnnx)
    steps = take(client, END)
    assert all(isinstance(step, Reply) for step in steps)
    last, end = results([step.text for step in steps if isinstance(step, Reply)])
    assert (last["text"], last["is_final"], last["is_eof"], end) == ("", True, True, ENDED)


def test_a_rest_is_no_end() -> None:
    """After a silence of the client, numbers and times go on."""
    client = opened(SherpaOnnx)
    take(client, SECOND)
    assert list(client.rest()) == [STOP]
    assert [each["is_eof"] for each in tell(client, final("one", 0, 1000), Done(1000))] == [False]
    take(client, SECOND)
    [second] = tell(client, partial("two", 250))
    assert (second["segment"], second["start_time"], second["timestamps"]) == (1, 1.0, [0.25])


def test_a_message_of_the_original_can_be_read() -> None:
    """What is written here can be read here, and so can what the original writes."""
    written = Result("he was", (" he", " was"), (0.2, 0.5), 3, 1.5, True, (-0.1, -0.2), True)
    read = Result.of_text(written.as_text())
    assert (read.text, read.tokens, read.timestamps, read.segment) == ("he was", (" he", " was"), (0.2, 0.5), 3)
    assert (read.start_time, read.is_final, read.is_eof) == (1.5, True, True)
