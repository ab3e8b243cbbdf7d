"""Who gets a sequence of the recogniser. Triton's own backlog is silent and unbounded, so the limit is here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamer.bridge.metrics import Metrics
from streamer.triton.link import Link, Sequence


class Refused(Exception):
    """No sequence is to be had now: a code word and a sentence for the client."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Admission:
    """Hands out at most so many sequences at a time; none before `open` and none after `close`."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._link: Link | None = None
        self._most = 0
        self._taken = 0
        self._sessions = 0
        self._closed = False

    @property
    def most(self) -> int:
        """How many sequences there are."""
        return self._most

    @property
    def taken(self) -> int:
        """How many are held."""
        return self._taken

    @property
    def sessions(self) -> int:
        """How many sessions hold them: one may have several, for its channels."""
        return self._sessions

    @property
    def closed(self) -> bool:
        """Whether the service is shutting down."""
        return self._closed

    def open(self, link: Link, most: int) -> None:
        """The recogniser is there: `most` sequences may be held on this link."""
        self._link, self._most = link, most
        self._metrics.sessions_limit.set(most)

    def close(self) -> None:
        """From now on nobody gets a sequence."""
        self._closed = True

    def take(self, options: Mapping[str, Any], number: int = 1) -> list[Sequence]:
        """The sequences of a session, all or none of them, to be given back; Refused if there are too few."""
        if self._closed:
            raise Refused("shutting_down", "The service is shutting down; try again later.")
        if self._link is None or not self._link.alive:
            raise Refused("not_ready", "The recogniser is not ready; try again in some seconds.")
        free = self._most - self._taken
        if not free:
            raise Refused("full", f"All {self._most} sessions are taken; try again when one has ended.")
        if number > free:
            raise Refused(
                "full",
                f"{number} channels need as many sessions, of which {free} of {self._most} are free; "
                "try again when others have ended, or with fewer channels.",
            )
        self._count(number, 1)
        return [self._link.sequence(options) for _ in range(number)]

    def give_back(self, number: int = 1) -> None:
        """The sequences of a session have ended."""
        self._count(-number, -1)

    def _count(self, sequences: int, sessions: int) -> None:
        self._taken += sequences
        self._sessions += sessions
        self._metrics.sequences.set(self._taken)
        self._metrics.sessions.set(self._sessions)
