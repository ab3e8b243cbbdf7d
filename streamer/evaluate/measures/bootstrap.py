"""How far a rate would move with other speakers or other sentences: the bootstrap, always with the same draws."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

RESAMPLES: Final = 2000
CONFIDENCE: Final = 95
# Fewer speakers than this say nothing about other speakers: their utterances are drawn instead.
FEWEST_SPEAKERS: Final = 10

_SEED: Final = 20
Counts = npt.NDArray[np.float64]


class Interval(NamedTuple):
    """A figure with the bounds of its 95 % interval, which it has not where there is nothing to draw from."""

    value: float
    low: float | None
    high: float | None


class Sample(NamedTuple):
    """A corpus to draw from: a row of counts for each utterance, and who speaks (None if unknown)."""

    corpus: str
    counts: Counts
    speakers: Sequence[str | None]


def by_speaker(speakers: Sequence[str | None]) -> bool:
    """Whether speakers are drawn and not utterances."""
    return len({speaker for speaker in speakers if speaker is not None}) >= FEWEST_SPEAKERS


def interval(samples: Sequence[Sample], figure: Callable[[Counts], Counts]) -> Interval:
    """A figure over the sums of all counts, with its interval. Each corpus is drawn from by itself.

    `figure` takes sums [n, columns] and gives n values.
    """
    total = sum((sample.counts.sum(axis=0) for sample in samples), np.zeros(()))
    value = float(figure(total[None])[0])
    clusters = [_clusters(sample) for sample in samples]
    if max(map(len, clusters)) < 2:
        return Interval(value, None, None)
    draws = sum((_drawn(each, s.corpus) for each, s in zip(clusters, samples, strict=True)), np.zeros(()))
    tail = (100 - CONFIDENCE) / 2
    low, high = np.percentile(figure(draws), [tail, 100 - tail])
    return Interval(value, float(low), float(high))


def _drawn(clusters: Counts, corpus: str) -> Counts:
    """The sums of every resample: [resamples, columns]."""
    # By the corpus's name, so that a corpus has the same interval whatever else is evaluated with it.
    generator = np.random.default_rng([_SEED, zlib.crc32(corpus.encode())])
    often = generator.multinomial(len(clusters), np.full(len(clusters), 1 / len(clusters)), size=RESAMPLES)
    drawn: Counts = often @ clusters
    return drawn


def _clusters(sample: Sample) -> Counts:
    """A row for whatever is drawn as one: all that a speaker said, or an utterance."""
    if not by_speaker(sample.speakers):
        return sample.counts
    numbers: dict[object, int] = {}
    # An utterance of nobody known is a speaker of its own.
    owners = [
        numbers.setdefault(place if speaker is None else speaker, len(numbers))
        for place, speaker in enumerate(sample.speakers)
    ]
    sums = np.zeros((len(numbers), sample.counts.shape[1]))
    np.add.at(sums, owners, sample.counts)
    return sums
