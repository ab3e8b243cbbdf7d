"""How long a client has sent nothing, not counting times when the service did not read it. Pure."""

from __future__ import annotations


class Idleness:
    """Measures the time since the client connected, or since it last sent something."""

    def __init__(self, now: float) -> None:
        self._opened_at = now
        self._active_at = now
        self._held_at: float | None = None  # since when the client is not read

    def start_due_at(self, limit_s: float) -> float:
        """Return when `start` must have come."""
        return self._opened_at + limit_s

    def due_at(self, limit_s: float) -> float:
        """Return when the client will have been idle for so long."""
        return self._active_at + limit_s

    def stir(self, now: float) -> None:
        """Start to count again: the client sent something, or has a reason to be silent."""
        self._active_at = max(self._active_at, now)

    def hold(self, now: float) -> None:
        """Note that the client is not read."""
        if self._held_at is None:
            self._held_at = now

    def let_go(self, now: float) -> None:
        """Note that the client is read again."""
        if self._held_at is not None:
            # Its data may come late: TCP retries at intervals, which may have grown as long as the pause in reading.
            self.stir(now + (now - self._held_at))
            self._held_at = None
