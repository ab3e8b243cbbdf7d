"""Batches for training and for evaluation: which utterances go together, and their audio and targets as tensors."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from workshop.acoustic import units
from workshop.data.alignment import Alignment
from workshop.data.corpus import SAMPLE_RATE, Corpus, Utterance

DELAY_FRAMES = 1
"""How much later than a phone its label is in the warm start, because a causal model must hear the phone first."""

UNLABELLED = -1
SPEEDS = (0.9, 1.0, 1.1)
POOL_BATCHES = 40
QUIET_SAMPLES = SAMPLE_RATE * 40 // 1000
"""The shortest moment that counts as quiet."""


@dataclass(frozen=True)
class Recipe:
    """How utterances become the rows of a batch."""

    seconds: float = 80.0
    longest: float = 17.0
    joined: float = 0.04
    long_silence: float = 0.08
    trimmed: float = 0.3
    repeated: Mapping[str, int] = field(default_factory=dict)
    """How often an epoch has the recordings of a corpus. Those of all others come once."""


@dataclass
class Batch:
    """Audio [rows, samples] with lengths in frames, CTC targets by head, phone labels [rows, frames], and the texts."""

    samples: Tensor
    lengths: Tensor
    targets: dict[str, Tensor]
    target_lengths: dict[str, Tensor]
    labels: Tensor
    texts: list[str]
    seconds: float

    def to(self, device: torch.device) -> Batch:
        """Return the same batch on a device."""
        return Batch(
            self.samples.to(device),
            self.lengths.to(device),
            {head: target.to(device) for head, target in self.targets.items()},
            {head: length.to(device) for head, length in self.target_lengths.items()},
            self.labels.to(device),
            self.texts,
            self.seconds,
        )


class Batches:
    """All batches of all epochs. The seed determines each epoch, so an interrupted run can continue anywhere."""

    def __init__(
        self,
        corpus: Corpus,
        alignments: dict[str, Alignment],
        seed: int,
        recipe: Recipe,
        device: torch.device,
        frame: int,
        synthetic: Corpus | None = None,
    ) -> None:
        """`frame`: the samples of a frame of the model. `synthetic` is speech that `epoch` can mix in."""
        self._frame = frame
        self._alignments = alignments
        self._seed = seed
        self._recipe = recipe
        self._device = device
        self._utterances = [
            utterance for utterance in self._usable(corpus) for _ in range(recipe.repeated.get(utterance.corpus, 1))
        ]
        self._synthetic = self._usable(synthetic) if synthetic else []
        self._synthetic_names = {utterance.name for utterance in self._synthetic}
        # All audio is copied once to the device of the model.
        self._audio = _on(device, corpus)
        self._synthetic_audio = _on(device, synthetic) if synthetic else self._audio

    def epoch(self, number: int, longest: float, synthetic: float = 0.0) -> list[list[Utterance]]:
        """Return the batches of an epoch: all utterances up to `longest` seconds, grouped by similar length.

        `synthetic` is the share of synthetic speech. Each epoch draws other synthetic utterances.
        """
        rng = random.Random(f"{self._seed} {number}")
        order = [utterance for utterance in self._utterances if utterance.seconds <= longest]
        order += self._drawn(synthetic / (1 - synthetic) * sum(u.seconds for u in order), longest, rng)
        rng.shuffle(order)
        typical = sum(utterance.seconds for utterance in order) / max(len(order), 1)
        pool = max(int(POOL_BATCHES * self._recipe.seconds / max(typical, 0.1)), 1)
        batches: list[list[Utterance]] = []
        for start in range(0, len(order), pool):
            batches += self._filled(sorted(order[start : start + pool], key=lambda utterance: utterance.samples))
        rng.shuffle(batches)
        return batches

    def tensors(self, utterances: list[Utterance], seed: str) -> Batch:
        """Return a planned batch as tensors. The seed determines speeds, silences and joined utterances."""
        rng = random.Random(seed)
        speed = rng.choice(SPEEDS)
        rows = [self._row(parts, rng) for parts in self._joined(utterances, rng)]
        spans = [row.samples for row in rows]
        samples = torch.zeros(len(rows), max(spans), device=self._device)
        for number, row in enumerate(rows):
            self._fill(samples[number], row)
        frames = -(-int(max(spans) / speed) // self._frame)
        if speed != 1.0:
            size = int(samples.shape[1] / speed)
            samples = torch.nn.functional.interpolate(samples.unsqueeze(1), size=size, mode="linear").squeeze(1)
        samples = torch.nn.functional.pad(samples, (0, frames * self._frame - samples.shape[1]))
        lengths = torch.tensor([max(int(span / speed) // self._frame, 1) for span in spans])
        texts = [" ".join(part.utterance.text for part in row.parts) for row in rows]
        targets = {
            "phones": [[unit for part in row.parts for unit in units.phones(part.alignment)] for row in rows],
            "characters": [units.characters(text) for text in texts],
        }
        return Batch(
            samples,
            lengths,
            {head: torch.tensor([unit for row in sequences for unit in row]) for head, sequences in targets.items()},
            {head: torch.tensor([len(row) for row in sequences]) for head, sequences in targets.items()},
            torch.from_numpy(np.stack([row.labels(frames, speed * self._frame) for row in rows])),
            texts,
            sum(spans) / SAMPLE_RATE,
        ).to(self._device)

    def _usable(self, corpus: Corpus) -> list[Utterance]:
        return [utterance for utterance in corpus.utterances if utterance.seconds <= self._recipe.longest]

    def _drawn(self, seconds: float, longest: float, rng: random.Random) -> list[Utterance]:
        """Draw synthetic utterances with this many seconds in total, or all if there are fewer."""
        drawn: list[Utterance] = []
        if seconds > 0:
            for utterance in rng.sample(self._synthetic, len(self._synthetic)):
                if seconds > 0 and utterance.seconds <= longest:
                    drawn.append(utterance)
                    seconds -= utterance.seconds
        return drawn

    def _filled(self, order: list[Utterance]) -> Iterator[list[Utterance]]:
        batch: list[Utterance] = []
        for utterance in order:
            # The utterances are sorted by length, so the newest is the longest and determines the padding.
            if batch and utterance.seconds * (len(batch) + 1) > self._recipe.seconds:
                yield batch
                batch = []
            batch.append(utterance)
        if batch:
            yield batch

    def _joined(self, utterances: list[Utterance], rng: random.Random) -> Iterator[list[Utterance]]:
        waiting = list(utterances)
        while waiting:
            parts = [waiting.pop()]
            if waiting and rng.random() < self._recipe.joined and 2 * parts[0].seconds < self._recipe.longest:
                parts.append(waiting.pop())
            yield parts

    def _row(self, utterances: list[Utterance], rng: random.Random) -> _Row:
        parts = []
        offset = self._silence(rng, 0.2)
        for utterance in utterances:
            alignment = self._alignments[utterance.name]
            first, last = 0, utterance.samples
            if alignment.aligned and rng.random() < self._recipe.trimmed:
                first = int(rng.uniform(0, alignment.phones[0][1]) * SAMPLE_RATE / 1000)
            parts.append(_Part(utterance, alignment, offset, first))
            offset += last - first + self._silence(rng, 0.3)
        return _Row(parts, offset, rng.uniform(0, 1), rng.randrange(2**31))

    def _silence(self, rng: random.Random, usual: float) -> int:
        longest = 3.0 if rng.random() < self._recipe.long_silence else usual
        return int(rng.uniform(0, longest) * SAMPLE_RATE)

    def _fill(self, row: Tensor, plan: _Row) -> None:
        covered: list[tuple[int, int]] = []
        powers: list[Tensor] = []
        for part in plan.parts:
            audio = self._synthetic_audio if part.utterance.name in self._synthetic_names else self._audio
            piece = audio[part.utterance.start + part.first : part.utterance.start + part.utterance.samples]
            scaled = piece.float() / 32768.0
            row[part.offset : part.offset + len(scaled)] = scaled
            covered.append((part.offset, part.offset + len(scaled)))
            if len(scaled) >= QUIET_SAMPLES:
                powers.append(scaled.unfold(0, QUIET_SAMPLES, QUIET_SAMPLES).square().mean(1).min())
        # Silence around the speech is as loud as the quietest moment inside it, or less.
        generator = torch.Generator(row.device).manual_seed(plan.seed)
        level = torch.stack(powers).min().sqrt() * plan.loudness if powers else 0.0
        edges = [0, *(edge for span in covered for edge in span), len(row)]
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            row[start:end] = torch.randn(end - start, generator=generator, device=row.device) * level


def _on(device: torch.device, corpus: Corpus) -> torch.Tensor:
    audio = corpus.everything()
    return torch.from_numpy(np.asarray(audio) if device.type == "cpu" else np.array(audio)).to(device)


@dataclass(frozen=True)
class _Part:
    utterance: Utterance
    alignment: Alignment
    offset: int
    first: int


@dataclass(frozen=True)
class _Row:
    parts: list[_Part]
    samples: int
    loudness: float
    seed: int

    def labels(self, frames: int, samples: float) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Return the phone of every frame, with blanks in silence. If a part has no alignment, no frame has a label.

        `samples`: how many of this row become a frame.
        """
        frame_ms = samples * 1000 / SAMPLE_RATE
        labels = np.full(frames, units.BLANK)
        if not all(part.alignment.aligned for part in self.parts):
            labels[:] = UNLABELLED
            return labels
        for part in self.parts:
            shift = (part.offset - part.first) * 1000 / SAMPLE_RATE
            for phone, start, length, _ in part.alignment.phones:
                first, last = ((shift + time) / frame_ms for time in (start, start + length))
                labels[round(first) + DELAY_FRAMES : round(last) + DELAY_FRAMES] = units.PHONE_NUMBER[phone]
        return labels


