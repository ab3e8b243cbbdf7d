"""Holds the requests of streams that wait: in order, within bounds."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from streamer.engine.recogniser import LONGEST_CHUNK_S, StreamError

MOST_REQUESTS = 64  # held for one stream

Request = TypeVar("Request")


class HeldRequests(Generic[Request]):
    """The requests of streams that wait, or that still have older requests to be computed."""

    def __init__(self, sample_rate: int) -> None:
        self._most_samples = LONGEST_CHUNK_S * sample_rate
        self._held: dict[int, deque[tuple[Request, int]]] = {}  # each with its number of samples

    def __len__(self) -> int:
        return len(self._held)

    @property
    def requests(self) -> int:
        """How many requests are held for all streams."""
        return sum(len(theirs) for theirs in self._held.values())

    def __contains__(self, stream: int) -> bool:
        return stream in self._held

    def hold(self, stream: int, request: Request, samples: int) -> None:
        """Keep the stream's next request. StreamError if too many requests or too much audio would be held."""
        theirs = self._held.get(stream, deque())
        if len(theirs) >= MOST_REQUESTS or samples + sum(size for _, size in theirs) > self._most_samples:
            limits = f"at most {LONGEST_CHUNK_S} s of audio in at most {MOST_REQUESTS} requests"
            raise StreamError("too_long", f"a stream can send {limits} while it is being prepared")
        self._held.setdefault(stream, deque()).append((request, samples))

    def put_back(self, stream: int, request: Request) -> None:
        """Put this request before all others of the stream."""
        self._held.setdefault(stream, deque()).appendleft((request, 0))

    def take(self, stream: int) -> Request:
        """Remove and return the first request of a stream."""
        theirs = self._held[stream]
        request, _ = theirs.popleft()
        if not theirs:
            del self._held[stream]
        return request

    def due(self, waits: Callable[[int], object]) -> list[Request]:
        """Remove and return the first request of each stream that does not wait: they fit into one batch."""
        return [self.take(stream) for stream in list(self._held) if not waits(stream)]

    def clear(self) -> list[Request]:
        """Remove and return all requests, when the model is unloaded."""
        requests = [request for theirs in self._held.values() for request, _ in theirs]
        self._held.clear()
        return requests
