"""Recognises a manifest through a service or the bare engine, and evaluates it: the library of `streamer evaluate`.

The service needs asyncio, and the engine needs torch.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from streamer.audio.audio_file import Int16Samples
from streamer.audio.recordings import AudioError
from streamer.base.codes import ClientCode, ErrorCode
from streamer.base.machine import descendants, find_process
from streamer.base.package import install_command
from streamer.client import Audio, Session, SessionError, connect
from streamer.client.sending import describe_audio, send_all
from streamer.commands.accuracy.manifest import Utterance
from streamer.commands.accuracy.report import Evaluation
from streamer.commands.accuracy.results import (
    EndDelay,
    EvaluationRun,
    FinalRequest,
    ProgressCallback,
    TimedEvent,
    Unavailable,
    UtteranceResult,
    utterance_result,
)
from streamer.commands.accuracy.word_errors import score_utterance
from streamer.commands.accuracy.word_figures import ReferenceAlignments


@dataclass(frozen=True)
class Setup:
    """How utterances are recognised: the options of a session, how many at once, through a service or the engine."""

    options: Mapping[str, object]
    sessions: int = 8
    engine: bool = False
    paced: bool = False  # only for a service: send audio as fast as it was spoken
    bundle: Path | None = None  # the folder of another model than the shipped one, not for a service elsewhere
    precision: str | None = None  # only for the engine
    reader: Path | None = None  # the folder of a reader; only for the engine

    @property
    def through(self) -> str:
        """The thing that recognises the utterances, in the words of a report."""
        return "the engine" if self.engine else "the service"


def recognise_with_engine(utterances: Sequence[Utterance], setup: Setup, progress: ProgressCallback) -> EvaluationRun:
    """Recognise all utterances in this process. Unavailable if there is no recogniser."""
    try:
        # Imported only here, because recognising through a service needs no torch.
        from streamer.commands.accuracy.engine_runner import EngineRunner
    except ImportError as error:
        raise Unavailable(f"--engine needs {error.name}: {install_command('engine')}.") from error
    runner = EngineRunner(
        setup.options, at_once=setup.sessions, bundle=setup.bundle, precision=setup.precision, reader=setup.reader
    )
    return runner.run(utterances, progress)


async def recognise_with_service(
    utterances: Sequence[Utterance], setup: Setup, url: str, progress: ProgressCallback, *, ours: bool = False
) -> EvaluationRun:
    """Recognise all utterances with this service; `ours`: it runs in this process. SessionError if there is none."""
    runner = ServiceRunner(url, setup.options, at_once=setup.sessions, paced=setup.paced, ours=ours)
    return await runner.run(utterances, progress)


def evaluation(
    manifest: str,
    setup: Setup,
    run: EvaluationRun,
    alignments: ReferenceAlignments | None = None,
    half: str | None = None,
) -> Evaluation:
    """Return the content of a report about a manifest, or half of it, that was recognised with this setup."""
    scored = [score_utterance(result.utterance, result.words, result.failure) for result in run.results]
    options = {**setup.options, "sessions": setup.sessions, "paced": setup.paced}
    if half:
        options["half"] = half
    return Evaluation(manifest, setup.through, options, run, scored, alignments, setup.paced)


# Recognises utterances through a service, several sessions at once, as its users do.

RECOGNISER: Final = "recogniser"
OURSELVES: Final = "bridge and client"

# After these errors no other utterance can succeed either.
_HOPELESS: Final = (ClientCode.AWAY, ClientCode.BAD_ADDRESS, ClientCode.NO_SERVICE, ClientCode.REFUSED)
# The service has no free session now, but a running one will end before long.
_BUSY: Final = (ErrorCode.FULL, ErrorCode.NOT_READY)
_BUSY_PAUSE_S: Final = 0.5
_BUSY_LIMIT_S: Final = 60.0
_NO_AUDIO: Final[Int16Samples] = np.empty(0, dtype=np.int16)


class _Speaker:
    """Sends the audio of an utterance, and requests its last final at `request_time`."""

    def __init__(self, session: Session, request: FinalRequest) -> None:
        self.request_time: float | None = None
        self.flushed = asyncio.Event()  # the reader of the events sets it
        self._session = session
        self._request = request

    async def send(self, audio: Audio) -> None:
        await self._session.send(audio)

    async def keepalive(self) -> None:
        await self._session.keepalive()

    async def stop(self) -> None:
        """Request the last final, and end the session."""
        self.request_time = time.monotonic()
        if self._request is FinalRequest.FLUSH:
            await self._session.flush()
            await self.flushed.wait()  # if the session ends before, this is cancelled
        await self._session.stop()


class ServiceRunner:
    """Runs one evaluation through a service."""

    def __init__(
        self, url: str, options: Mapping[str, object], *, at_once: int, paced: bool = False, ours: bool = False
    ) -> None:
        """`ours`: the service runs in this process and its Triton below it, so their CPU time can be measured."""
        self._url = url
        self._options = {**options, "partials": options.get("partials") or True, "live": paced}
        self._at_once = at_once
        self._paced = paced
        self._ours = ours
        self._hopeless: SessionError | None = None
        self._results: dict[int, UtteranceResult] = {}

    async def run(self, utterances: Sequence[Utterance], progress: ProgressCallback) -> EvaluationRun:
        """Recognise all utterances. SessionError if there is no service at all."""
        waiting = iter(enumerate(utterances))
        began, cpu_before = time.monotonic(), self._cpu()
        workers = [asyncio.create_task(self._work(waiting, progress)) for _ in range(self._at_once)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        wall_s = time.monotonic() - began
        cpu = {name: seconds - cpu_before[name] for name, seconds in self._cpu().items() if name in cpu_before}
        if self._hopeless and all(result.failure for result in self._results.values()):
            raise self._hopeless
        return EvaluationRun([self._results[number] for number in range(len(utterances))], wall_s, cpu)

    async def _work(self, waiting: Iterator[tuple[int, Utterance]], progress: ProgressCallback) -> None:
        for number, utterance in waiting:
            result = await self._recognise(utterance, number)
            self._results[number] = result
            progress(utterance, result.seconds)

    async def _recognise(self, utterance: Utterance, number: int) -> UtteranceResult:
        if self._hopeless:
            message = f"skipped, because an earlier utterance failed: {self._hopeless}"
            return utterance_result(utterance, _NO_AUDIO, [], message)
        try:
            samples = await asyncio.get_running_loop().run_in_executor(None, utterance.samples)
        except (AudioError, OSError) as error:
            return utterance_result(utterance, _NO_AUDIO, [], str(error))
        # Sessions end in both ways in turn, so that one run measures both.
        request = FinalRequest.STOP if number % 2 or not self._paced else FinalRequest.FLUSH
        deadline = time.monotonic() + _BUSY_LIMIT_S
        while True:
            events: list[TimedEvent] = []
            try:
                end_delay = await self._collect(samples, request, events)
                return utterance_result(utterance, samples, events, end_delay=end_delay)
            except SessionError as error:
                if error.code in _BUSY and not events and time.monotonic() < deadline:
                    await asyncio.sleep(_BUSY_PAUSE_S)
                    continue
                if error.code in _HOPELESS:
                    self._hopeless = error
                return utterance_result(utterance, samples, events, str(error))

    async def _collect(self, samples: Int16Samples, request: FinalRequest, events: list[TimedEvent]) -> EndDelay | None:
        """Recognise the samples. Return the delay of the last final, if the samples were paced."""
        async with connect(self._url, self._options) as session:
            began = time.monotonic()  # the first audio is sent now
            events.append(TimedEvent(0.0, session.ready))
            speaker = _Speaker(session, request)
            sending = asyncio.create_task(send_all(speaker, [samples], describe_audio(self._options), self._paced))
            waited_s: float | None = None
            try:
                async for event in session:
                    now = time.monotonic()
                    events.append(TimedEvent(1000 * (now - began), event))
                    if event["type"] == "final" and speaker.request_time is not None:
                        waited_s = now - speaker.request_time
                    elif event["type"] == "flushed":
                        speaker.flushed.set()
                await sending
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
        return EndDelay(request, 1000 * waited_s) if self._paced and waited_s is not None else None

    def _cpu(self) -> dict[str, float]:
        below = descendants_cpu_s(os.getpid()) if self._ours else None
        return {} if below is None else {RECOGNISER: below, OURSELVES: time.process_time()}


def descendants_cpu_s(pid: int) -> float | None:
    """Return the CPU seconds of the living descendants of a process, without itself. None if it does not exist."""
    if find_process(pid) is None:
        return None
    return sum(each.cpu_s + each.children_cpu_s for each in descendants(pid))
