"""The work for which streams wait. It is done in slices between the steps of other streams.

A stream waits for the preparation of its options before its first audio is computed, and for the second pass of each
segment. Callers have equal shares of the time. The work that would end first if all callers were served in parallel is
done first (fair queueing). So a short list of hotwords or a short segment does not wait for the long ones of other
callers, however many there are. Long ones are done one after another, because in parallel all of them would be late.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeVar

# A step of other streams waits for at most two slices: one that has begun, and one after the previous step. One part of
# a second pass takes some milliseconds, so it is a slice by itself.
SLICE_S = 0.0005
# This is shorter than the time after which Triton drops an idle sequence, and than the time for which the bridge waits.
PREPARATION_LIMIT_S = 10.0

Done = tuple[int, Exception | None]
"""A stream that no longer waits, and the exception if its work failed."""


class Wait(Enum):
    """The kind of work that a stream waits for."""

    PREPARATION = auto()
    SECOND_PASS = auto()


@dataclass(frozen=True)
class _Waiting:
    stream: int
    wait: Wait
    caller: str
    work: Work[None]
    begun_at: float
    order: tuple[float, int]  # the shared time at which the work would be done, and the number of the work


class WaitingWork:
    """The streams that wait, and the work of each."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._now = clock
        self._waiting: dict[int, _Waiting] = {}  # by stream
        self._callers: Counter[str] = Counter()  # the number of waiting streams of each caller
        # The shared time is the time that each caller would have received if all were served in parallel.
        self._shared_s = 0.0
        self._promised_s: dict[str, float] = {}  # the shared time at which all work of a caller would be done
        self._added = 0

    def __contains__(self, stream: object) -> bool:
        return stream in self._waiting

    def __len__(self) -> int:
        return len(self._waiting)

    def find(self, stream: int) -> Wait | None:
        """Return the kind of work that this stream waits for; None if it does not wait."""
        entry = self._waiting.get(stream)
        return None if entry is None else entry.wait

    def count(self, wait: Wait) -> int:
        """Return how many streams wait for this kind of work."""
        return sum(entry.wait == wait for entry in self._waiting.values())

    def add(self, stream: int, wait: Wait, work: Work[None], caller: str, estimate_s: float) -> None:
        """Let this stream wait for this work, which will take about `estimate_s`."""
        done_s = max(self._shared_s, self._promised_s.get(caller, 0.0)) + estimate_s
        self._promised_s[caller] = done_s
        self._added += 1
        self._callers[caller] += 1
        self._waiting[stream] = _Waiting(stream, wait, caller, work, self._now(), (done_s, self._added))

    def drop(self, stream: int) -> None:
        """Cancel the work for a stream, if any."""
        if (waiting := self._take(stream)) is not None:
            waiting.work.close()

    def finish(self, stream: int) -> None:
        """Do the work for this stream now, if any, before all other work. Raise its exception if it fails."""
        if (waiting := self._take(stream)) is not None:
            finish(waiting.work)

    def advance(self, second_passes_s: float = 0.0) -> list[Done]:
        """Work for one slice, or for this long if there are second passes. Return the streams that wait no longer."""
        since = self._now()
        results: list[Done] = self._late(since)
        callers = max(1, len(self._callers))
        until = {Wait.PREPARATION: since + SLICE_S, Wait.SECOND_PASS: since + max(SLICE_S, second_passes_s)}
        while waiting := self._next(until):
            try:
                while self._now() < until[waiting.wait]:
                    next(waiting.work)
            except StopIteration:
                results.append((waiting.stream, None))
                self._take(waiting.stream)
            except Exception as error:
                results.append((waiting.stream, error))
                self.drop(waiting.stream)
        self._shared_s += (self._now() - since) / callers
        if not self._waiting:
            self._shared_s = 0.0
            self._promised_s.clear()
        return results

    def _next(self, until: Mapping[Wait, float]) -> _Waiting | None:
        """Return the first work for which there is still time; None if there is none."""
        now = self._now()
        return min((entry for entry in self._waiting.values() if now < until[entry.wait]), key=_order, default=None)

    def _late(self, now: float) -> list[Done]:
        """Cancel the preparations that wait for too long. A second pass goes on, because its words were shown."""
        late = [
            entry.stream
            for entry in self._waiting.values()
            if entry.wait is Wait.PREPARATION and now - entry.begun_at > PREPARATION_LIMIT_S
        ]
        for stream in late:
            self.drop(stream)
        return [(stream, NotNow("too many hotwords are being prepared now; try again later")) for stream in late]

    def _take(self, stream: int) -> _Waiting | None:
        entry = self._waiting.pop(stream, None)
        if entry is not None:
            self._callers[entry.caller] -= 1
            if not self._callers[entry.caller]:
                del self._callers[entry.caller]
        return entry


def _order(waiting: _Waiting) -> tuple[float, int]:
    return waiting.order


# Work in small parts, so that other streams do not have to wait until all of it is done.

Result = TypeVar("Result")
Work = Generator[None, None, Result]


class NotNow(Exception):
    """There is no room or no time for this work now. It may be possible later."""


def finish(work: Work[Result]) -> Result:
    """Do the work without a pause, and return its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: Result = end.value
            return result
