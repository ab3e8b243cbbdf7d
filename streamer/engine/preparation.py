"""The preparation of streams: what their options cost before the first audio can be computed, done slice by slice.

Callers have equal shares of the time, and what would be ready first if all of them were served at once is served first
(weighted fair queueing). So a short list does not wait for the long ones of others, however many there are, and long
ones are served one after the other instead of all being late.
"""

from __future__ import annotations

import time
from collections import Counter
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
    caller: str
    work: Work[None]
    begun_at: float
    order: tuple[float, int]  # when it would be ready, in shared time, and its number


class Preparations:
    """The streams that are being prepared."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._now = clock
        self._waiting: dict[int, _Preparation] = {}  # by stream
        self._callers: Counter[str] = Counter()  # how many each of them has waiting
        self._shared_s = 0.0  # the work that each caller would have had by now if all were served at once
        self._promised_s: dict[str, float] = {}  # of each caller: until when its streams keep it busy, in shared time
        self._added = 0

    def __contains__(self, stream: int) -> bool:
        return stream in self._waiting

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, stream: int, work: Work[None], caller: str, estimate_s: float) -> None:
        """Prepare this stream when its caller can have so much time."""
        ready_s = max(self._shared_s, self._promised_s.get(caller, 0.0)) + estimate_s
        self._promised_s[caller] = ready_s
        self._added += 1
        self._callers[caller] += 1
        self._waiting[stream] = _Preparation(stream, caller, work, self._now(), (ready_s, self._added))

    def drop(self, stream: int) -> None:
        """The stream is not wanted any more."""
        if (preparation := self._take(stream)) is not None:
            preparation.work.close()

    def finish(self, stream: int) -> None:
        """Prepare this stream at once, before all others, if it still has to be. Raises what its work raises."""
        if (preparation := self._take(stream)) is not None:
            finish(preparation.work)

    def advance(self) -> list[Prepared]:
        """Work for one slice. Returns the streams whose preparation has ended."""
        ended: list[Prepared] = []
        since = self._now()
        for stream in [each.stream for each in self._waiting.values() if since - each.begun_at > PREPARATION_LIMIT_S]:
            self.drop(stream)
            ended.append((stream, NotNow("too many hotwords are being prepared at present; try again later")))
        callers = max(1, len(self._callers))
        while self._waiting and self._now() - since < SLICE_S:
            preparation = min(self._waiting.values(), key=lambda each: each.order)
            try:
                while self._now() - since < SLICE_S:
                    next(preparation.work)
            except StopIteration:
                ended.append((preparation.stream, None))
                self._take(preparation.stream)
            except Exception as error:
                ended.append((preparation.stream, error))
                self.drop(preparation.stream)
        self._shared_s += (self._now() - since) / callers
        if not self._waiting:
            self._shared_s = 0.0
            self._promised_s.clear()
        return ended

    def _take(self, stream: int) -> _Preparation | None:
        found = self._waiting.pop(stream, None)
        if found is not None:
            self._callers[found.caller] -= 1
            if not self._callers[found.caller]:
                del self._callers[found.caller]
        return found
