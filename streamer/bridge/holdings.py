"""What one session holds: slots of the recogniser, all or none, and a part of its caller's share."""

from __future__ import annotations

from streamer.bridge.access.quotas import Admittance, Denied
from streamer.bridge.upstreams.admission import Admission
from streamer.bridge.upstreams.reservation import Reservation
from streamer.wire.options import Start


class Holdings:
    """Taken when the session is let in, given back once."""

    def __init__(self, admission: Admission, visit: Admittance | None) -> None:
        """`visit`: what its caller may have, if anybody counts that."""
        self._admission = admission
        self._visit = visit
        self.reservations: list[Reservation] = []  # one a stream

    def take(self, start: Start, streams: int) -> None:
        """The slots of all streams; Refused if there are too few. Half a session would wait for the other."""
        options = start.model_options()
        if start.hotwords and self._visit is not None:
            options["caller"] = self._visit.pseudonym
        self.reservations = self._admission.take(options, streams, start.model)

    def prepare(self, start: Start, streams: int) -> Denied | None:
        """What these streams need before they can begin counts; what to say if it is too much for now."""
        if self._visit is None:
            return None
        return self._visit.prepare([hotword.text for hotword in start.hotwords], streams)

    def charge(self, seconds: float) -> Denied | None:
        """Audio that came; what to say if it was the last that the caller may send for now."""
        return None if self._visit is None else self._visit.charge(seconds)

    def give_back(self) -> None:
        """Nothing of it is needed any more, however often that is said."""
        reservations, self.reservations = self.reservations, []
        if reservations:
            self._admission.give_back(reservations)
        visit, self._visit = self._visit, None
        if visit is not None:
            visit.leave()
