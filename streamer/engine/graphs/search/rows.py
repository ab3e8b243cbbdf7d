"""Rows of a batch whose results in onnxruntime do not depend on the other rows."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]
"""One row of numbers for each of several frames, predictions or tokens."""
Number = TypeVar("Number", bound=np.generic)


def never_one(rows: NDArray[Number], axis: int = 0) -> NDArray[Number]:
    """Return a single row twice, because onnxruntime computes one row differently from several. Return others as is."""
    return np.repeat(rows, 2, axis=axis) if rows.shape[axis] == 1 else rows


def log_prob(logits: Rows, number: int) -> float:
    """Return the log-probability of a token, from the scores of all tokens."""
    highest = logits.max()
    return float(logits[number] - highest - np.log(np.exp(logits - highest).sum()))
