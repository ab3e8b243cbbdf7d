"""Scenes to learn activity from: speech with pauses over noise, music and keys, and stretches without any speech.

Speech is what the alignment calls a phone; pauses between phones of less than 200 ms are part of it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from streamer.training.activity.sounds import KINDS, Dice, Sound, banded, reverberated
from streamer.training.data.alignment import Alignment, read_alignments
from streamer.training.data.corpus import SAMPLE_RATE, Corpus, CorpusError, Samples, Utterance

FRAME = 640
SHORT_PAUSE_MS = 200
HELD_OUT = 5
"""One recording of noise in so many is kept for measuring."""


def held_out(name: str) -> bool:
    """Whether a recording of noise is for measuring; pieces of one source are on the same side."""
    source = re.sub(r"(-[A-Z]-\d+|-\d+)?\.\w+$", "", name)
    return hashlib.sha256(source.encode()).digest()[0] % HELD_OUT == 0


def speech_spans(alignment: Alignment) -> list[tuple[int, int]]:
    """The stretches of speech of an utterance, (start ms, end ms)."""
    spans: list[tuple[int, int]] = []
    for _, start, length, _ in alignment.phones:
        if spans and start - spans[-1][1] < SHORT_PAUSE_MS:
            spans[-1] = (spans[-1][0], start + length)
        else:
            spans.append((start, start + length))
    return spans


@dataclass(frozen=True)
class Scene:
    """Samples as a service hears them, and for each frame of 40 ms the share of it in which somebody speaks."""

    samples: Samples
    speech: NDArray[np.float32]


@dataclass(frozen=True)
class Voices:
    """Aligned utterances."""

    corpus: Corpus
    aligned: Sequence[tuple[Utterance, list[tuple[int, int]]]]

    @classmethod
    def read(cls, folder: Path, name: str) -> Voices:
        """Those of a prepared set that could be aligned."""
        corpus, alignments = Corpus(folder, name), read_alignments(folder, name)
        return cls(corpus, _aligned(corpus, alignments))


class Background:
    """Recorded and synthetic sounds that are no speech."""

    def __init__(self, noise: Corpus, seed: int, clips: int, samples: int, *, measuring: bool = False) -> None:
        chosen = [noise.samples(piece) for piece in noise.utterances if held_out(piece.name) == measuring]
        self.recorded = [_scaled(clip) for clip in chosen if np.abs(clip).max() > 0]
        if not self.recorded:
            raise CorpusError("the prepared noise is too little: some is to train with and some to measure with")
        self.made = {
            kind: [make(np.random.default_rng((seed, number)), samples) for number in range(clips)]
            for kind, make in KINDS.items()
        }

    def draw(self, dice: Dice, samples: int) -> Sound:
        """Some sound, recorded or made, sometimes two."""
        sound = self._one(dice, samples)
        if dice.random() < 0.2:
            sound = sound + dice.uniform(0.1, 1) * self._one(dice, samples)
        return sound

    def _one(self, dice: Dice, samples: int) -> Sound:
        choice, kinds = dice.random(), list(self.made)
        kind = "music" if choice < 0.6 else kinds[dice.integers(len(kinds))]
        clips = self.recorded if choice < 0.4 else self.made[kind]
        clip = np.roll(clips[dice.integers(len(clips))], dice.integers(samples))
        return np.resize(clip, samples)


class Stage:
    """Draws scenes of one length."""

    def __init__(self, voices: Voices, background: Background, samples: int) -> None:
        self._voices = voices
        self._background = background
        self._samples = samples

    def scene(self, dice: Dice) -> Scene:
        """A scene."""
        samples = self._samples
        spoken, speaking = np.zeros(samples, np.float32), np.zeros(samples, bool)
        silent = dice.random() < 0.3
        if not silent:
            self._speak(dice, spoken, speaking)
        loudness = float(np.sqrt((spoken[speaking] ** 2).mean())) if speaking.any() else 0.05
        if dice.random() < 0.1:
            spoken = reverberated(dice, spoken, dice.uniform(0.1, 0.5))
        mixed = spoken
        if dice.random() < 0.8:
            noise = self._background.draw(dice, samples)
            level = 10 ** (-dice.uniform(0, 30) / 20) if not silent else 10 ** (dice.uniform(-20, 10) / 20)
            noise *= loudness * level / max(float(np.sqrt((noise**2).mean())), 1e-5)
            if dice.random() < 0.3:
                begin, end = sorted(dice.integers(0, samples, 2))
                noise[begin:end] = 0
            mixed = mixed + noise
        if dice.random() < 0.15:
            mixed = banded(mixed, dice.uniform(20, 300), dice.uniform(3200, 7000))
        return Scene(_heard(dice, mixed), speaking.reshape(-1, FRAME).mean(axis=1, dtype=np.float32))

    def _speak(self, dice: Dice, spoken: Sound, speaking: NDArray[np.bool_]) -> None:
        samples = len(spoken)
        place = 0 if dice.random() < 0.5 else int(dice.uniform(0, 4) * SAMPLE_RATE)
        restless = dice.random() < 0.4
        while place < samples:
            utterance, spans = self._voices.aligned[dice.integers(len(self._voices.aligned))]
            clip = self._voices.corpus.samples(utterance).astype(np.float32) / 32768
            mask = np.zeros(len(clip), bool)
            for start, end in spans:
                mask[start * 16 : end * 16] = True
            # After a cut a segment may begin in the middle of a word; some recordings begin at once, too.
            first = int(dice.integers(len(clip))) if place == 0 and dice.random() < 0.4 else 0
            if first == 0 and dice.random() < 0.5:
                first = max(spans[0][0] * 16 - int(dice.uniform(0, 0.1) * SAMPLE_RATE), 0)
            last = min(spans[-1][1] * 16 + int(dice.uniform(0, 0.5) * SAMPLE_RATE), len(clip))
            clip, mask = clip[first:last] * 10 ** (dice.uniform(-8, 0) / 20), mask[first:last]
            end = min(place + len(clip), samples)
            spoken[place:end] = clip[: end - place]
            speaking[place:end] = mask[: end - place]
            place = end + int(np.exp(dice.uniform(np.log(0.1), np.log(1.0 if restless else 5.0))) * SAMPLE_RATE)


def quantised(sound: Sound) -> Samples:
    """The sound as 16-bit samples."""
    rounded: Samples = np.clip(np.rint(sound * 32768), -32768, 32767).astype(np.int16)
    return rounded


def _heard(dice: Dice, mixed: Sound) -> Samples:
    """At some level, from far too quiet to full scale, with a faint hiss, digital silence or a gate."""
    decibels = dice.uniform(-26, 0) if dice.random() < 0.65 else dice.uniform(-54, -20)
    mixed = mixed * (10 ** (decibels / 20) / max(float(np.abs(mixed).max()), 1e-3))
    choice = dice.random()
    if choice < 0.1:
        mixed = mixed * (np.abs(mixed) > 0.002)
    elif choice < 0.6:
        mixed = mixed + dice.standard_normal(len(mixed), np.float32) * (10 ** dice.uniform(-0.5, 1.2) / 32768)
    return quantised(mixed)


def _scaled(clip: Samples) -> Sound:
    sound = clip.astype(np.float32)
    scaled: Sound = sound / max(float(np.abs(sound).max()), 1.0)
    return scaled


def _aligned(corpus: Corpus, alignments: Mapping[str, Alignment]) -> list[tuple[Utterance, list[tuple[int, int]]]]:
    found = []
    for utterance in corpus.utterances:
        alignment = alignments.get(utterance.name)
        if alignment and alignment.aligned and alignment.phones:
            found.append((utterance, speech_spans(alignment)))
    return found
