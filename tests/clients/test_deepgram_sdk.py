"""deepgram-sdk for Python: live and recorded, with only the address changed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

from streamer.testing.exact_service import ExactService
from tests.clients.conftest import CLIENTS


def test_the_sdk_of_deepgram(exact: ExactService, talk: Path) -> None:
    """It knows every message as what it is; `Finalize` is answered, and the close is a normal one."""
    python = Path(CLIENTS).resolve() / "bin" / "python"
    program = Path(__file__).with_name("deepgram_program.py")
    command = (python, program, urlsplit(exact.url).netloc, talk)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    classes = {f"ListenV1{kind}" for kind in ("SpeechStarted", "Results", "UtteranceEnd", "Metadata")}
    assert {message["class"] for message in told["live"]} == classes
    results = [message for message in told["live"] if message["type"] == "Results"]
    finals = [message["channel"]["alternatives"][0]["transcript"] for message in results if message["is_final"]]
    assert " ".join(filter(None, finals)) == "Hello world Goodbye"
    assert any(not message["is_final"] for message in results)
    assert told["live"][-1]["duration"] == 5.4
    [channel] = told["recorded"]["results"]["channels"]
    assert channel["alternatives"][0]["transcript"] == "Hello world Goodbye"
    assert len(told["recorded"]["results"]["utterances"]) == 2
    assert told["refused"] == ["BadRequestError", 400]
