"""Short tones: one says that listening begins, a lower one that it has ended."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import numpy as np

BEGIN_HZ: Final = 880.0
END_HZ: Final = 587.0

_RATE: Final = 48_000
_LENGTH_S: Final = 0.09
_FADE_S: Final = 0.01  # without it, a tone begins and ends with a click
_LOUDNESS: Final = 0.2


def play(hertz: float) -> None:
    """Play a tone on the default output, to its end. Nothing happens if there is none."""
    time_s = np.arange(round(_RATE * _LENGTH_S)) / _RATE
    loudness = _LOUDNESS * np.clip(np.minimum(time_s, time_s[::-1]) / _FADE_S, 0, 1)
    sound = (np.sin(2 * np.pi * hertz * time_s) * loudness).astype(np.float32)
    with suppress(Exception):  # PortAudio has errors of its own, and a machine without an output can still listen
        import sounddevice  # type: ignore[import-untyped]

        with sounddevice.OutputStream(samplerate=_RATE, channels=1, dtype="float32") as output:
            output.write(sound.reshape(-1, 1))
