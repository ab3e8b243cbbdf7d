"""Networks of a keyword spotter that were not trained."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from streamer.engine.acoustics.encoder_config import FRAME_SAMPLES
from streamer.heads.keywords import KERNEL, KeywordNetwork

HIDDEN, PLACES = 2, 4


def with_equal_layers(
    words: tuple[str, ...],
    pronunciations: tuple[tuple[int, tuple[int, ...]], ...],
    phones: ArrayLike,
    phones_bias: ArrayLike,
    *,
    threshold: float,
    doubt: float,
    frame_samples: int = FRAME_SAMPLES,
) -> KeywordNetwork:
    """Return a network that uses only the score of the phones: a score of -`doubt` has a probability of a half."""
    width, units = np.shape(phones)
    weights = {
        "silence": np.zeros(width),
        "phones": np.asarray(phones),
        "phones_bias": np.asarray(phones_bias),
        "projection": np.zeros((width, 1)),
        "projection_bias": np.zeros(1),
        "first": np.zeros(((units + 1) * KERNEL, HIDDEN)),
        "first_bias": np.zeros(HIDDEN),
        "second": np.zeros((HIDDEN * KERNEL, HIDDEN)),
        "second_bias": np.zeros(HIDDEN),
        "output": np.zeros((PLACES * HIDDEN, len(words))),
        "output_bias": np.full(len(words), doubt),
        "score": np.ones(len(words)),
    }
    single = {name: np.asarray(value, np.float32) for name, value in weights.items()}
    return KeywordNetwork(words, pronunciations, np.full(len(words), threshold, np.float32), single, frame_samples)
