"""The work for which streams wait. It is done in slices between the steps of other streams.

A stream waits for the preparation of its options before its first audio is computed, and for the second pass of each
segment. Callers have equal shares of the time, in which their steps count as well (`Shares`). The work that would end
first if all callers were served in parallel is done first (fair queueing). So a short list of hotwords or a short
segment does not wait for the long ones of other callers, however many there are. Long ones are done one after another,
because in parallel all of them would be late.

Work may itself wait for something outside, such as another model: it yields what it waits for, and gets no time until
that is ready. No work waits for longer than the limit of its kind. Then its fallback takes its place, at once if it is
clear before it begins that the time will not do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol, TypeVar, runtime_checkable

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
# A caller that has used less than its share may catch up on this much. So one with a few live streams never waits for
# its share: all that comes from them at once is less.
MOST_CREDIT_S: Final = 0.25

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


class Shares:
    """The time that each caller has used. Whoever has used the least comes first.

    A caller that did nothing for a while is not owed the time that it did not use, up to MOST_CREDIT_S.
    """

    def __init__(self) -> None:
        self._used_s: dict[str, float] = {}
        # What the one of the busy callers has used that has used the least. It only grows.
        self._least_s = 0.0

    def used_s(self, caller: str) -> float:
        """Return the time that this caller has used, in comparison with others."""
        return max(self._used_s.get(caller, 0.0), self._least_s - MOST_CREDIT_S)

    def charge(self, caller: str, seconds: float) -> None:
        """Count that this caller has used this time."""
        self._used_s[caller] = self.used_s(caller) + seconds

    def compare(self, busy: Iterable[str]) -> None:
        """Note which callers have something to do now. The others lose what they did not use."""
        least_s = min(map(self.used_s, busy), default=self._least_s)
        if least_s > self._least_s:
            self._least_s = least_s
            # A caller who left long ago is like one who has never come.
            forgotten_s = least_s - MOST_CREDIT_S
            self._used_s = {caller: used_s for caller, used_s in self._used_s.items() if used_s > forgotten_s}


@dataclass
class _Waiting:
    stream: int
    wait: Wait
    caller: str
    work: OutsideWork[None]
    fallback: Callable[[], None] | None
    due_at: float
    estimate_s: float
    number: int
    awaited: Awaited | None = None
    served_s: float = 0.0  # the time that it has got so far

    @property
    def able(self) -> bool:
        """Whether it can go on now."""
        return self.awaited is None or self.awaited.ready()

    def hopeless(self, now: float) -> bool:
        """Whether it has not begun, and there is less time for it than it takes."""
        return self.fallback is not None and not self.served_s and now + self.estimate_s > self.due_at

    @property
    def remaining_s(self) -> float:
        """The time that it will probably still take."""
        return max(0.0, self.estimate_s - self.served_s)


class WaitingWork:
    """The streams that wait, and the work of each."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter, shares: Shares | None = None) -> None:
        """`shares`: the time that callers have used, here and elsewhere."""
        self._now = clock
        self._shares = shares or Shares()
        self._waiting: dict[int, _Waiting] = {}  # by stream
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

    @property
    def next_second_pass(self) -> str | None:
        """The caller of the second pass that comes next; None if there is none, or none can go on now."""
        entry = self._first(entry for entry in self._waiting.values() if entry.wait is Wait.SECOND_PASS)
        return None if entry is None else entry.caller

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
        self._added += 1
        limit_s = min(LIMITS_S[wait] + max(0.0, ahead_s), max(LIMITS_S[wait], LONGEST_WAIT_S))
        due_at = self._now() + limit_s
        self._waiting[stream] = _Waiting(stream, wait, caller, work, fallback, due_at, estimate_s, self._added)

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

    def advance(self, second_passes_s: float | None = 0.0) -> list[Done]:
        """Work for one slice, or for this long if there are second passes. Return the streams that wait no longer.

        None: no second pass goes on, because others come first.
        """
        since = self._now()
        results: list[Done] = self._end_late(since)
        until = {Wait.PREPARATION: since + SLICE_S, Wait.SECOND_PASS: since}
        if second_passes_s is not None:
            until[Wait.SECOND_PASS] += max(SLICE_S, second_passes_s)
        while waiting := self._next(until):
            began, awaited = self._now(), waiting.awaited
            if isinstance(awaited, Costly):
                self._shares.charge(waiting.caller, awaited.used_s)
            try:
                while waiting.able and self._now() < until[waiting.wait]:
                    waiting.awaited = next(waiting.work)
            except StopIteration:
                results.append((waiting.stream, None))
                del self._waiting[waiting.stream]
            except Exception as error:
                results.append((waiting.stream, error))
                self.drop(waiting.stream)
            served_s = self._now() - began
            waiting.served_s += served_s
            self._shares.charge(waiting.caller, served_s)
        return results

    def _next(self, until: Mapping[Wait, float]) -> _Waiting | None:
        """Return the first work that can go on and for which there is still time; None if there is none."""
        now = self._now()
        return self._first(entry for entry in self._waiting.values() if now < until[entry.wait])

    def _first(self, entries: Iterable[_Waiting]) -> _Waiting | None:
        """Return the first of these that can go on; None if none can."""
        of_callers: dict[str, _Waiting] = {}
        for entry in sorted(entries, key=lambda entry: entry.number):
            if entry.caller not in of_callers and entry.able:
                of_callers[entry.caller] = entry  # the work of one caller is done in its order
        self._shares.compare(of_callers)
        # Rounded, because which of two comes first must not change while one of them is being done.
        return min(
            of_callers.values(),
            key=lambda entry: (round(self._shares.used_s(entry.caller) + entry.remaining_s, 6), entry.number),
            default=None,
        )

    def _end_late(self, now: float) -> list[Done]:
        """End the work that has waited for too long, or that would have to wait for too long if it began now."""
        results: list[Done] = []
        for entry in [entry for entry in self._waiting.values() if now > entry.due_at or entry.hopeless(now)]:
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


# Work in small parts, so that other streams do not have to wait until all of it is done.

Result = TypeVar("Result")


class Awaited(Protocol):
    """Something outside that work waits for."""

    def ready(self) -> bool:
        """Return at once whether the work can go on. It must look itself whether what it awaited has failed."""


class Pause:
    """Some time in which work does nothing."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self._now, self._until = clock, clock() + seconds

    def ready(self) -> bool:
        """Return whether the time is over."""
        return self._now() >= self._until


@runtime_checkable
class Costly(Awaited, Protocol):
    """Something outside that costs time of this machine, which its caller has used."""

    @property
    def used_s(self) -> float:
        """The time that it took. It must be ready."""


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
