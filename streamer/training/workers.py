"""Does the same work for many things in several processes, or in this one if there is to be only one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeVar

Result = TypeVar("Result")


class Workers:
    """A context manager. The processes are spawned, not forked: this one may have threads, which a fork would break.

    A single worker is this process itself, because a new one would take seconds to import what the work needs.
    """

    def __init__(self, processes: int, prepare: Callable[..., None] | None = None, *given: Any) -> None:
        """`prepare` is called with `given` in every process before its work."""
        self._processes, self._prepare, self._given = processes, prepare, given
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Workers:
        if self._processes != 1:
            self._pool = ProcessPoolExecutor(self._processes, get_context("spawn"), self._prepare, self._given)
        elif self._prepare:
            self._prepare(*self._given)
        return self

    def __exit__(self, *details: object) -> None:
        if self._pool:
            self._pool.shutdown()

    def map(self, work: Callable[..., Result], *things: Iterable[Any], chunk: int = 1) -> Iterator[Result]:
        """The results in order. Other processes get this many things at a time."""
        return self._pool.map(work, *things, chunksize=chunk) if self._pool else map(work, *things)
