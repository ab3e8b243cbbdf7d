"""The realtime clients of openai and openai-agents for Python, with only the address changed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

from streamer.testing.exact_service import ExactService
from tests.bridge.dialects.realtime_client import slowly, spoken
from tests.clients.conftest import CLIENTS


def test_the_realtime_clients_of_openai(exact: ExactService, tmp_path: Path) -> None:
    """They know every event as what it is, and the end of a stream comes in order."""
    pcm = tmp_path / "talk.raw"
    pcm.write_bytes(spoken(slowly("hello", 24_000), slowly("goodbye", 24_000), pause_ms=3000).tobytes())
    python = Path(CLIENTS).resolve() / "bin" / "python"
    program = Path(__file__).with_name("openai_realtime_program.py")
    command = (python, program, urlsplit(exact.url).netloc, pcm)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    item = "ConversationItemInputAudioTranscription"
    assert {event["class"] for event in told["openai"]} == {
        *("SessionCreatedEvent", "SessionUpdatedEvent", "InputAudioBufferCommittedEvent"),
        *("ConversationItemAdded", "ConversationItemDone", f"{item}DeltaEvent", f"{item}CompletedEvent"),
    }
    assert told["openai"][-1]["transcript"] == "Hello Goodbye"
    assert told["agents"] == ["Hello", "Goodbye"]
