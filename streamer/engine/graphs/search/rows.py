"""Rows of a batch that onnxruntime computes alike in any company."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]
"""Numbers of each of several frames, predictions or tokens."""
Number = TypeVar("Number", bound=np.generic)


def never_one(rows: NDArray[Number], axis: int = 0) -> NDArray[Number]:
    """A single row twice: onnxruntime computes one row in another way, and a stream must not depend on its company."""
    return np.repeat(rows, 2, axis=axis) if rows.shape[axis] == 1 else rows


def log_prob(logits: Rows, number: int) -> float:
    """The log-probability of a token by the scores of all."""
    highest = logits.max()
    return float(logits[number] - highest - np.log(np.exp(logits - highest).sum()))
