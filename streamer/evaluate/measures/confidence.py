"""Whether confidence is what it says: of things that are held to be right with 80 %, eight in ten are. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

BINS: Final = 10


class Judged(NamedTuple):
    """A word or a final: how sure its recogniser was, and which part of it is right (of a word all or nothing)."""

    confidence: float
    right: float


class Bin(NamedTuple):
    """Things of about the same confidence: their means."""

    number: int
    confidence: float
    right: float


@dataclass(frozen=True)
class Reliability:
    """Confidence against truth, in bins of equal size from the least sure to the surest."""

    number: int
    confidence: float  # the mean
    right: float  # the mean
    error: float  # expected calibration error: the mean distance of both over the bins
    ranking: float  # how often something right is surer than something that is not; a half is chance
    bins: tuple[Bin, ...]


def reliability(judged: Sequence[Judged]) -> Reliability | None:
    """Of nothing there is none."""
    if not judged:
        return None
    values = np.array(sorted(judged))
    bins = [
        Bin(len(part), float(part[:, 0].mean()), float(part[:, 1].mean()))
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
    """The area below the receiver's operating characteristic; equal confidences count half."""
    good, bad = confidences[right], np.sort(confidences[~right])
    if not len(good) or not len(bad):
        return float("nan")
    below, upto = np.searchsorted(bad, good), np.searchsorted(bad, good, side="right")
    return float((below + upto).mean() / (2 * len(bad)))
