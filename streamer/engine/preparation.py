"""The preparation of streams: what their options cost before the first audio can be computed, done slice by slice.

Callers take turns, so that nobody waits for all that another one has asked for. The preparations of one caller follow
one another.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass

from streamer.engine.work import NotNow, Work, finish

# A step of other streams waits for two slices at most: one that had begun, and one after the step before.
SLICE_S = 0.0005
# Less than the time after which Triton drops an idle sequence, and after which the bridge waits no longer.
PREPARATION_LIMIT_S = 10.0

Prepared = tuple[int, Exception | None]
"""A stream whose preparation has ended, and why it failed if it did."""


@dataclass(frozen=True)
class _Preparation:
    stream: int
    work: Work[None]
    begun_at: float


class Preparations:
    """The streams that are being prepared."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._now = clock
        self._waiting: OrderedDict[str, deque[_Preparation]] = OrderedDict()  # by caller; the first has the next turn
        self._callers: dict[int, str] = {}  # of each stream

    def __contains__(self, stream: int) -> bool:
        return stream in self._callers

    def __len__(self) -> int:
        return len(self._callers)

    def add(self, stream: int, work: Work[None], caller: str) -> None:
        """Prepare this stream when it is its caller's turn."""
        self._callers[stream] = caller
        self._waiting.setdefault(caller, deque()).append(_Preparation(stream, work, self._now()))

    def drop(self, stream: int) -> None:
        """The stream is not wanted any more."""
        if (preparation := self._take(stream)) is not None:
            preparation.work.close()

    def finish(self, stream: int) -> None:
        """Prepare this stream at once, before all others, if it still has to be. Raises what its work raises."""
        if (preparation := self._take(stream)) is not None:
            finish(preparation.work)

    def advance(self) -> list[Prepared]:
        """Work for one slice, for the caller whose turn it is. Returns the streams whose preparation has ended."""
        ended: list[Prepared] = []
        until = self._now() + SLICE_S
        while self._waiting:
            caller = next(iter(self._waiting))
            preparation = self._waiting[caller][0]
            try:
                if self._now() - preparation.begun_at > PREPARATION_LIMIT_S:
                    raise NotNow("too many hotwords are being prepared at present; try again later")
                next(preparation.work)
            except StopIteration:
                ended.append((preparation.stream, None))
                self._take(preparation.stream)
            except Exception as error:
                ended.append((preparation.stream, error))
                self.drop(preparation.stream)
            if self._now() >= until:
                if caller in self._waiting:
                    self._waiting.move_to_end(caller)
                break
        return ended

    def _take(self, stream: int) -> _Preparation | None:
        caller = self._callers.pop(stream, None)
        if caller is None:
            return None
        theirs = self._waiting[caller]
        found = next(each for each in theirs if each.stream == stream)
        theirs.remove(found)
        if not theirs:
            del self._waiting[caller]
        return found
