"""Holds the requests of streams that wait, in their order, up to a limit."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from itertools import chain, zip_longest
from typing import Generic, TypeVar

from streamer.base.codes import FailureCode
from streamer.engine.recogniser import LONGEST_CHUNK_S, StreamError

MOST_REQUESTS = 64  # for one stream

Request = TypeVar("Request")


class HeldRequests(Generic[Request]):
    """The requests of streams that wait, or that have older requests which are not computed yet."""

    def __init__(self, sample_rate: int) -> None:
        self._most_samples = LONGEST_CHUNK_S * sample_rate
        self._queues: dict[int, deque[tuple[Request, int]]] = {}  # by stream; each request with its number of samples

    def __len__(self) -> int:
        return len(self._queues)

    @property
    def requests(self) -> int:
        """How many requests are held for all streams."""
        return sum(len(queue) for queue in self._queues.values())

    def __contains__(self, stream: int) -> bool:
        return stream in self._queues

    def hold(self, stream: int, request: Request, samples: int) -> None:
        """Hold the stream's next request. StreamError if it would be too many requests or too much audio."""
        queue = self._queues.get(stream, deque())
        if len(queue) >= MOST_REQUESTS or samples + sum(size for _, size in queue) > self._most_samples:
            limits = f"at most {LONGEST_CHUNK_S} s of audio in at most {MOST_REQUESTS} requests"
            raise StreamError(FailureCode.TOO_LONG, f"a stream can send {limits} while it is being prepared")
        self._queues.setdefault(stream, deque()).append((request, samples))

    def put_back(self, stream: int, request: Request) -> None:
        """Hold this request before all others of the stream."""
        self._queues.setdefault(stream, deque()).appendleft((request, 0))

    def take(self, stream: int) -> Request:
        """Remove and return the first request of a stream."""
        queue = self._queues[stream]
        request, _ = queue.popleft()
        if not queue:
            del self._queues[stream]
        return request

    def due(self, waits: Callable[[int], object]) -> list[Request]:
        """Remove and return the first request of each stream that does not wait. They can be computed in one batch."""
        return [self.take(stream) for stream in list(self._queues) if not waits(stream)]

    def any_due(self, waits: Callable[[int], object]) -> bool:
        """Return whether there is a stream that does not wait."""
        return not all(map(waits, self._queues))

    def clear(self) -> list[Request]:
        """Remove and return all requests."""
        requests = [request for queue in self._queues.values() for request, _ in queue]
        self._queues.clear()
        return requests


# Decides whose requests come first, and whether second passes come before them.

# Where threads take turns at batches, requests with awaited last words are computed with only as many others, and with
# at least this many in all. The end of a stream has several steps. In large batches, each takes a tenth of a second.
FEWEST_WITH_AWAITED = 4


def in_turns(
    requests: Iterable[Request],
    caller_of: Callable[[Request], str],
    used_s: Callable[[str], float],
    request_s: float,
    is_awaited: Callable[[Request], bool],
) -> list[Request]:
    """Return first the requests of callers that have used the least time. Each request uses `request_s` more.

    So a caller with many streams does not delay one that has few. Requests of one caller whose answers are `awaited`
    come before others, but only one before each, so that others go on whoever waits.
    """
    everyone = list(requests)
    awaited = [request for request in everyone if is_awaited(request)]
    others = [request for request in everyone if not is_awaited(request)]
    before: Counter[str] = Counter()
    ranked: list[tuple[float, Request]] = []
    for request in chain.from_iterable(zip_longest(awaited, others)):
        if request is None:  # there are more of the other kind
            continue
        caller = caller_of(request)
        ranked.append((used_s(caller) + before[caller] * request_s, request))
        before[caller] += 1
    return [request for _, request in sorted(ranked, key=lambda entry: entry[0])]


def together_with_awaited(usual: int, due: int, awaited: int) -> int:
    """Return how many of so many due requests to compute together if so many have awaited last words.

    There is room for one other request beside each of these. If many more requests are due than usual, the machine does
    not keep up, and small batches would make it slower still.
    """
    return min(usual, max(FEWEST_WITH_AWAITED, 2 * awaited)) if awaited and due <= 2 * usual else usual


class Turn(Enum):
    """Who has the next turn."""

    STEPS = auto()
    SECOND_PASSES = auto()
    BOTH = auto()  # second passes as long as the steps before


def whose_turn(second_pass: str | None, steps: Collection[str], used_s: Callable[[str], float]) -> Turn:
    """Return who has the next turn. `second_pass`: the caller of the next one, if any. `steps`: those of due steps.

    A second pass waits for the steps of all callers that have used less time than its own caller, and these wait for
    none of their own.
    """
    if second_pass is None or not steps:
        return Turn.STEPS if second_pass is None else Turn.SECOND_PASSES
    its_own_s, least_s = used_s(second_pass), min(map(used_s, steps))
    if its_own_s == least_s:
        return Turn.BOTH
    return Turn.SECOND_PASSES if its_own_s < least_s else Turn.STEPS


# Decides which thread may use the recogniser. Steps of streams come first; other work gets the time between them.


class Precedence:
    """A lock for steps and other work. No other work begins while a step waits."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._busy = False
        self._steps = 0  # the number of steps that wait for their turn

    @contextmanager
    def step(self) -> Iterator[None]:
        """Wait until nobody has the turn, and take it for a step."""
        self._begin_step()
        try:
            yield
        finally:
            self._end()

    @contextmanager
    def meanwhile(self) -> Iterator[None]:
        """Give the turn, which the caller has, to others, and take it again afterwards for the rest of a step."""
        self._end()
        try:
            yield
        finally:
            self._begin_step()

    @contextmanager
    def other(self) -> Iterator[None]:
        """Wait until nobody has the turn and no step waits for it, and take it for other work, which must be short."""
        with self._changed:
            self._changed.wait_for(lambda: not self._busy and not self._steps)
            self._busy = True
        try:
            yield
        finally:
            self._end()

    def _begin_step(self) -> None:
        with self._changed:
            self._steps += 1
            try:
                self._changed.wait_for(lambda: not self._busy)
            finally:
                self._steps -= 1
            self._busy = True

    def _end(self) -> None:
        with self._changed:
            self._busy = False
            self._changed.notify_all()
