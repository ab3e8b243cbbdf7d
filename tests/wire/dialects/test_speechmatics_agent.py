"""Speechmatics' format of voice agents: turns that the service or the client ends, and their segments."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from streamer.base.codes import ErrorCode
from streamer.base.events import Done, Error, Flushed, Turn, TurnState
from streamer.wire.dialects.dialect import FLUSH, STOP, Hangup
from streamer.wire.dialects.speechmatics_agent import SpeechmaticsAgent
from tests.wire.dialects.dialect_steps import final, opened, partial, replies, started, take, told, words

SECOND = bytes(32_000)
RAW = {"type": "raw", "encoding": "pcm_s16le", "sample_rate": 16_000}
OVER = Turn(TurnState.END, 0, 0.9, 3000)
WHOLE = replace(final("Hello world.", 100), turn=0.9)
EXTERNAL = {"turn_detection_mode": "external"}


def begin(turn_config: object = None, **config: object) -> str:
    """Return the first message, as the SDK writes it."""
    message = {"message": "StartRecognition", "audio_format": RAW, "transcription_config": {"language": "en", **config}}
    return json.dumps({**message, **({"turn_config": turn_config} if turn_config else {})})


def client_of(turn_config: object = None, **config: object) -> SpeechmaticsAgent:
    """Return a websocket on which audio has come."""
    client = opened(SpeechmaticsAgent)
    take(client, begin(turn_config, **config), SECOND)
    return client


def kinds(messages: list[Any]) -> list[str]:
    """Return what messages are."""
    return [message["message"] for message in messages]


def test_the_beginning() -> None:
    """It is that of the other format; sessions have turns."""
    client = opened(SpeechmaticsAgent)
    assert kinds(replies(take(client, begin()))) == ["RecognitionStarted", "Info"]
    steps = take(client, SECOND)
    start = started(steps)
    assert (start["turns"], start["endpoint"]["turn"], start["written"]) == (True, True, True)
    assert kinds(replies(steps)) == ["AudioAdded"]
    assert started(take(opened(SpeechmaticsAgent), begin(vad_config={"window": 0.7, "enabled": True}), SECOND))[
        "endpoint"
    ] == {"turn": True, "eagerness": "medium", "longest_pause_ms": 700}


def test_a_turn() -> None:
    """It begins, grows, has its segment, and ends."""
    client = client_of()
    messages = told(client, partial("hello", 100), partial("hello world", 100), WHOLE, OVER)
    assert kinds(messages) == [
        "SpeechStarted",
        "StartOfTurn",
        "AddPartialSegment",
        "AddPartialSegment",
        "AddSegment",
        "SpeechEnded",
        "EndOfTurn",
    ]
    assert messages[1]["metadata"] == {"start_time": 0.1}
    assert messages[4]["segment"] == {"transcript": "Hello world."}
    assert messages[4]["metadata"] == {"start_time": 0.1, "end_time": 0.3}
    assert messages[6]["metadata"] == {"end_time": 0.3}
    quiet = client_of(enable_partials=False)
    assert "AddPartialSegment" not in kinds(told(quiet, partial("hello"), WHOLE, OVER))


def test_turns_that_the_client_ends() -> None:
    """It asks for each segment, and hears nothing of turns. Older clients say it in another place."""
    for client in (client_of(EXTERNAL), client_of(None, vad_config={"enabled": False})):
        assert take(client, '{"message":"ForceEndOfUtterance"}') == [FLUSH]
        said = told(client, partial("hello"), replace(final("Hello."), turn=None), Flushed(1000))
        assert kinds(said) == ["AddPartialSegment", "AddPartialSegment", "AddSegment"]
    start = started(take(opened(SpeechmaticsAgent), begin(EXTERNAL), SECOND))
    assert (start["turns"], start["endpoint"]) == (False, {"silence": False})


def test_segments() -> None:
    """Each has one speaker, and if asked for one sentence."""
    spoken = tuple(
        replace(word, speaker=speaker)
        for word, speaker in zip(words("Hi. There. Yes. No", 0), (0, 0, 1, None), strict=True)
    )
    whole = replace(final("Hi. There. Yes. No"), words=spoken, turn=None)
    configs: dict[str, dict[str, object]] = {
        "plain": {},
        "speakers": {"diarization": "speaker"},
        "sentences": {"emit_sentences": True},
    }
    segments = {
        name: [
            (each["segment"]["transcript"], each["segment"].get("speaker"))
            for each in told(client_of(EXTERNAL, **config), whole, Flushed(1))
            if each["message"] == "AddSegment"
        ]
        for name, config in configs.items()
    }
    assert segments == {
        "plain": [("Hi. There. Yes. No", None)],
        "speakers": [("Hi. There.", "S1"), ("Yes.", "S2"), ("No", "UU")],
        "sentences": [("Hi.", None), ("There.", None), ("Yes.", None), ("No", None)],
    }


def test_the_end() -> None:
    """The last turn ends before it."""
    client = client_of()
    steps = take(client, '{"message":"EndOfStream","last_seq_no":1}')
    assert steps == [STOP, Hangup(1000)]
    said = told(client, replace(final("bye"), turn=None), Done(1000))
    assert kinds(said)[-3:] == ["SpeechEnded", "EndOfTurn", "EndOfTranscript"]


def test_another_config() -> None:
    """It counts from the next turn on."""
    client = client_of()
    take(client, '{"message":"SetRecognitionConfig","transcription_config":{"max_delay":1}}')
    assert not [step for step in take(client, SECOND) if step == STOP]  # turns have no delay
    assert kinds(told(client, Error(ErrorCode.NO_SPEAKERS, "None.", fatal=False))) == ["Warning"]
    assert kinds(told(client, Error(ErrorCode.FULL, "None.", fatal=True))) == ["Error"]


def test_channels() -> None:
    """There is only one."""
    steps = take(opened(SpeechmaticsAgent), begin(diarization="channel", channel_diarization_labels=["a", "b"]))
    assert replies(steps)[0]["type"] == "invalid_config"
