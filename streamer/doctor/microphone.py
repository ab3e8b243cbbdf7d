"""Microphones. A separate process lists them, because audio libraries can crash the process that loads them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Final

from streamer.doctor.finding import FINE, WARNING, Finding

_PATIENCE_S: Final = 20


def microphones() -> Iterator[Finding]:
    """Yield what `streamer mic --devices` lists."""
    command = [sys.executable, "-m", "streamer", "mic", "--devices"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        yield Finding("microphone", WARNING, f"the audio system does not answer: {error}")
        return
    listed = done.stdout.splitlines()
    if done.returncode == 0 and listed:
        # A star marks the default.
        default = next((line for line in listed if line.startswith("*")), listed[0])
        yield Finding("microphone", FINE, f"PortAudio finds {len(listed)}; the default is {default[1:].strip()}")
        return
    last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1].removeprefix("streamer: ")
    said, _, remedy = last.partition(": ")
    yield Finding("microphone", WARNING, said, remedy)
