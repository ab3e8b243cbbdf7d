"""Utterances through the service, several sessions at once: the way that users take."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

import numpy as np

from streamer.audio.audio_file import Int16Samples
from streamer.audio.recording_check import AudioError
from streamer.client import SessionError, transcribe
from streamer.evaluate.emission import Arrival
from streamer.evaluate.hearing import Hearing, Progress, Run, heard
from streamer.evaluate.manifest import Utterance
from streamer.evaluate.processor import cpu_below

RECOGNISER: Final = "recogniser"
OURSELVES: Final = "bridge and client"

# With these no other utterance can succeed either.
_HOPELESS: Final = ("away", "bad_address", "no_service", "refused")
# Others use the service too, or we asked for more sessions than it has: one of them ends before long.
_BUSY: Final = ("full", "not_ready")
_BUSY_PAUSE_S: Final = 0.5
_BUSY_LIMIT_S: Final = 60.0
_NO_SOUND: Final[Int16Samples] = np.empty(0, dtype=np.int16)


class Sessions:
    """One evaluation through a service."""

    def __init__(
        self, url: str, options: Mapping[str, Any], *, at_once: int, paced: bool = False, ours: bool = False
    ) -> None:
        """`ours`: the service is in this process and its Triton below it, so that their CPU time can be told."""
        self._url = url
        self._options = {**options, "partials": True, "live": paced}
        self._at_once = at_once
        self._paced = paced
        self._ours = ours
        self._hopeless: SessionError | None = None
        self._hearings: dict[int, Hearing] = {}

    async def hear(self, utterances: Sequence[Utterance], progress: Progress) -> Run:
        """All of them; SessionError if there is no service at all."""
        waiting = iter(enumerate(utterances))
        began, used = time.monotonic(), self._cpu()
        workers = [asyncio.create_task(self._work(waiting, progress)) for _ in range(self._at_once)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        wall_s = time.monotonic() - began
        cpu = {name: seconds - used[name] for name, seconds in self._cpu().items() if name in used}
        if self._hopeless and all(hearing.failure for hearing in self._hearings.values()):
            raise self._hopeless
        return Run([self._hearings[number] for number in range(len(utterances))], wall_s, cpu)

    async def _work(self, waiting: Iterator[tuple[int, Utterance]], progress: Progress) -> None:
        for number, utterance in waiting:
            hearing = await self._hear(utterance)
            self._hearings[number] = hearing
            progress(utterance, hearing.seconds)

    async def _hear(self, utterance: Utterance) -> Hearing:
        if self._hopeless:
            return heard(utterance, _NO_SOUND, [], f"not tried any more: {self._hopeless}")
        try:
            samples = await asyncio.get_running_loop().run_in_executor(None, utterance.samples)
        except (AudioError, OSError) as error:
            return heard(utterance, _NO_SOUND, [], str(error))
        deadline = time.monotonic() + _BUSY_LIMIT_S
        while True:
            arrivals: list[Arrival] = []
            try:
                await self._listen(samples, arrivals)
                return heard(utterance, samples, arrivals)
            except SessionError as error:
                if error.code in _BUSY and not arrivals and time.monotonic() < deadline:
                    await asyncio.sleep(_BUSY_PAUSE_S)
                    continue
                if error.code in _HOPELESS:
                    self._hopeless = error
                return heard(utterance, samples, arrivals, str(error))

    async def _listen(self, samples: Int16Samples, arrivals: list[Arrival]) -> None:
        events = transcribe([samples], self._url, options=self._options, paced=self._paced)
        began = time.monotonic()
        async with aclosing(events):
            async for event in events:
                if event["type"] == "ready":
                    began = time.monotonic()  # the first sound is sent now
                arrivals.append(Arrival(1000 * (time.monotonic() - began), event))

    def _cpu(self) -> dict[str, float]:
        below = cpu_below(os.getpid()) if self._ours else None
        return {} if below is None else {RECOGNISER: below, OURSELVES: time.process_time()}
