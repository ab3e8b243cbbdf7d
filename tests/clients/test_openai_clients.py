"""Clients of OpenAI, with only the address changed: its SDKs, openai-agents, LiveKit's plugin, pipecat's."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from streamer.testing.exact_service import ExactService
from tests.bridge.access.certificate_authority import Authority
from tests.clients.conftest import KEY
from tests.clients.running import HALF, run

javascript = pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
COMPLETED = "conversation.item.input_audio_transcription.completed"
ITEM = "ConversationItemInputAudioTranscription"
TEXT = "Hello world Goodbye"
LIVEKIT = [
    ["start_of_speech", ""],
    ["end_of_speech", ""],
    ["final_transcript", "Hello"],
    ["start_of_speech", ""],
    ["end_of_speech", ""],
    ["final_transcript", "Goodbye"],
]


def livekit(told: Any) -> list[Any]:
    """The events of LiveKit that tell turns."""
    return [event for event in told["events"] if event[0] not in ("interim_transcript", "recognition_usage")]


def transcripts(events: list[Any]) -> list[str]:
    """The transcripts that are complete among realtime events."""
    return [event["transcript"] for event in events if event["type"] == COMPLETED]


def test_recordings(exact: ExactService, talk: Path) -> None:
    """The SDK understands every form of the answer, and raises its own errors."""
    told = run("openai_files_program.py", exact, talk)
    assert (told["models"], told["model"]) == (["default"], "some/whisper-1")
    assert (told["json"], told["text"].strip(), told["azure"]) == (TEXT, TEXT, TEXT)
    assert "Goodbye" in told["srt"]
    assert told["vtt"].startswith("WEBVTT")
    verbose = told["verbose"]
    assert (verbose["text"], verbose["duration"], len(verbose["segments"])) == (TEXT, 5.4, 2)
    assert [word["word"] for word in verbose["words"]] == TEXT.split()
    assert all(0 <= word["start"] < word["end"] <= 5.4 for word in verbose["words"])
    *deltas, done = told["events"]
    assert "".join(event["delta"] for event in deltas) == done["text"] == TEXT
    refusals = told["refusals"]
    assert (
        refusals["language"][:2] == refusals["no audio"][:2] == refusals["translation"][:2] == ["BadRequestError", 400]
    )


def test_recordings_and_keys(guarded: ExactService, authority: Authority, talk: Path) -> None:
    """A wrong key and a full service are errors that the SDK knows, and a client secret is as good as a key."""
    told = run("openai_files_program.py", guarded, talk, KEY.secret, environment={"SSL_CERT_FILE": str(authority.root)})
    assert told["json"] == TEXT
    assert told["refusals"]["wrong key"] == ["AuthenticationError", 401, "invalid_api_key"]
    assert told["azure in realtime"] == "session.created"
    refusal = ["AuthenticationError", 401, "invalid_api_key"]
    assert told["secret"] == ["transcription", "audio/pcmu", None, TEXT, refusal]
    assert told["full"] == [["InvalidStatus", 503], ["InternalServerError", 503, "full"]]


@javascript
def test_the_sdk_for_javascript(guarded: ExactService, authority: Authority, talk: Path, raw: Path) -> None:
    """A recording, its events, and realtime, which it always encrypts; a wrong key is refused before the upgrade."""
    trusted = {"NODE_EXTRA_CA_CERTS": str(authority.root)}
    told = run("openai_program.cjs", guarded, talk, KEY.secret, str(raw), environment=trusted)
    assert told["recorded"]["text"] == TEXT
    assert told["streamed"][-1]["text"] == TEXT
    assert (transcripts(told["live"]["events"]), told["live"]["code"]) == (["Hello Goodbye"], 1000)
    assert not any(event["type"] == "error" for event in told["live"]["events"])
    status, sentence = told["wrong"]
    assert (status, "401" in sentence) == (401, True)


def test_realtime_and_agents(exact: ExactService, raw: Path) -> None:
    """They know every event as what it is, and the end of a stream comes in order."""
    told = run("openai_realtime_program.py", exact, raw)
    assert {event["class"] for event in told["openai"]} == {
        "SessionCreatedEvent",
        "SessionUpdatedEvent",
        "InputAudioBufferCommittedEvent",
        "ConversationItemAdded",
        "ConversationItemDone",
        f"{ITEM}DeltaEvent",
        f"{ITEM}CompletedEvent",
    }
    assert transcripts(told["openai"]) == ["Hello Goodbye"]
    assert told["agents"] == ["Hello", "Goodbye"]


def test_livekit(exact: ExactService, raw: Path) -> None:
    """Each turn begins and ends, and a whole recording is recognised too."""
    told = run("livekit_realtime_program.py", exact, raw)
    assert any(event[0] == "interim_transcript" for event in told["events"])
    assert livekit(told) == LIVEKIT
    assert told["recorded"] == "Hello Goodbye"


def test_pipecat(exact: ExactService, raw: Path) -> None:
    """When the user stops talking, all words come at once, in realtime and with a recording of each turn."""
    assert run("pipecat_realtime_program.py", exact, raw) == ["Hello Goodbye"] * 2
    assert run("pipecat_realtime_program.py", exact, raw, "files") == ["Hello Goodbye"] * 2


def test_a_killed_triton_is_a_pause(exact: ExactService, raw: Path) -> None:
    """In the middle of a session: every client gets each word once, and notices nothing."""
    killed = {HALF: exact.kill_recogniser}
    told = run("openai_realtime_program.py", exact, raw, when=killed)
    assert (transcripts(told["openai"]), told["agents"]) == (["Hello Goodbye"], ["Hello", "Goodbye"])
    assert livekit(run("livekit_realtime_program.py", exact, raw, when=killed)) == LIVEKIT
    assert run("pipecat_realtime_program.py", exact, raw, when=killed) == ["Hello Goodbye"] * 2


@javascript
def test_a_killed_triton_is_a_pause_to_the_sdk_for_javascript(
    guarded: ExactService, authority: Authority, talk: Path, raw: Path
) -> None:
    """In the middle of a session: each word comes once."""
    trusted = {"NODE_EXTRA_CA_CERTS": str(authority.root)}
    killed = {HALF: guarded.kill_recogniser}
    told = run("openai_program.cjs", guarded, talk, KEY.secret, str(raw), environment=trusted, when=killed)
    assert (transcripts(told["live"]["events"]), told["live"]["code"]) == (["Hello Goodbye"], 1000)
