"""How long a client has given no sign of life, without what is no fault of its own. Pure."""

from __future__ import annotations


class Idleness:
    """Counts from the connection, and from each sign of life anew."""

    def __init__(self, now: float) -> None:
        self._opened_at = now
        self._active_at = now
        self._held_at: float | None = None  # since when the client is not read

    def start_due_at(self, limit_s: float) -> float:
        """When a session must have been started."""
        return self._opened_at + limit_s

    def due_at(self, limit_s: float) -> float:
        """When it has lasted so long."""
        return self._active_at + limit_s

    def stir(self, now: float) -> None:
        """There is a sign of life, or a reason for silence."""
        self._active_at = max(self._active_at, now)

    def hold(self, now: float) -> None:
        """The client is not read at present."""
        if self._held_at is None:
            self._held_at = now

    def let_go(self, now: float) -> None:
        """The client is read."""
        if self._held_at is not None:
            # What it sends may come late: TCP tries again at intervals that grew to as long as nobody read.
            self.stir(now + (now - self._held_at))
            self._held_at = None
