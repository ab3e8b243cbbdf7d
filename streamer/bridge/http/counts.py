"""Counts connections by their state, each from the moment it is accepted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

OPENING: Final = "opening"  # the TLS handshake is under way, or the first request has not come
IDLE: Final = "idle"  # kept for another request
ANSWERING: Final = "answering"  # a request is being read or answered
WEBSOCKET: Final = "websocket"
STATES: Final = (OPENING, IDLE, ANSWERING, WEBSOCKET)

# Further connections are cut off at once, without an answer.
MOST_OPENING = 256
# Further connections are closed after their answer. A client with more requests must connect again.
MOST_IDLE = 128
# Further requests are answered with 503.
MOST_ANSWERING = 256


class ConnectionCounts:
    """The connections of one port."""

    def __init__(self, on_change: Callable[[int], None] = lambda _: None) -> None:
        """`on_change` is called with the number of connections when one comes or goes."""
        self.numbers = dict.fromkeys(STATES, 0)
        self._on_change = on_change

    def add(self, state: str, number: int) -> None:
        """Add to the number of connections in this state."""
        self.numbers[state] += number
        self._on_change(sum(self.numbers.values()))

    def enter(self) -> CountedConnection | None:
        """Count a new connection; None if too many are opening already."""
        return CountedConnection(self) if self.numbers[OPENING] < MOST_OPENING else None

    @property
    def room_for_idle(self) -> bool:
        """Whether another connection may be kept for its next request."""
        return self.numbers[IDLE] < MOST_IDLE

    @property
    def room_for_answering(self) -> bool:
        """Whether another request may be answered."""
        return self.numbers[ANSWERING] < MOST_ANSWERING


class CountedConnection:
    """One connection that is counted."""

    def __init__(self, counts: ConnectionCounts) -> None:
        self._counts = counts
        self._state: str | None = OPENING
        counts.add(OPENING, 1)

    @property
    def state(self) -> str | None:
        """The state of the connection; None once it has ended."""
        return self._state

    def move(self, state: str) -> None:
        """Change to another state."""
        if self._state is not None:
            self._counts.numbers[self._state] -= 1
            self._counts.numbers[state] += 1
            self._state = state

    def leave(self) -> None:
        """Stop counting it. This may be called again."""
        if self._state is not None:
            self._counts.add(self._state, -1)
            self._state = None
