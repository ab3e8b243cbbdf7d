"""How long to wait for an answer of one Triton, judged by its recent answers and the work asked for, and doubts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

# An answer is overdue after so many times the slowest recent answer, within these limits. A busy machine is slow for
# every request. A machine that was quick a moment ago and does not answer now hangs.
SLOWER: Final = 5.0
SHORTEST_S: Final = 5.0
LONGEST_S: Final = 30.0
LATELY_S: Final = 30.0
# All audio under way may take so many times as long as it would at the recent pace. So a recogniser that was asked for
# much at once is not taken for one that hangs. This is the most: clients give up after 90 s.
BUSIEST_S: Final = 60.0
# For a stream whose hotwords have to be prepared. After 10 s the model itself gives up.
PREPARING_S: Final = 15.0
# Two doubts within this time count as a failure, whatever a probe says: it may have missed the failing instance.
DOUBT_S: Final = 60.0


@dataclass
class _Period:
    """What was seen in one period."""

    slowest_s: float = 0.0  # the longest time to an answer
    busy_s: float = 0.0  # how long audio was under way, until the last answer
    audio_s: float = 0.0  # how much audio was answered


class Patience:
    """The limit for an answer. It follows the answers of the last 30 to 60 seconds, and the audio under way."""

    def __init__(self) -> None:
        self._since = float("-inf")
        self._before, self._present = _Period(LONGEST_S), _Period(LONGEST_S)
        self._under_way_s = 0.0  # the audio of the requests that have no answer yet
        self._worked_until = 0.0  # the time until which work is counted; now, if audio is under way

    @contextmanager
    def asking(self, audio_s: float, now: float) -> Iterator[None]:
        """Count so much audio as under way."""
        if not self._under_way_s:
            self._worked_until = now
        self._under_way_s += audio_s
        try:
            yield
        finally:
            left = self._under_way_s - audio_s
            self._under_way_s = left if left > 0.001 else 0.0  # sums of fractions are not exact

    def note(self, seconds: float, now: float, audio_s: float = 0.0) -> None:
        """Note that an answer took so long, to a request with so much audio. Called while that counts as under way."""
        if now - self._since > LATELY_S:
            known = self._since > float("-inf")
            self._since, self._before, self._present = now, self._present if known else _Period(), _Period()
        present = self._present
        present.slowest_s = max(present.slowest_s, seconds)
        if audio_s:
            present.busy_s += max(0.0, now - self._worked_until)
            present.audio_s += audio_s
            self._worked_until = now

    @property
    def work_s(self) -> float:
        """How long the audio under way may take. While nothing is answered this does not grow, so what hangs is found.

        0 if the pace is not known.
        """
        busy_s = self._before.busy_s + self._present.busy_s
        audio_s = self._before.audio_s + self._present.audio_s
        return min(SLOWER * self._under_way_s * busy_s / audio_s, BUSIEST_S) if audio_s else 0.0

    @property
    def limit_s(self) -> float:
        """The time after which an answer is overdue."""
        slowest_s = max(self._before.slowest_s, self._present.slowest_s)
        return max(min(max(SHORTEST_S, SLOWER * slowest_s), LONGEST_S), self.work_s)


class Doubts:
    """Whether requests have raised doubts about an upstream, and when a doubt last counted."""

    def __init__(self) -> None:
        self.raised = asyncio.Event()
        self._at = float("-inf")

    def again(self) -> bool:
        """Count a doubt. Return whether the one before was within DOUBT_S."""
        last, self._at = self._at, time.monotonic()
        return self._at - last < DOUBT_S
