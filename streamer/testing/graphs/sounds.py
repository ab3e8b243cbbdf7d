"""Random sounds for models that recognise nothing sensible: tones and noise of all kinds, with pauses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamer.engine.graphs.fbank import SAMPLE_RATE

_TONES = 3


def random_sound(random: np.random.Generator, seconds: float) -> NDArray[np.int16]:
    """Make a sound of parts of 50 to 400 ms. One in six is a pause of up to two seconds."""
    length = round(seconds * SAMPLE_RATE)
    parts: list[NDArray[np.float64]] = []
    while sum(map(len, parts)) < length:
        if random.random() < 1 / 6:
            parts.append(random.normal(0, 2, int(random.integers(8_000, 32_000))))
            continue
        at = np.arange(int(random.integers(800, 6_400))) / SAMPLE_RATE
        heights, loudness, phases = random.uniform((100, 200, 0), (6_000, 4_000, 6), (_TONES, 3)).T
        tones = loudness @ np.sin(2 * np.pi * np.outer(heights, at) + phases[:, None])
        parts.append(tones + random.normal(0, 30, len(at)))
    return np.concatenate(parts)[:length].clip(-32768, 32767).astype(np.int16)
