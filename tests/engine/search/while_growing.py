"""Lets another thread work while the arrays of a search are copied to others with more room."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from streamer.engine.search.beams import grown_by_row

LIMIT_S = 60.0


class WatchedLock:
    """A lock that says when somebody has to wait for it."""

    def __init__(self) -> None:
        self.awaited = threading.Event()
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.awaited.set()
            assert self._lock.acquire(timeout=LIMIT_S)

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def work_while_growing(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, owner: Any, grow: Callable[[], None], work: Callable[[], None]
) -> None:
    """Let `owner` grow. When the first copy is made, another thread works until it is done, or has to wait."""
    lock, failures = WatchedLock(), list[Exception]()
    monkeypatch.setattr(owner, "_growing", lock)

    def other() -> None:
        try:
            work()
        except Exception as error:
            failures.append(error)
        finally:
            lock.awaited.set()

    thread = threading.Thread(target=other)

    def grown(*args: Any) -> Any:
        copy = grown_by_row(*args)
        if not lock.awaited.is_set():
            thread.start()
            assert lock.awaited.wait(LIMIT_S)
        return copy

    monkeypatch.setattr(module, "grown_by_row", grown)
    grow()
    thread.join(LIMIT_S)
    assert not thread.is_alive()
    assert not failures
