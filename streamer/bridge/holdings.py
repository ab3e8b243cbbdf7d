"""What one session holds: slots of the recogniser for all of its streams, and a part of its caller's quota."""

from __future__ import annotations

from streamer.bridge.access.quotas import Admittance, Denied
from streamer.bridge.upstreams.admission import Admission
from streamer.bridge.upstreams.reservation import Reservation
from streamer.wire.options import Start


class Holdings:
    """The slots and the quota of one session, from its admission until it gives them back."""

    def __init__(self, admission: Admission, admittance: Admittance | None) -> None:
        """`admittance`: counts the session for its caller's quotas, or None if nothing is counted."""
        self._admission = admission
        self._admittance = admittance
        self.reservations: list[Reservation] = []  # one for each stream
        self._model = ""  # its public name

    def take(self, start: Start, streams: int) -> None:
        """Take the slots of all streams. Raise Refused if there are too few, and Loading if the model is not loaded."""
        options = start.model_options()
        if start.hotwords and self._admittance is not None:
            options["caller"] = self._admittance.pseudonym
        self.reservations = self._admission.take(options, streams, start.model, self)
        self._model = start.model

    def prepare(self, start: Start, streams: int) -> Denied | None:
        """Charge the preparation of these streams to the caller. Return the refusal if it is too much for now."""
        if self._admittance is None:
            return None
        return self._admittance.prepare([hotword.text for hotword in start.hotwords], streams)

    def charge(self, seconds: float) -> Denied | None:
        """Charge received audio to the caller. Return the refusal if the caller may send no more for now."""
        return None if self._admittance is None else self._admittance.charge(seconds)

    def give_back(self) -> None:
        """Give everything back. This may be called again."""
        reservations, self.reservations = self.reservations, []
        self._admission.forget(self)
        if reservations:
            self._admission.give_back(reservations, self._model)
        admittance, self._admittance = self._admittance, None
        if admittance is not None:
            admittance.leave()
