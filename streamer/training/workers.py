"""Does the same work for many things in several processes, or in this process if there is only one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeVar

Result = TypeVar("Result")


class Workers:
    """A context manager. Processes are spawned, not forked: this process may have threads, which a fork would break.

    A single worker is this process itself, because a new one would take seconds to import what the work needs.
    """

    def __init__(self, processes: int, prepare: Callable[..., None] | None = None, *arguments: Any) -> None:
        """`prepare` is called with `arguments` in every process before its work."""
        self._processes, self._prepare, self._arguments = processes, prepare, arguments
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Workers:
        if self._processes != 1:
            self._pool = ProcessPoolExecutor(self._processes, get_context("spawn"), self._prepare, self._arguments)
        elif self._prepare:
            self._prepare(*self._arguments)
        return self

    def __exit__(self, *details: object) -> None:
        if self._pool:
            self._pool.shutdown()

    def map(self, work: Callable[..., Result], *things: Iterable[Any], chunk: int = 1) -> Iterator[Result]:
        """Return the results in order. Other processes get `chunk` things at a time."""
        return self._pool.map(work, *things, chunksize=chunk) if self._pool else map(work, *things)
