"""Threads that take turns at batches: while one computes, the next one takes all that has become due meanwhile."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Final

# A thread begins no batch beside another one before something has been due for this long. Otherwise two threads would
# compute many small batches, which cost more, where one of them can compute larger ones.
PATIENCE_S: Final = 0.01


class BatchThreads:
    """Some threads that call `take_turn` when something is due.

    `failed` is called with an exception of `take_turn`. The thread goes on then. `patience_s`: how long something must
    have been due before a thread begins beside another one; this may be infinite. A turn may end this itself.
    """

    def __init__(
        self,
        number: int,
        take_turn: Callable[[], None],
        failed: Callable[[Exception], None],
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._take_turn, self._failed, self._patience_s = take_turn, failed, patience_s
        lock = threading.Lock()
        self._woken, self._ended = threading.Condition(lock), threading.Condition(lock)
        self._due_at: float | None = None  # since when something is due that no thread has looked at
        self._alone_at = 0.0  # when a turn for it begins if no other thread is in one
        self._alone: set[int] = set()  # threads in turns beside which others begin only after some patience
        self._stopping = False
        self._turns = 0
        self._threads = [
            threading.Thread(target=self._run, name=f"batches {place}", daemon=True) for place in range(number)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def turns(self) -> int:
        """How many turns have ended."""
        return self._turns

    def wake(self, after_s: float = 0.0) -> None:
        """Let a thread look for what is due: in this time if all have nothing to do, otherwise after some patience."""
        with self._woken:
            now = time.monotonic()
            if self._due_at is None:
                self._due_at, self._alone_at = now, now + after_s
            elif now + after_s < self._alone_at:
                self._alone_at = now + after_s
            else:  # a thread knows already
                return
            self._woken.notify()

    def let_another_begin(self) -> None:
        """Let another thread begin at once beside the turn of this one, which is over what only one may do."""
        with self._woken:
            self._alone.discard(threading.get_ident())
            if self._due_at is not None:
                self._woken.notify()

    def wait_for_turn(self, turns: int) -> None:
        """Wait until more than this many turns have ended, or until the threads are stopped."""
        with self._ended:
            self._ended.wait_for(lambda: self._turns > turns or self._stopping)

    def stop(self, timeout: float) -> None:
        """Let the threads end after their present turns, and wait for each of them for this long at most."""
        with self._woken:
            self._stopping = True
            self._woken.notify_all()
            self._ended.notify_all()
        for thread in self._threads:
            thread.join(timeout)

    def _run(self) -> None:
        while self._begin():
            try:
                self._take_turn()
            except Exception as error:  # this thread must not end, because streams depend on it
                self._failed(error)
            self._end()

    def _begin(self) -> bool:
        """Wait until something is due. Return False if the threads are stopped."""
        with self._woken:
            while not self._stopping:
                if self._due_at is None:
                    self._woken.wait()
                elif (left_s := self._begin_at(self._due_at) - time.monotonic()) > 0:
                    self._woken.wait(left_s if left_s < math.inf else None)
                else:
                    self._due_at = None
                    self._alone.add(threading.get_ident())
                    return True
            return False

    def _begin_at(self, due_at: float) -> float:
        return max(self._alone_at, due_at + self._patience_s) if self._alone else self._alone_at

    def _end(self) -> None:
        with self._woken:
            self._alone.discard(threading.get_ident())
            self._turns += 1
            self._ended.notify_all()
