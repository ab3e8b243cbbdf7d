"""Prepares streams: does the work that their options need before the first audio can be computed, slice by slice.

Callers have equal shares of the time. The stream that would be ready first if all callers were served in parallel is
prepared first (fair queueing). So a short list of hotwords does not wait for the long lists of other callers, however
many there are. Long lists are prepared one after another, because in parallel all of them would be late.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from streamer.engine.work import NotNow, Work, finish

# A step of other streams waits for two slices at most: one that had begun, and one after the previous step.
SLICE_S = 0.0005
# Shorter than the time after which Triton drops an idle sequence, and than the time for which the bridge waits.
PREPARATION_LIMIT_S = 10.0

Prepared = tuple[int, Exception | None]
"""A stream whose preparation has ended, and why it failed if it did."""


@dataclass(frozen=True)
class _Preparation:
    stream: int
    caller: str
    work: Work[None]
    begun_at: float
    order: tuple[float, int]  # when it would be ready, in shared time, and the number of the preparation


class Preparations:
    """The streams that are being prepared."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._now = clock
        self._waiting: dict[int, _Preparation] = {}  # by stream
        self._callers: Counter[str] = Counter()  # the number of waiting streams of each caller
        # Shared time is the work that each caller would have received if all were served in parallel.
        self._shared_s = 0.0
        self._promised_s: dict[str, float] = {}  # the shared time at which all streams of a caller would be ready
        self._added = 0

    def __contains__(self, stream: object) -> bool:
        return stream in self._waiting

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, stream: int, work: Work[None], caller: str, estimate_s: float) -> None:
        """Queue the preparation of this stream, which will take about `estimate_s`."""
        ready_s = max(self._shared_s, self._promised_s.get(caller, 0.0)) + estimate_s
        self._promised_s[caller] = ready_s
        self._added += 1
        self._callers[caller] += 1
        self._waiting[stream] = _Preparation(stream, caller, work, self._now(), (ready_s, self._added))

    def drop(self, stream: int) -> None:
        """Cancel the preparation of a stream that is not needed any more."""
        if (preparation := self._take(stream)) is not None:
            preparation.work.close()

    def finish(self, stream: int) -> None:
        """Prepare this stream now, before all others, if it is not prepared yet. Raises the errors of its work."""
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
