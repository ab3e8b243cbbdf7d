"""How a dictation says that it listens: tones, heard in a virtual room, and whatever else it is given."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from streamer.commands.desk import BEGIN_HZ, END_HZ, Desk, show_listening
from tests.virtual_microphone import SINK, room

PLAY = "import sys; from streamer.commands.desk import play_tone; play_tone(float(sys.argv[1]))"
RATE = 16_000
BLOCK = 4096  # samples
PATIENCE_S = 60.0


@pytest.mark.parametrize("hertz", [BEGIN_HZ, END_HZ])
def test_a_tone_is_heard(tmp_path: Path, hertz: float) -> None:
    """The default output plays it."""
    with room(tmp_path) as place:
        command = ["parec", "--raw", f"--device={SINK}.monitor", "--format=s16le", "--channels=1", f"--rate={RATE}"]
        with subprocess.Popen(command, env=place.environment, stdout=subprocess.PIPE) as recording:
            assert recording.stdout is not None
            recording.stdout.read(RATE)  # it records now
            subprocess.run([sys.executable, "-c", PLAY, str(hertz)], env=place.environment, check=True)
            heard = np.zeros(0, "<i2")
            deadline = time.monotonic() + PATIENCE_S
            while not heard.any():
                assert time.monotonic() < deadline
                heard = np.frombuffer(recording.stdout.read(2 * BLOCK), "<i2")
            recording.kill()
    loudest = np.argmax(np.abs(np.fft.rfft(heard.astype(np.float64)))) * RATE / BLOCK
    assert abs(loudest - hertz) < 40  # a block may have only a part of the tone


class Microphone:
    """One that can pause."""

    paused = False


async def test_each_change_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever tells the user gets each change, also where the desktop shows no notifications."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    told: list[bool] = []
    desk = Desk(signals=[told.append, show_listening], paused=True)
    async with desk.open(Microphone(), lambda: None):
        for _ in range(3):
            desk.toggle()
            await desk.finish()
    assert told == [True, False, True]
