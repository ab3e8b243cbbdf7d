"""Decides how long to wait for an answer of one Triton, by its recent answers and its present work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

# An answer is overdue after SLOWER times the time of the slowest recent answer, within these limits. A busy machine is
# slow for every request. A machine that was quick a moment ago and does not answer now hangs.
SLOWER: Final = 5.0
SHORTEST_S: Final = 5.0
LONGEST_S: Final = 30.0
LATELY_S: Final = 30.0
# All audio under way may take SLOWER times as long as at the recent pace, up to this limit. So a recogniser that gets
# much work at once does not seem to hang. The limit is shorter than that of clients, which is 90 s.
BUSIEST_S: Final = 60.0
# The limit for a stream whose hotwords have to be prepared. After 10 s the model itself gives up.
PREPARING_S: Final = 15.0
# Two doubts within this time count as a failure even if a probe succeeds, because it may miss the failing instance.
DOUBT_S: Final = 60.0


@dataclass
class _Period:
    """The observations of one period."""

    slowest_s: float = 0.0  # the longest time until an answer
    busy_s: float = 0.0  # the time in which audio was under way, up to the last answer
    audio_s: float = 0.0  # the audio that was answered


class Patience:
    """The limit for an answer. It follows the answers of the last 30 to 60 seconds, and the audio under way."""

    def __init__(self) -> None:
        self._since = float("-inf")
        self._before, self._present = _Period(LONGEST_S), _Period(LONGEST_S)
        self._under_way_s = 0.0  # the audio of the requests that have no answer yet
        self._counted_until = 0.0  # work before this time is in `busy_s`

    @contextmanager
    def work(self, audio_s: float, now: float) -> Iterator[None]:
        """Count this audio as under way, inside the `with` block."""
        if not self._under_way_s:
            self._counted_until = now
        self._under_way_s += audio_s
        try:
            yield
        finally:
            remaining = self._under_way_s - audio_s
            self._under_way_s = remaining if remaining > 0.001 else 0.0  # sums of fractions are not exact

    def note(self, seconds: float, now: float, audio_s: float = 0.0) -> None:
        """Note the time of an answer to a request with this audio, inside its work() block."""
        if now - self._since > LATELY_S:
            follows = self._since > float("-inf")
            self._since, self._before, self._present = now, self._present if follows else _Period(), _Period()
        present = self._present
        present.slowest_s = max(present.slowest_s, seconds)
        if audio_s:
            present.busy_s += max(0.0, now - self._counted_until)
            present.audio_s += audio_s
            self._counted_until = now

    @property
    def work_s(self) -> float:
        """The time that the audio under way may take; 0 if the pace is not known.

        While there are no answers, this does not grow. So a Triton that hangs is noticed.
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
    """The doubts about an upstream that failed requests raise, and the time of the last one that counted."""

    def __init__(self) -> None:
        self.raised = asyncio.Event()
        self._at = float("-inf")

    def again(self) -> bool:
        """Count a doubt. Return whether the doubt before it was within DOUBT_S."""
        last, self._at = self._at, time.monotonic()
        return self._at - last < DOUBT_S
