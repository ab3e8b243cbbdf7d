"""Compares the times of recognised words with those of an alignment. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class TimeOffset(NamedTuple):
    """How much later than in the alignment a word starts and ends, in milliseconds."""

    start_ms: float
    end_ms: float


@dataclass(frozen=True)
class ErrorSpread:
    """The median and 90th percentile of the absolute errors, and the median with its sign."""

    median: float
    p90: float
    signed: float


@dataclass(frozen=True)
class TimeErrors:
    """The time errors of the words that were recognised correctly."""

    words: int
    start: ErrorSpread
    end: ErrorSpread


def time_errors(offsets: Sequence[TimeOffset]) -> TimeErrors | None:
    """Return the time errors of these words, None if there are none."""
    if not offsets:
        return None
    starts, ends = zip(*offsets, strict=True)
    return TimeErrors(len(offsets), _spread(starts), _spread(ends))


def _spread(values: Sequence[float]) -> ErrorSpread:
    sizes = np.abs(values)
    return ErrorSpread(float(np.median(sizes)), float(np.percentile(sizes, 90)), float(np.median(values)))
