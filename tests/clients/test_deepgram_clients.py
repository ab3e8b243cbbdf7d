"""Clients of Deepgram, with only the address changed: its SDKs, LiveKit's plugin, and pipecat's service."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from streamer.testing.exact_service import ExactService
from tests.clients.running import run


def finals(messages: list[Any]) -> str:
    """The final text of live messages."""
    results = [message for message in messages if message["type"] == "Results" and message["is_final"]]
    return " ".join(filter(None, (each["channel"]["alternatives"][0]["transcript"] for each in results)))


def test_the_sdk_for_python(exact: ExactService, talk: Path) -> None:
    """It knows every message as what it is; `Finalize` is answered, and the close is a normal one."""
    told = run("deepgram_program.py", exact, talk)
    classes = {f"ListenV1{kind}" for kind in ("SpeechStarted", "Results", "UtteranceEnd", "Metadata")}
    assert {message["class"] for message in told["live"]} == classes
    assert finals(told["live"]) == "Hello world Goodbye"
    assert told["live"][-1]["duration"] == 5.4
    [channel] = told["recorded"]["results"]["channels"]
    assert channel["alternatives"][0]["transcript"] == "Hello world Goodbye"
    assert len(told["recorded"]["results"]["utterances"]) == 2
    assert told["refused"] == ["BadRequestError", 400]


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_the_sdk_for_javascript(exact: ExactService, talk: Path) -> None:
    """It does not connect again after the end."""
    told = run("deepgram_program.cjs", exact, talk)
    assert (told["code"], told["opened"], finals(told["live"])) == (1000, 1, "Hello world Goodbye")
    [channel] = told["recorded"]["results"]["channels"]
    assert channel["alternatives"][0]["transcript"] == "Hello world Goodbye"


def test_livekit(exact: ExactService, talk: Path) -> None:
    """Each turn begins and ends, and its stream ends when it closes it."""
    told = run("livekit_program.py", exact, talk)
    events = [event for event in told["events"] if event[0] not in ("interim_transcript", "recognition_usage")]
    assert events == [
        *(["start_of_speech", ""], ["final_transcript", "Hello world"], ["end_of_speech", ""]),
        *(["start_of_speech", ""], ["final_transcript", "Goodbye"], ["end_of_speech", ""]),
    ]
    assert any(event[0] == "interim_transcript" for event in told["events"])
    assert told["recorded"] == "Hello world Goodbye"


def test_pipecat(exact: ExactService, turn: Path) -> None:
    """When the user stops talking, the last words come at once, and are known to end the turn."""
    assert run("pipecat_program.py", exact, turn) == {"heard": [["Hello world", False], ["Goodbye", True]]}
