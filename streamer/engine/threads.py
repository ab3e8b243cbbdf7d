"""Divides the streams of a batch over threads.

What computes a batch lets other threads go on meanwhile: the loops of the search, onnxruntime, and numpy in its larger
parts. A stream is computed alone in its row, so its results do not depend on the division.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import Final, Protocol, TypeVar, runtime_checkable

T = TypeVar("T")
FEWEST: Final = 4  # streams of a part; fewer would take nearly as long


@runtime_checkable
class Parallel(Protocol):
    """What may compute parts of a batch in several threads at once, each with other slots."""

    def reserve(self, slots: Sequence[int], frames: int) -> None:
        """Prepare for a step of this many frames in all slots of a batch, before its parts are computed."""
        ...


class Threads:
    """This thread, and as many others as are needed."""

    def __init__(self, number: int = 1) -> None:
        if number < 1:
            raise ValueError("there must be at least one thread")
        self.number = number
        self._pool = ThreadPoolExecutor(number - 1, thread_name_prefix="streams") if number > 1 else None

    def divide(self, size: int, work: Callable[[slice], T]) -> list[T]:
        """Do this work for a batch of this size in equal parts, at the same time. Return the results in order.

        If parts fail, the others are completed first, because the buffers belong to the caller afterwards.
        """
        parts = max(1, min(self.number, size // FEWEST))
        if parts == 1 or self._pool is None:
            return [work(slice(0, size))]
        ends = [size * part // parts for part in range(parts + 1)]
        others: list[Future[T]] = [self._pool.submit(work, slice(begin, end)) for begin, end in pairwise(ends[1:])]
        try:
            first = work(slice(0, ends[1]))
        finally:
            for other in others:
                other.exception()
        return [first, *(other.result() for other in others)]
