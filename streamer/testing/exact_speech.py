"""Makes audio that an exact model recognises as a given text: the level of a frame stands for a letter."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FRAME = 640  # samples
UNITS = ["<blank>", " ", "'", *"abcdefghijklmnopqrstuvwxyz"]
LEVEL = 1000  # the audio level of a unit is its number times this

Audio = NDArray[np.int16]


def say(text: str) -> Audio:
    """Return the audio of words in small letters, at 16 kHz and mono. Each letter takes 120 ms."""
    if unknown := sorted(set(text) - set(UNITS[1:])):
        raise ValueError(f"{''.join(unknown)!r} cannot be said: only small letters, apostrophes and spaces can")
    # Two frames for each letter, so that the model gets a whole one wherever its frames begin, and one between letters.
    frames = [frame for letter in text + " " for frame in (UNITS.index(letter), UNITS.index(letter), 0)]
    return np.repeat(np.array(frames, dtype=np.int16) * LEVEL, FRAME)


def silence(milliseconds: int) -> Audio:
    """Return silent audio of this length."""
    return np.zeros(16 * milliseconds, dtype=np.int16)
