"""Where words are said to lie against where an alignment has them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Offset(NamedTuple):
    """How much later than in the alignment a word begins and ends, in milliseconds."""

    start_ms: float
    end_ms: float


@dataclass(frozen=True)
class Spread:
    """Errors of one kind: the median of their sizes, the 90th percentile of them, and the median with its sign."""

    median: float
    p90: float
    signed: float


@dataclass(frozen=True)
class TimeErrors:
    """Of the words that were understood rightly."""

    words: int
    start: Spread
    end: Spread


def time_errors(offsets: Sequence[Offset]) -> TimeErrors | None:
    """Of nothing there are none."""
    if not offsets:
        return None
    starts, ends = zip(*offsets, strict=True)
    return TimeErrors(len(offsets), _spread(starts), _spread(ends))


def _spread(values: Sequence[float]) -> Spread:
    sizes = np.abs(values)
    return Spread(float(np.median(sizes)), float(np.percentile(sizes, 90)), float(np.median(values)))
