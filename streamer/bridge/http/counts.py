"""How many connections there are, by what they are doing: each is counted from the moment it is accepted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

OPENING: Final = "opening"  # TLS is under way, or the first request has not come
IDLE: Final = "idle"  # kept for another request
ANSWERING: Final = "answering"  # a request is being read or answered
WEBSOCKET: Final = "websocket"
STATES: Final = (OPENING, IDLE, ANSWERING, WEBSOCKET)

# More than that are cut off at once: nothing is known of them that could be told politely.
MOST_OPENING = 256
# More than that are closed after their answer; a client that has more to ask connects again.
MOST_IDLE = 128
# More than that are answered 503.
MOST_ANSWERING = 256


class ConnectionCounts:
    """The connections of one port."""

    def __init__(self, changed: Callable[[int], None] = lambda _: None) -> None:
        """`changed` is told how many there are when one comes or goes."""
        self.numbers = dict.fromkeys(STATES, 0)
        self._changed = changed

    def add(self, state: str, number: int) -> None:
        """So many more in this state, or fewer."""
        self.numbers[state] += number
        self._changed(sum(self.numbers.values()))

    def enter(self) -> CountedConnection | None:
        """Counts a new connection; None if too many are opening already."""
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
    """One connection among them."""

    def __init__(self, counts: ConnectionCounts) -> None:
        self._counts = counts
        self._state: str | None = OPENING
        counts.add(OPENING, 1)

    @property
    def state(self) -> str | None:
        """What it is doing; None once it has left."""
        return self._state

    def move(self, state: str) -> None:
        """It does something else now."""
        if self._state is not None:
            self._counts.numbers[self._state] -= 1
            self._counts.numbers[state] += 1
            self._state = state

    def leave(self) -> None:
        """It has ended; any number of times."""
        if self._state is not None:
            self._counts.add(self._state, -1)
            self._state = None
