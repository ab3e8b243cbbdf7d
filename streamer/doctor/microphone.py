"""Checks the microphones. A separate process lists them, because audio libraries can crash their process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Final

from streamer.doctor.finding import FINE, WARNING, Finding

_PATIENCE_S: Final = 20


def microphones() -> Iterator[Finding]:
    """Report what `streamer mic --devices` lists."""
    command = [sys.executable, "-m", "streamer", "mic", "--devices"]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        yield Finding("microphone", WARNING, f"the audio system does not answer: {error}")
        return
    lines = process.stdout.splitlines()
    if process.returncode == 0 and lines:
        # A star marks the default.
        default = next((line for line in lines if line.startswith("*")), lines[0])
        yield Finding("microphone", FINE, f"PortAudio finds {len(lines)}; the default is {default[1:].strip()}")
        return
    last = (process.stderr.strip().splitlines() or [f"exit status {process.returncode}"])[-1].removeprefix("streamer: ")
    reason, _, remedy = last.partition(": ")
    yield Finding("microphone", WARNING, reason, remedy)
