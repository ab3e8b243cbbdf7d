"""Who gets slots of the recogniser. Triton's own backlog is silent and unbounded, so the limit is here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from streamer.bridge.telemetry.metrics import Metrics
from streamer.bridge.upstreams.models import Models
from streamer.bridge.upstreams.reservation import Reservation
from streamer.limits import DEFAULT_MODEL


class Refused(Exception):
    """No slot is to be had now: a code word and a sentence for the client."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Admission:
    """Hands out at most so many slots at a time; none before `open` and none after `close`."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._models: Models | None = None
        self._limit: int | None = None
        self._share: float | None = None  # of the slots of the default model, if that is what may be held
        self._taken = 0
        self._sessions = 0
        self._closed = False

    @property
    def ready(self) -> bool:
        """Whether a session that comes now and names no model would be served, if there is room for it."""
        return not self._closed and self._models is not None and self._models.default.ready

    @property
    def most(self) -> int:
        """How many slots may be held, of all models together."""
        if self._models is None:
            return 0
        return self._bounded(sum(pool.most for pool in self._models.pools.values()), self._models.default.most)

    @property
    def taken(self) -> int:
        """How many are held."""
        return self._taken

    @property
    def sessions(self) -> int:
        """How many sessions hold them: one may have several, for its channels."""
        return self._sessions

    @property
    def models(self) -> Models | None:
        """None before `open`."""
        return self._models

    @property
    def closed(self) -> bool:
        """Whether the service is shutting down."""
        return self._closed

    def open(self, models: Models, limit: int | None = None, *, carried: int | None = None) -> None:
        """The recogniser is there: as many slots may be held as it has, or `limit`, or as it was found to carry.

        `carried` was measured with the default model at the Tritons that are well now: with others there will be more,
        without some of them less.
        """
        self._models, self._limit = models, limit
        if carried is not None:
            self._share = min(1.0, carried / max(1, models.default.room))
        self._metrics.sessions_limit.set_function(lambda: self.most)
        self._metrics.ready.set_function(lambda: self.ready)

    def close(self) -> None:
        """From now on nobody gets a slot."""
        self._closed = True

    def take(self, options: Mapping[str, Any], number: int = 1, name: str = DEFAULT_MODEL) -> list[Reservation]:
        """The slots of a session at the model of this public name, all or none of them; Refused if there are too few.

        Give them back in the end.
        """
        if self._closed:
            raise Refused("shutting_down", "The service is shutting down; try again later.")
        pool = None if self._models is None else self._models.pools[name]
        if self._models is None or pool is None or not pool.well:
            which = "recogniser" if name == DEFAULT_MODEL else f"model {name!r}"
            raise Refused("not_ready", f"The {which} is not ready; try again in some seconds.")
        most = self.most
        # Who was let in and has lost its slot to a Triton that failed gets one before anybody new does.
        pools = self._models.pools.values()
        room = self._bounded(sum(each.room for each in pools), self._models.default.room)
        free = max(0, min(most - self._taken, room - self._taken, pool.free))
        if not free:
            raise Refused("full", f"All {most} sessions are taken; try again when one has ended.")
        if number > free:
            raise Refused(
                "full",
                f"{number} channels need as many sessions, of which {free} of {most} are free; "
                "try again when others have ended, or with fewer channels.",
            )
        self._count(number, 1)
        reservations = [pool.reserve(options) for _ in range(number)]
        return [reservation for reservation in reservations if reservation is not None]

    def give_back(self, reservations: Iterable[Reservation]) -> None:
        """The streams of a session have ended."""
        number = 0
        for reservation in reservations:
            reservation.release()
            number += 1
        self._count(-number, -1)

    def _bounded(self, slots: int, of_default: int) -> int:
        """How many of so many slots may be held, so many of which are the default model's."""
        carried = slots if self._share is None else max(min(1, of_default), round(self._share * of_default))
        return min(slots, carried) if self._limit is None else min(slots, carried, self._limit)

    def _count(self, slots: int, sessions: int) -> None:
        self._taken += slots
        self._sessions += sessions
        self._metrics.sequences.set(self._taken)
        self._metrics.sessions.set(self._sessions)