# A prepared set in batches for evaluation: utterances of similar length, each with the tail that a service adds.

BATCH_SECONDS = 120
# A service adds the same at the end of a stream, because the model emits the last word with a delay.
TAIL_SAMPLES = SAMPLE_RATE * 6 // 10
TAIL_LEVEL = 1e-4


def batches(corpus: Corpus) -> Iterator[list[Utterance]]:
    """Return the utterances in batches of similar length. The last one of each batch is the longest."""
    batch: list[Utterance] = []
    for utterance in sorted(corpus.utterances, key=lambda utterance: utterance.samples):
        if batch and utterance.seconds * (len(batch) + 1) > BATCH_SECONDS:
            yield batch
            batch = []
        batch.append(utterance)
    yield batch


def padded(corpus: Corpus, utterance: Utterance, longest: int, frame: int) -> Tensor:
    """Add a tail of faint noise to these samples, up to the length of `longest` samples with their own tail.

    The result has whole frames of this many samples.
    """
    generator = torch.Generator().manual_seed(0)
    whole = -(-(longest + TAIL_SAMPLES) // frame) * frame
    samples = torch.randn(whole, generator=generator) * TAIL_LEVEL
    samples[: utterance.samples] = torch.from_numpy(corpus.samples(utterance).copy()).float() / 32768.0
    return samples
