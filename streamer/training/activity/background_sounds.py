"""Recorded and synthetic sounds other than speech. Some of the recordings are used only for measuring."""

from __future__ import annotations

import hashlib
import re

import numpy as np
from numpy.random import Generator

from streamer.training.activity.synthetic_sounds import KINDS, Audio
from streamer.training.data.corpus import Corpus, CorpusError, Samples

HELD_OUT = 5
"""One in this many recordings of noise is kept for measuring."""


class BackgroundSounds:
    """Recorded and synthetic sounds other than speech."""

    def __init__(self, noise: Corpus, seed: int, clips: int, samples: int, *, measuring: bool = False) -> None:
        chosen = [noise.samples(piece) for piece in noise.utterances if held_out(piece.name) == measuring]
        self.recorded = [_scaled(clip) for clip in chosen if np.abs(clip).max() > 0]
        if not self.recorded:
            raise CorpusError("there is too little prepared noise: training and measuring need some each")
        self.synthetic = {
            kind: [make(np.random.default_rng((seed, number)), samples) for number in range(clips)]
            for kind, make in KINDS.items()
        }

    def draw(self, rng: Generator, samples: int) -> Audio:
        """Draw a recorded or synthetic sound, or sometimes two at once."""
        audio = self._one(rng, samples)
        if rng.random() < 0.2:
            audio = audio + rng.uniform(0.1, 1) * self._one(rng, samples)
        return audio

    def _one(self, rng: Generator, samples: int) -> Audio:
        choice, kinds = rng.random(), list(self.synthetic)
        kind = "music" if choice < 0.6 else kinds[rng.integers(len(kinds))]
        clips = self.recorded if choice < 0.4 else self.synthetic[kind]
        clip = np.roll(clips[rng.integers(len(clips))], rng.integers(samples))
        return np.resize(clip, samples)


def held_out(name: str) -> bool:
    """Return whether a recording of noise is only for measuring. This is the same for all pieces of one source."""
    source = re.sub(r"(-[A-Z]-\d+|-\d+)?\.\w+$", "", name)
    return hashlib.sha256(source.encode()).digest()[0] % HELD_OUT == 0


def _scaled(clip: Samples) -> Audio:
    audio = clip.astype(np.float32)
    scaled: Audio = audio / max(float(np.abs(audio).max()), 1.0)
    return scaled
