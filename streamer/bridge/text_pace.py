"""How fast text is taken from one client: a flush is a few bytes, and costs the recogniser an answer."""

from __future__ import annotations

# So many messages at a time, and in a second from then on.
MOST_TEXTS = 32
TEXTS_PER_S = 10.0


class TextPace:
    """A client has little to say in text. One that says more is read no further for a moment."""

    def __init__(self) -> None:
        self._ahead_s = 0.0  # of what it may say
        self._said_at = 0.0

    def wait_s(self, now: float) -> float:
        """A message came; how long not to read the next one."""
        self._ahead_s = max(0.0, self._ahead_s - (now - self._said_at)) + 1 / TEXTS_PER_S
        self._said_at = now
        return max(0.0, self._ahead_s - MOST_TEXTS / TEXTS_PER_S)
