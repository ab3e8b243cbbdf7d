"""Who gets a sequence of the recogniser. Triton's own backlog is silent and unbounded, so the limit is here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamer.bridge.telemetry.metrics import Metrics
from streamer.bridge.upstreams.pool import UpstreamPool
from streamer.bridge.upstreams.upstream import Reservation
from streamer.triton.link import LinkError


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
        self._upstreams: UpstreamPool | None = None
        self._limit: int | None = None
        self._share: float | None = None  # of the places that the Tritons have, if that is what may be held
        self._taken = 0
        self._sessions = 0
        self._closed = False

    @property
    def ready(self) -> bool:
        """Whether a session that comes now would be served, if there is room for it."""
        return not self._closed and self._upstreams is not None and self._upstreams.ready

    @property
    def most(self) -> int:
        """How many sequences there are."""
        known = 0 if self._upstreams is None else self._carried(self._upstreams.most)
        return known if self._limit is None else min(self._limit, known)

    @property
    def taken(self) -> int:
        """How many are held."""
        return self._taken

    @property
    def sessions(self) -> int:
        """How many sessions hold them: one may have several, for its channels."""
        return self._sessions

    @property
    def model(self) -> str | None:
        """Which model new sequences go to; None before `open`."""
        return None if self._upstreams is None else self._upstreams.model

    @property
    def models(self) -> dict[str, int]:
        """How many sequences each model holds that is in use."""
        return {} if self._upstreams is None else self._upstreams.holding()

    @property
    def closed(self) -> bool:
        """Whether the service is shutting down."""
        return self._closed

    def open(self, upstreams: UpstreamPool, limit: int | None = None, *, carried: int | None = None) -> None:
        """The recogniser is there: as many sequences may be held as it takes, or `limit`, or as it was found to carry.

        `carried` belongs to the Tritons that are well now: with others there will be more, without some of them less.
        """
        self._upstreams, self._limit = upstreams, limit
        if carried is not None:
            self._share = min(1.0, carried / max(1, upstreams.room))
        self._metrics.sessions_limit.set_function(lambda: self.most)
        self._metrics.ready.set_function(lambda: self.ready)

    def close(self) -> None:
        """From now on nobody gets a sequence."""
        self._closed = True

    def take(self, options: Mapping[str, Any], number: int = 1) -> list[Reservation]:
        """The places of a session, all or none of them, to be given back; Refused if there are too few."""
        if self._closed:
            raise Refused("shutting_down", "The service is shutting down; try again later.")
        if self._upstreams is None or not self._upstreams.well:
            raise Refused("not_ready", "The recogniser is not ready; try again in some seconds.")
        most = self.most
        # Who was let in and has lost its place to a Triton that failed gets one before anybody new does.
        room = self._carried(self._upstreams.room)
        free = max(0, min(most - self._taken, room - self._taken, self._upstreams.free))
        if not free:
            raise Refused("full", f"All {most} sessions are taken; try again when one has ended.")
        if number > free:
            raise Refused(
                "full",
                f"{number} channels need as many sessions, of which {free} of {most} are free; "
                "try again when others have ended, or with fewer channels.",
            )
        self._count(number, 1)
        leases = [self._upstreams.lease(options) for _ in range(number)]
        return [lease for lease in leases if lease is not None]

    def replace(self, lost: Reservation, options: Mapping[str, Any]) -> Reservation:
        """Another place for a sequence that has failed, also while the service shuts down; LinkError if none is well.

        It is not counted again: the session was let in.
        """
        lost.discard()
        lease = None if self._upstreams is None else self._upstreams.lease(options, instead_of=lost)
        if lease is None:
            raise LinkError("unavailable", "no recogniser is well, or those that are have no room")
        return lease

    def has_better(self, lease: Reservation) -> bool:
        """Whether this sequence has to go on elsewhere when it can, and there is an elsewhere."""
        return self._upstreams is not None and self._upstreams.has_better(lease)

    def give_back(self, leases: list[Reservation]) -> None:
        """The sequences of a session have ended."""
        for lease in leases:
            lease.discard()
        self._count(-len(leases), -1)

    def _carried(self, places: int) -> int:
        """How many sessions so many places are good for."""
        return places if self._share is None else max(min(1, places), round(self._share * places))

    def _count(self, sequences: int, sessions: int) -> None:
        self._taken += sequences
        self._sessions += sessions
        self._metrics.sequences.set(self._taken)
        self._metrics.sessions.set(self._sessions)
