"""The places at the recogniser that one session holds: one for each stream, all of them or none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamer.bridge.session.stream import Request
from streamer.bridge.upstreams.admission import Admission
from streamer.bridge.upstreams.upstream import Reservation


class SessionSlots:
    """Taken once; a stream that begins another sequence gets another place for it."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._options: Mapping[str, Any] = {}
        self._leases: list[Reservation] = []
        self._begun: set[int] = set()  # the streams that have used theirs

    @property
    def held(self) -> bool:
        """Whether there are any."""
        return bool(self._leases)

    def take(self, options: Mapping[str, Any], number: int) -> None:
        """So many places for sequences with these options; Refused if there are too few."""
        self._options = options
        self._leases = self._admission.take(options, number)

    async def send(self, stream: int, request: Request) -> list[dict[str, Any]]:
        """The events of this request of a stream; LinkError."""
        if request.start:
            # The first sequence of a stream has its place already, each further one gets another.
            if stream in self._begun:
                options = {**self._options, **request.options}
                self._leases[stream] = self._admission.replace(self._leases[stream], options)
            self._begun.add(stream)
        return await self._leases[stream].send(request.pcm, flush=request.flush, end=request.end)

    @property
    def model(self) -> str:
        """Which model is asked for the first stream."""
        return self._leases[0].upstream.model

    def leaving(self, stream: int) -> bool:
        """Whether this stream has to go on at another place as soon as it can."""
        return self._admission.has_better(self._leases[stream])

    def give_back(self) -> None:
        """The session has ended; once is enough."""
        leases, self._leases = self._leases, []
        if leases:
            self._admission.give_back(leases)
