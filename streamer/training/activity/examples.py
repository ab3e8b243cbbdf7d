"""Training examples of activity: speech with pauses over noise, music and typing, and stretches without any speech."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray

from streamer.training.activity.aligned_speech import AlignedSpeech
from streamer.training.activity.background_sounds import BackgroundSounds
from streamer.training.activity.synthetic_sounds import Audio, banded, quantised, reverberated
from streamer.training.augmentation.lines import telephoned
from streamer.training.data.corpus import SAMPLE_RATE, Samples

FRAME = 640


@dataclass(frozen=True)
class Example:
    """Samples as a service may get them, and the share of each frame of 40 ms in which somebody speaks."""

    samples: Samples
    speech: NDArray[np.float32]


class ExampleSource:
    """Draws examples of one length."""

    def __init__(self, speech: AlignedSpeech, background: BackgroundSounds, samples: int) -> None:
        self._speech = speech
        self._background = background
        self._samples = samples

    def draw(self, rng: Generator) -> Example:
        """Draw another example."""
        samples = self._samples
        spoken, speaking = np.zeros(samples, np.float32), np.zeros(samples, bool)
        silent = rng.random() < 0.3
        if not silent:
            self._speak(rng, spoken, speaking)
        loudness = float(np.sqrt((spoken[speaking] ** 2).mean())) if speaking.any() else 0.05
        if rng.random() < 0.15:
            spoken = reverberated(rng, spoken, rng.uniform(0.1, 0.5))
        mixed = spoken
        if rng.random() < 0.8:
            noise = self._background.draw(rng, samples)
            level = 10 ** (-rng.uniform(0, 30) / 20) if not silent else 10 ** (rng.uniform(-20, 10) / 20)
            noise *= loudness * level / max(float(np.sqrt((noise**2).mean())), 1e-5)
            if rng.random() < 0.3:
                begin, end = sorted(rng.integers(0, samples, 2))
                noise[begin:end] = 0
            mixed = mixed + noise
        line = rng.random()
        if line < 0.15:
            mixed = _telephoned(rng, mixed)
        elif line < 0.27:
            mixed = banded(mixed, rng.uniform(20, 300), rng.uniform(3200, 7000))
        return Example(_at_random_level(rng, mixed), speaking.reshape(-1, FRAME).mean(axis=1, dtype=np.float32))

    def _speak(self, rng: Generator, spoken: Audio, speaking: NDArray[np.bool_]) -> None:
        samples = len(spoken)
        offset = 0 if rng.random() < 0.5 else int(rng.uniform(0, 4) * SAMPLE_RATE)
        restless = rng.random() < 0.4
        while offset < samples:
            utterance, spans = self._speech.utterances[rng.integers(len(self._speech.utterances))]
            clip = self._speech.corpus.samples(utterance).astype(np.float32) / 32768
            mask = np.zeros(len(clip), bool)
            for start, end in spans:
                mask[start * 16 : end * 16] = True
            # A segment may begin in the middle of a word, after a cut. Some recordings begin so, too.
            first = int(rng.integers(len(clip))) if offset == 0 and rng.random() < 0.4 else 0
            if first == 0 and rng.random() < 0.5:
                first = max(spans[0][0] * 16 - int(rng.uniform(0, 0.1) * SAMPLE_RATE), 0)
            last = min(spans[-1][1] * 16 + int(rng.uniform(0, 0.5) * SAMPLE_RATE), len(clip))
            clip, mask = clip[first:last] * 10 ** (rng.uniform(-8, 0) / 20), mask[first:last]
            end = min(offset + len(clip), samples)
            spoken[offset:end] = clip[: end - offset]
            speaking[offset:end] = mask[: end - offset]
            offset = end + int(np.exp(rng.uniform(np.log(0.1), np.log(1.0 if restless else 5.0))) * SAMPLE_RATE)


def _telephoned(rng: Generator, mixed: Audio) -> Audio:
    """Return the audio through a telephone line, at a level that suits its 8 bits or is far too low."""
    loud = mixed * (10 ** (rng.uniform(-36, 0) / 20) / max(float(np.abs(mixed).max()), 1e-3))
    line = telephoned(torch.fft.rfft(torch.from_numpy(loud.astype(np.float32))))
    return torch.fft.irfft(line, n=len(mixed)).numpy()


def _at_random_level(rng: Generator, mixed: Audio) -> Samples:
    """Return the audio at a random level, from far too quiet to full scale, with a faint hiss, silence or a gate."""
    decibels = rng.uniform(-26, 0) if rng.random() < 0.65 else rng.uniform(-54, -20)
    mixed = mixed * (10 ** (decibels / 20) / max(float(np.abs(mixed).max()), 1e-3))
    choice = rng.random()
    if choice < 0.1:
        mixed = mixed * (np.abs(mixed) > 0.002)
    elif choice < 0.6:
        mixed = mixed + rng.standard_normal(len(mixed), np.float32) * (10 ** rng.uniform(-0.5, 1.2) / 32768)
    return quantised(mixed)
