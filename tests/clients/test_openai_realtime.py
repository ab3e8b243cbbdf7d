"""Clients of OpenAI in realtime, with only the address changed: its SDK, openai-agents, LiveKit's plugin, pipecat's."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.testing.exact_service import ExactService
from tests.bridge.dialects.realtime_client import slowly, spoken
from tests.clients.running import run

ITEM = "ConversationItemInputAudioTranscription"


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Provide samples at 24 kHz: hello, and goodbye after a pause."""
    path = tmp_path / "talk.raw"
    path.write_bytes(spoken(slowly("hello", 24_000), slowly("goodbye", 24_000), pause_ms=3000).tobytes())
    return path


def test_the_sdk_and_agents(exact: ExactService, raw: Path) -> None:
    """They know every event as what it is, and the end of a stream comes in order."""
    told = run("openai_realtime_program.py", exact, raw)
    assert {event["class"] for event in told["openai"]} == {
        *("SessionCreatedEvent", "SessionUpdatedEvent", "InputAudioBufferCommittedEvent"),
        *("ConversationItemAdded", "ConversationItemDone", f"{ITEM}DeltaEvent", f"{ITEM}CompletedEvent"),
    }
    assert told["openai"][-1]["transcript"] == "Hello Goodbye"
    assert told["agents"] == ["Hello", "Goodbye"]


def test_livekit(exact: ExactService, raw: Path) -> None:
    """Each turn begins and ends."""
    events = [event for event in run("livekit_realtime_program.py", exact, raw) if event[0] != "recognition_usage"]
    assert any(event[0] == "interim_transcript" for event in events)
    assert [event for event in events if event[0] != "interim_transcript"] == [
        *(["start_of_speech", ""], ["end_of_speech", ""], ["final_transcript", "Hello"]),
        *(["start_of_speech", ""], ["end_of_speech", ""], ["final_transcript", "Goodbye"]),
    ]


def test_pipecat(exact: ExactService, raw: Path) -> None:
    """When the user stops talking, all words come at once."""
    assert run("pipecat_realtime_program.py", exact, raw) == ["Hello Goodbye"] * 2
