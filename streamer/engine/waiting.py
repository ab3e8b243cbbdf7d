"""The work for which streams wait. It is done in slices between the steps of other streams.

A stream waits for the preparation of its options before its first audio is computed, and for the second pass of each
segment. Callers have equal shares of the time. The work that would end first if all callers were served in parallel is
done first (fair queueing). So a short list of hotwords or a short segment does not wait for the long ones of other
callers, however many there are. Long ones are done one after another, because in parallel all of them would be late.

Work may itself wait for something outside, such as another model: it yields what it waits for, and gets no time until
that is ready. No work waits for longer than the limit of its kind. Then its fallback takes its place.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol, TypeVar

# A step of other streams waits for at most two slices: one that has begun, and one after the previous step. One part of
# a second pass takes some milliseconds, so it is a slice by itself.
SLICE_S = 0.0005
# These limits are shorter than the time after which Triton drops an idle sequence (15 s), and than the time for which
# the bridge waits.
PREPARATION_LIMIT_S: Final = 10.0
SECOND_PASS_LIMIT_S: Final = 3.0  # from the end of the segment
# A segment that came faster than it was spoken has the time until its end would have been spoken as well, up to this.
LONGEST_WAIT_S: Final = 10.0
# What work waits for outside is looked at this often, if there is nothing else to do.
LOOK_AGAIN_S: Final = 0.005

Done = tuple[int, Exception | None]
"""A stream that no longer waits, and the exception if its work failed."""


class Wait(Enum):
    """The kind of work that a stream waits for."""

    PREPARATION = auto()
    SECOND_PASS = auto()


LIMITS_S: Final[Mapping[Wait, float]] = {
    Wait.PREPARATION: PREPARATION_LIMIT_S,
    Wait.SECOND_PASS: SECOND_PASS_LIMIT_S,
}


@dataclass
class _Waiting:
    stream: int
    wait: Wait
    caller: str
    work: OutsideWork[None]
    fallback: Callable[[], None] | None
    due_at: float
    estimate_s: float
    order: tuple[float, int]  # the shared time at which the work would be done, and the number of the work
    awaited: Awaited | None = None
    served_s: float = 0.0  # the time that it has got so far

    @property
    def able(self) -> bool:
        """Whether it can go on now."""
        return self.awaited is None or self.awaited.ready()


class WaitingWork:
    """The streams that wait, and the work of each."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._now = clock
        self._waiting: dict[int, _Waiting] = {}  # by stream
        # The shared time is the time that each caller would have received if all were served in parallel.
        self._shared_s = 0.0
        self._promised_s: dict[str, float] = {}  # the shared time at which all work of a caller would be done
        self._added = 0

    def __contains__(self, stream: object) -> bool:
        return stream in self._waiting

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def pause_s(self) -> float | None:
        """The time after which `advance` may have something to do; None if nothing waits."""
        if not self._waiting:
            return None
        if any(entry.able for entry in self._waiting.values()):
            return 0.0
        return min(LOOK_AGAIN_S, max(0.0, min(entry.due_at for entry in self._waiting.values()) - self._now()))

    def find(self, stream: int) -> Wait | None:
        """Return the kind of work that this stream waits for; None if it does not wait."""
        entry = self._waiting.get(stream)
        return None if entry is None else entry.wait

    def count(self, wait: Wait) -> int:
        """Return how many streams wait for this kind of work."""
        return sum(entry.wait == wait for entry in self._waiting.values())

    def add(
        self,
        stream: int,
        wait: Wait,
        work: OutsideWork[None],
        caller: str,
        estimate_s: float,
        fallback: Callable[[], None] | None = None,
        ahead_s: float = 0.0,
    ) -> None:
        """Let this stream wait for this work, which will take about `estimate_s`.

        `fallback` is called if the work is not done within the limit of its kind. Without one, the work fails then.
        `ahead_s`: how much more time there is, because nobody waits for the result before.
        """
        # A caller whose promise was kept, or who left long ago, is like one who has never come.
        self._promised_s = {each: at for each, at in self._promised_s.items() if at > self._shared_s}
        done_s = self._promised_s.get(caller, self._shared_s) + estimate_s
        self._promised_s[caller] = done_s
        self._added += 1
        limit_s = min(LIMITS_S[wait] + max(0.0, ahead_s), max(LIMITS_S[wait], LONGEST_WAIT_S))
        due_at, order = self._now() + limit_s, (done_s, self._added)
        self._waiting[stream] = _Waiting(stream, wait, caller, work, fallback, due_at, estimate_s, order)

    def drop(self, stream: int) -> None:
        """Cancel the work for a stream, if any."""
        if (waiting := self._waiting.get(stream)) is not None:
            self._cancel(waiting)

    def finish(self, stream: int) -> None:
        """Do the work for this stream now, if any, before all other work. Raise its exception if it fails.

        Work that would have to wait for something outside is given up in favour of its fallback.
        """
        waiting = self._waiting.get(stream)
        if waiting is None:
            return
        try:
            while waiting.able:
                waiting.awaited = next(waiting.work)
        except StopIteration:
            del self._waiting[stream]
        except BaseException:
            self._cancel(waiting)
            raise
        else:
            self._fall_back(waiting)

    def advance(self, second_passes_s: float = 0.0) -> list[Done]:
        """Work for one slice, or for this long if there are second passes. Return the streams that wait no longer."""
        since = self._now()
        results: list[Done] = self._end_late(since)
        callers = max(1, len({entry.caller for entry in self._waiting.values() if entry.able}))
        until = {Wait.PREPARATION: since + SLICE_S, Wait.SECOND_PASS: since + max(SLICE_S, second_passes_s)}
        while waiting := self._next(until):
            began = self._now()
            try:
                while waiting.able and self._now() < until[waiting.wait]:
                    waiting.awaited = next(waiting.work)
                waiting.served_s += self._now() - began
            except StopIteration:
                results.append((waiting.stream, None))
                del self._waiting[waiting.stream]
            except Exception as error:
                results.append((waiting.stream, error))
                self.drop(waiting.stream)
        self._shared_s += (self._now() - since) / callers
        if not self._waiting:
            self._shared_s = 0.0
            self._promised_s.clear()
        return results

    def _next(self, until: Mapping[Wait, float]) -> _Waiting | None:
        """Return the first work that can go on and for which there is still time; None if there is none."""
        now = self._now()
        able = (entry for entry in self._waiting.values() if now < until[entry.wait] and entry.able)
        return min(able, key=lambda entry: entry.order, default=None)

    def _end_late(self, now: float) -> list[Done]:
        """End the work that has waited for too long."""
        results: list[Done] = []
        for entry in [entry for entry in self._waiting.values() if now > entry.due_at]:
            try:
                self._fall_back(entry)
            except Exception as error:
                results.append((entry.stream, error))
            else:
                results.append((entry.stream, None))
        return results

    def _fall_back(self, entry: _Waiting) -> None:
        """Give up this work in favour of its fallback. Raise NotNow if it has none."""
        self._cancel(entry)
        if entry.fallback is None:
            raise NotNow("too many hotwords are being prepared now; try again later")
        entry.fallback()

    def _cancel(self, entry: _Waiting) -> None:
        del self._waiting[entry.stream]
        entry.work.close()
        # Its caller has not got the time that was promised for it.
        if entry.caller in self._promised_s:
            self._promised_s[entry.caller] -= max(0.0, entry.estimate_s - entry.served_s)


# Work in small parts, so that other streams do not have to wait until all of it is done.

Result = TypeVar("Result")


class Awaited(Protocol):
    """Something outside that work waits for."""

    def ready(self) -> bool:
        """Return at once whether the work can go on. It must look itself whether what it awaited has failed."""


Work = Generator[None, None, Result]
OutsideWork = Generator[Awaited | None, None, Result]
"""Work that may wait for something outside. It yields that, or None if it can go on at any time."""


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
