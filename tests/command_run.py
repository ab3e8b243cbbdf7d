"""Runs the command to its end; the recordings for it, and their right words."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path

from streamer.bridge.service import Service
from tests.project import SAMPLES
from tests.pseudo_terminal import COMMAND, PATIENCE_S

TALK, SHORT, PHRASE = (str(SAMPLES / name) for name in ("talk.flac", "airplane.mp3", "quilter.ogg"))


def streamer(*arguments: str, given: bytes = b"", folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    done = subprocess.run(
        [*COMMAND, *arguments], input=given, capture_output=True, timeout=PATIENCE_S, cwd=folder, check=False
    )
    assert b"Traceback" not in done.stderr
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def finals(service: Service, recording: str) -> list[str]:
    """The right lines for a recording, as the service gives them."""
    return _finals(service.url, recording, Path(recording).stat().st_mtime_ns)


@cache
def _finals(url: str, recording: str, _changed_ns: int) -> list[str]:
    lines = streamer(recording, "--server", url, "--format", "jsonl").stdout.splitlines()
    return [event["text"] for event in map(json.loads, lines) if event["type"] == "final"]
