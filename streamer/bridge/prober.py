"""Readiness that means something: a short real sequence through the model, again and again."""

from __future__ import annotations

import asyncio
import logging
import time

from streamer.bridge.backlog import BYTES_PER_S
from streamer.bridge.metrics import Metrics
from streamer.triton.link import Link, LinkError

log = logging.getLogger("streamer.bridge")

EVERY_S = 5.0
ANSWER_LIMIT_S = 10.0
# So long a success is believed: one overdue answer must not turn a busy service away from its users.
FRESH_S = EVERY_S + ANSWER_LIMIT_S
_AUDIO = bytes(320 * BYTES_PER_S // 1000)


class Prober:
    """Sends a sequence of one step every few seconds and remembers when it last came back."""

    def __init__(self, link: Link, metrics: Metrics) -> None:
        self._link = link
        self._metrics = metrics
        self._succeeded_at = float("-inf")
        self.failure = ""  # of the last probe

    @property
    def ready(self) -> bool:
        """Whether a sequence went through a moment ago."""
        return time.monotonic() - self._succeeded_at < FRESH_S

    async def probe(self) -> bool:
        """Send one sequence through the model; False if it did not come back."""
        sequence = self._link.sequence()
        try:
            await sequence.send(_AUDIO, timeout=ANSWER_LIMIT_S)
            await sequence.send(end=True, timeout=ANSWER_LIMIT_S)
        except LinkError as error:
            if str(error) != self.failure:
                log.warning("probe failed: %s", error)
            self.failure = str(error)
        else:
            self.failure = ""
            self._succeeded_at = time.monotonic()
        finally:
            sequence.discard()
        self._metrics.ready.set(self.ready)
        return not self.failure

    async def run(self) -> None:
        """Probe for as long as the link lives."""
        while self._link.alive:
            await asyncio.sleep(EVERY_S)
            await self.probe()
        log.error("the link to the recogniser is lost: %s", self.failure)
