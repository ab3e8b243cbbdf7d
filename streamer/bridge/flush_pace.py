"""Limits how fast `flush` messages of one client are read, because even a tiny one costs the recogniser an answer."""

from __future__ import annotations

MOST_FLUSHES = 32  # that a client may send at once
FLUSHES_PER_S = 10.0  # that it may send in each second after that


class FlushPace:
    """The pace of one client. If its `flush` messages come faster, reading pauses for a moment."""

    def __init__(self) -> None:
        self._ahead_s = 0.0  # how far the client is ahead of the pace
        self._last_at = 0.0

    def wait_s(self, now: float) -> float:
        """Note a `flush`. Return how long to wait before reading the next message."""
        self._ahead_s = max(0.0, self._ahead_s - (now - self._last_at)) + 1 / FLUSHES_PER_S
        self._last_at = now
        return max(0.0, self._ahead_s - MOST_FLUSHES / FLUSHES_PER_S)
