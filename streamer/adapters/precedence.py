"""Decides which thread may use the recogniser. Steps of streams come first; other work gets the time between them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Precedence:
    """A lock for steps and other work. No other work begins while a step waits."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._busy = False
        self._steps = 0  # the number of steps that wait for their turn

    @contextmanager
    def step(self) -> Iterator[None]:
        """Wait until nobody has the turn, and take it for a step."""
        with self._changed:
            self._steps += 1
            try:
                self._changed.wait_for(lambda: not self._busy)
            finally:
                self._steps -= 1
            self._busy = True
        try:
            yield
        finally:
            self._end()

    @contextmanager
    def other(self) -> Iterator[None]:
        """Wait until nobody has the turn and no step waits for it, and take it for other work, which must be short."""
        with self._changed:
            self._changed.wait_for(lambda: not self._busy and not self._steps)
            self._busy = True
        try:
            yield
        finally:
            self._end()

    def _end(self) -> None:
        with self._changed:
            self._busy = False
            self._changed.notify_all()
