"""Decides which thread may use the recogniser: steps of streams come first, other work gets the time between them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Precedence:
    """One turn at a time. No other work begins while a step waits."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._taken = False
        self._steps = 0  # steps that wait for their turn

    @contextmanager
    def step(self) -> Iterator[None]:
        """Wait until no other turn is taken, and take the turn of a step."""
        with self._changed:
            self._steps += 1
            try:
                self._changed.wait_for(lambda: not self._taken)
            finally:
                self._steps -= 1
            self._taken = True
        try:
            yield
        finally:
            self._end()

    @contextmanager
    def other(self) -> Iterator[None]:
        """Wait until no turn is taken and no step waits, and take the turn of other work. Keep it short."""
        with self._changed:
            self._changed.wait_for(lambda: not self._taken and not self._steps)
            self._taken = True
        try:
            yield
        finally:
            self._end()

    def _end(self) -> None:
        with self._changed:
            self._taken = False
            self._changed.notify_all()
