"""This process as one of several workers: what it got from the process that started it, and what it shares."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from streamer.bridge.access.quotas import Quotas
from streamer.bridge.telemetry.metrics import Metrics
from streamer.bridge.workers.joined_metrics import joined
from streamer.bridge.workers.neighbours import NeighbourAway, Neighbours, whole
from streamer.bridge.workers.share import Share

# How often the others learn what audio came here. What a worker has not told is lost if it is killed.
SETTLE_S: Final = 1.0
EXPOSITION: Final = "exposition"


@dataclass(frozen=True)
class Worker:
    """One worker. All of them accept connections at the same sockets."""

    neighbours: Neighbours
    share: Share
    sockets: Sequence[socket.socket]
    wyoming_sockets: Sequence[socket.socket] = ()
    starts: int = 1  # how often a process with this number was started

    async def exposition(self, metrics: Metrics, *, by_worker: bool) -> bytes:
        """Return the metrics of all workers that answer."""
        others = self.neighbours.others
        answers = await asyncio.gather(*(self._exposition_of(number) for number in others))
        expositions = {number: answer for number, answer in zip(others, answers, strict=True) if answer}
        expositions[self.neighbours.number] = metrics.exposition()
        # Reading the texts takes some milliseconds, in which sessions go on.
        return await asyncio.to_thread(joined, expositions, self.neighbours.workers, by_worker=by_worker)

    async def settle(self, metrics: Metrics, quotas: Quotas) -> None:
        """Share what was used, again and again until cancelled."""
        try:
            while True:
                await asyncio.sleep(SETTLE_S)
                self.share.settle(metrics.usage, quotas.audio_of_hour())
                if quotas.limits.audio_per_key_s is not None:
                    quotas.take_audio_of_others(self.share.audio_of_others())
        finally:
            self.share.settle(metrics.usage, quotas.audio_of_hour())

    async def _exposition_of(self, number: int) -> bytes:
        try:
            return await whole(await self.neighbours.ask(number, EXPOSITION, {}))
        except NeighbourAway:
            return b""
