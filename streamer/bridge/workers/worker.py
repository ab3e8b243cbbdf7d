"""This process as one of several workers: what it got from the process that started it, and what it shares."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from streamer.bridge.telemetry.metrics import Metrics
from streamer.bridge.workers.joined_metrics import Words, joined
from streamer.bridge.workers.neighbours import NeighbourAway, Neighbours, whole
from streamer.bridge.workers.share import Share

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
        """Return the metrics of all workers that answer, and in the sums those of workers that have ended."""
        others = self.neighbours.others
        answers = await asyncio.gather(*(self._words_of(number) for number in others))
        words = {number: answer for number, answer in zip(others, answers, strict=True) if answer is not None}
        words[self.neighbours.number] = self.words(metrics)
        past = self.share.keep_words(words.values())
        # Reading the texts takes a hundredth of a second or more for each worker, in which sessions go on.
        ended = set() if past is None else past.ended
        expositions = {number: each.exposition for number, each in words.items() if each.identity not in ended}
        return await asyncio.to_thread(joined, expositions, self.neighbours.workers, past, by_worker=by_worker)

    def words(self, metrics: Metrics) -> Words:
        """Return the metrics of this worker."""
        return Words(self.share.identity, time.monotonic(), metrics.exposition())

    async def _words_of(self, number: int) -> Words | None:
        try:
            reply = await self.neighbours.ask(number, EXPOSITION, {})
            exposition = await whole(reply)
        except NeighbourAway:
            return None
        return Words(int(str(reply.head["identity"])), float(str(reply.head["at"])), exposition)
