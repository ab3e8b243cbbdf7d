"""Training of the activity head: examples of speech with pauses over other sounds, and the training on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from streamer.engine.acoustics.encoder_config import SUBSAMPLING
from streamer.engine.networks.activity_network import ActivityNetwork
from streamer.engine.networks.log_mel import LogMelNetwork
from workshop.acoustic.augmentation import telephoned
from workshop.activity.sounds import Audio, BackgroundSounds, banded, quantised, reverberated
from workshop.data.alignment import Alignment, read_alignments
from workshop.data.corpus import SAMPLE_RATE, Corpus, Samples, Utterance


@dataclass(frozen=True)
class Example:
    """Samples as a service may get them, and the share of each frame in which somebody speaks."""

    samples: Samples
    speech: NDArray[np.float32]


class ExampleSource:
    """Draws examples of one length."""

    def __init__(self, speech: AlignedSpeech, background: BackgroundSounds, samples: int, frame_samples: int) -> None:
        """`samples`: the length of an example, which becomes whole frames of so many samples."""
        self._speech = speech
        self._background = background
        self.frame_samples = frame_samples
        self._samples = samples // frame_samples * frame_samples

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
        return Example(
            _at_random_level(rng, mixed), speaking.reshape(-1, self.frame_samples).mean(axis=1, dtype=np.float32)
        )

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


# Utterances, and the stretches of them in which somebody speaks.

SHORT_PAUSE_MS = 200


@dataclass(frozen=True)
class AlignedSpeech:
    """A corpus, and those of its utterances that could be aligned. Each has its stretches of speech, in ms."""

    corpus: Corpus
    utterances: Sequence[tuple[Utterance, list[tuple[int, int]]]]

    @classmethod
    def read(cls, folder: Path, name: str) -> AlignedSpeech:
        """Read the utterances of a prepared set that could be aligned."""
        corpus, alignments = Corpus(folder, name), read_alignments(folder, name)
        return cls(corpus, _aligned(corpus, alignments))


def speech_spans(alignment: Alignment) -> list[tuple[int, int]]:
    """Return the stretches of speech of an utterance as (start ms, end ms)."""
    spans: list[tuple[int, int]] = []
    for _, start, length, _ in alignment.phones:
        if spans and start - spans[-1][1] < SHORT_PAUSE_MS:
            spans[-1] = (spans[-1][0], start + length)
        else:
            spans.append((start, start + length))
    return spans


def _aligned(corpus: Corpus, alignments: Mapping[str, Alignment]) -> list[tuple[Utterance, list[tuple[int, int]]]]:
    usable = []
    for utterance in corpus.utterances:
        alignment = alignments.get(utterance.name)
        if alignment and alignment.aligned and alignment.phones:
            usable.append((utterance, speech_spans(alignment)))
    return usable


# Training of the activity head, on examples that are drawn during the training.

# Speech at the end of a frame may be detected a frame later: the rule after the head allows for this delay.
DELAY_FRAMES = 1
STATISTICS_EXAMPLES = 48


def train(
    examples: ExampleSource,
    minutes: float,
    rows: int,
    rate: float,
    seed: int,
    tell: Callable[[str], None],
    start: ActivityNetwork | None = None,
) -> ActivityNetwork:
    """Train a head, a new one or `start`, for minutes of processor time. The learning rate falls to zero at the end.

    It reads features of the frames that the examples have.
    """
    torch.manual_seed(seed)
    rng, features = np.random.default_rng(seed), LogMelNetwork(hop=examples.frame_samples // SUBSAMPLING)
    head = start or _new_head(features, [examples.draw(rng) for _ in range(STATISTICS_EXAMPLES)])
    optimiser = torch.optim.AdamW(head.parameters(), lr=rate, weight_decay=0.01)
    step, begun, recent = 0, time.process_time(), 0.0
    while (progress := (time.process_time() - begun) / (60 * minutes)) < 1:
        energies, speech = _batch(features, [examples.draw(rng) for _ in range(rows)])
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 20) * min(1.0, (1 - progress) / 0.7)
        loss = _loss(head(energies), speech)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        optimiser.step()
        step += 1
        recent += (loss.item() - recent) / min(step, 25)
        if step % 25 == 0:
            tell(f"step {step}, {100 * progress:.0f} %: loss {recent:.4f}")
    return head.eval()


def _new_head(features: LogMelNetwork, examples: list[Example]) -> ActivityNetwork:
    """Return a new head, which normalises by the mean and deviation of these examples."""
    energies, _ = _batch(features, examples)
    head = ActivityNetwork()
    deviation, mean = torch.std_mean(energies.flatten(0, 1), dim=0)
    head.mean.copy_(mean)
    head.deviation.copy_(deviation)
    return head


def _batch(features: LogMelNetwork, examples: list[Example]) -> tuple[Tensor, Tensor]:
    samples = torch.from_numpy(np.stack([example.samples for example in examples])).float() / 32768
    speech = torch.from_numpy(np.stack([example.speech for example in examples]))
    with torch.no_grad():
        energies = features.energies(functional.pad(samples, (features.context, 0)))
    return energies, functional.pad(speech, (DELAY_FRAMES, 0))[:, : speech.shape[1]]


def _loss(log_probabilities: Tensor, speech: Tensor) -> Tensor:
    speaking = log_probabilities.squeeze(2)
    silent = torch.log(-torch.expm1(speaking.clamp(max=-1e-6)))
    return -(speech * speaking + (1 - speech) * silent).mean()
