"""Measures whether confidences are right: of ten words with a confidence of 80 %, eight should be correct. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

BINS: Final = 10


class JudgedConfidence(NamedTuple):
    """The confidence of a word or final, and the part of it that is right; for a word that is 0 or 1."""

    confidence: float
    right: float


class ReliabilityBin(NamedTuple):
    """The means of words or finals with about the same confidence."""

    number: int
    confidence: float
    right: float


@dataclass(frozen=True)
class Reliability:
    """Confidence against truth, in bins of equal size in ascending order of confidence."""

    number: int
    confidence: float  # the mean
    right: float  # the mean
    error: float  # expected calibration error: the mean distance between the two over the bins
    ranking: float  # how often something right has more confidence than something wrong; 0.5 is chance
    bins: tuple[ReliabilityBin, ...]


def reliability(judged: Sequence[JudgedConfidence]) -> Reliability | None:
    """Return the reliability of these confidences, None if there are none."""
    if not judged:
        return None
    values = np.array(sorted(judged))
    bins = [
        ReliabilityBin(len(part), float(part[:, 0].mean()), float(part[:, 1].mean()))
        for part in np.array_split(values, BINS)
        if len(part)
    ]
    return Reliability(
        number=len(values),
        confidence=float(values[:, 0].mean()),
        right=float(values[:, 1].mean()),
        error=sum(each.number * abs(each.confidence - each.right) for each in bins) / len(values),
        ranking=_ranking(values[:, 0], values[:, 1] >= 1),
        bins=tuple(bins),
    )


def _ranking(
    confidences: np.ndarray[tuple[int], np.dtype[np.float64]], right: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> float:
    """Return the area under the ROC curve. Equal confidences count half."""
    good, bad = confidences[right], np.sort(confidences[~right])
    if not len(good) or not len(bad):
        return float("nan")
    below, upto = np.searchsorted(bad, good), np.searchsorted(bad, good, side="right")
    return float((below + upto).mean() / (2 * len(bad)))
