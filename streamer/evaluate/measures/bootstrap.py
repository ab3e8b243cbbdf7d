"""Computes bootstrap intervals: how far a rate would move with other speakers or sentences. The draws are fixed."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

RESAMPLES: Final = 2000
INTERVAL_PERCENT: Final = 95
# With fewer speakers than this, utterances are drawn instead: so few speakers do not represent others.
FEWEST_SPEAKERS: Final = 10

_SEED: Final = 20
Counts = npt.NDArray[np.float64]


class Interval(NamedTuple):
    """A figure with the bounds of its 95 % interval. They are None if there are fewer than two units to draw from."""

    value: float
    low: float | None
    high: float | None


class CorpusSample(NamedTuple):
    """The data of one corpus: a row of counts for each utterance, and its speaker (None if unknown)."""

    corpus: str
    counts: Counts
    speakers: Sequence[str | None]


def draws_speakers(speakers: Sequence[str | None]) -> bool:
    """Return whether to draw speakers instead of utterances."""
    return len({speaker for speaker in speakers if speaker is not None}) >= FEWEST_SPEAKERS


def interval(samples: Sequence[CorpusSample], figure: Callable[[Counts], Counts]) -> Interval:
    """Return a figure over the sums of all counts, with its interval. Each corpus is drawn from separately.

    `figure` takes sums [n, columns] and gives n values.
    """
    total = sum((sample.counts.sum(axis=0) for sample in samples), np.zeros(()))
    value = float(figure(total[None])[0])
    clusters = [_clusters(sample) for sample in samples]
    if max(map(len, clusters)) < 2:
        return Interval(value, None, None)
    draws = sum((_resample(each, s.corpus) for each, s in zip(clusters, samples, strict=True)), np.zeros(()))
    tail = (100 - INTERVAL_PERCENT) / 2
    low, high = np.percentile(figure(draws), [tail, 100 - tail])
    return Interval(value, float(low), float(high))


def _resample(clusters: Counts, corpus: str) -> Counts:
    """Return the sums of every resample: [resamples, columns]."""
    # Seeded by the name of the corpus, so its interval does not depend on the other corpora.
    generator = np.random.default_rng([_SEED, zlib.crc32(corpus.encode())])
    draws = generator.multinomial(len(clusters), np.full(len(clusters), 1 / len(clusters)), size=RESAMPLES)
    sums: Counts = draws @ clusters
    return sums


def _clusters(sample: CorpusSample) -> Counts:
    """Return a row of counts for each unit that is drawn: a speaker with all utterances, or an utterance."""
    if not draws_speakers(sample.speakers):
        return sample.counts
    numbers: dict[object, int] = {}
    # An utterance without a known speaker counts as a speaker of its own.
    owners = [
        numbers.setdefault(index if speaker is None else speaker, len(numbers))
        for index, speaker in enumerate(sample.speakers)
    ]
    sums = np.zeros((len(numbers), sample.counts.shape[1]))
    np.add.at(sums, owners, sample.counts)
    return sums
