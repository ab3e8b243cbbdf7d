"""The processes of long work: an orderly end after a signal, and the same work for many things in several processes."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeVar

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
Result = TypeVar("Result")


class StoppedError(Exception):
    """The work was not finished, because the process was asked to stop."""


def stop_signals() -> Callable[[], bool]:
    """Make these signals only request a stop. Returns a function that says whether one has arrived."""
    stopped = False

    def request_stop(*_: object) -> None:
        nonlocal stopped
        stopped = True

    for number in STOP_SIGNALS:
        signal.signal(number, request_stop)
    return lambda: stopped


class Workers:
    """Does the same work for many things in several processes, as a context manager.

    Processes are spawned, not forked: this process may have threads, which a fork would break.

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
