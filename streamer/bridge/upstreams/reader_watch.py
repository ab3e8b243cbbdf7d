"""Watches the readers of Tritons, and loads one again whose process has died or hangs.

Recognisers send their segments to the reader of the same Triton. If it fails they go on without it, so a session never
waits for a repair, and Triton 2.51 never repairs a process by itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final

import grpc  # type: ignore[import-untyped]
from tritonclient.grpc import service_pb2, service_pb2_grpc  # type: ignore[import-untyped]

from streamer.base.limits import READER
from streamer.bridge.states import States
from streamer.bridge.telemetry.logs import Log
from streamer.bridge.triton import TritonError
from streamer.bridge.triton.link import Dialer
from streamer.bridge.upstreams.supervision import Supervisor, Tritons

log = Log("streamer.bridge")

EVERY_S: Final = 2.0
ABSENT_EVERY_S: Final = 30.0  # an operator may load one later
# A reader may have several segments before the question, each of which takes up to a second on a busy machine.
ANSWER_LIMIT_S: Final = 15.0
_SAMPLES: Final = 160  # too short for a word, so the answer takes no time
_GONE: Final = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


class ReaderState(Enum):
    """The state of the reader of one Triton."""

    UNKNOWN = "unknown"  # it was not asked yet, or its Triton is away
    ABSENT = "absent"  # the Triton has none, or one without weights
    READY = "ready"
    FAILED = "failed"  # its process has died or hangs


TRANSITIONS: Mapping[ReaderState, tuple[ReaderState, ...]] = {
    state: tuple(other for other in ReaderState if other is not state) for state in ReaderState
}


class ReaderWatch:
    """Asks each reader every few seconds."""

    def __init__(self, tritons: Tritons) -> None:
        self._tritons = tritons
        self._states: dict[Supervisor, States[ReaderState]] = {}
        self._due_at: dict[Supervisor, float] = {}
        self._questions: dict[Supervisor, _Questions] = {}

    @property
    def ready(self) -> int:
        """The number of Tritons whose reader answered the last question."""
        return sum(states.now is ReaderState.READY for states in self._states.values())

    async def follow(self) -> None:
        """Watch until cancelled."""
        try:
            while True:
                present = self._tritons.present
                await self._forget_all_but(present)
                self._states = {each: self._states.get(each) or _states(each) for each in present}
                self._due_at = {each: self._due_at.get(each, 0.0) for each in present}
                due = [each for each, due_at in self._due_at.items() if time.monotonic() >= due_at]
                await asyncio.gather(*(self._look(supervisor, self._states[supervisor]) for supervisor in due))
                await asyncio.sleep(EVERY_S)
        finally:
            await self._forget_all_but(())

    async def _forget_all_but(self, present: Iterable[Supervisor]) -> None:
        """Close the channels to Tritons that have gone."""
        for supervisor in self._questions.keys() - set(present):
            await self._questions.pop(supervisor).close()

    async def _look(self, supervisor: Supervisor, states: States[ReaderState]) -> None:
        address = supervisor.reader_address()
        state, reason = ReaderState.ABSENT, ""
        if address is not None:
            questions = self._questions.setdefault(supervisor, _Questions(supervisor.dial))
            state, reason = await questions.ask(address)
        if state is ReaderState.ABSENT:
            self._due_at[supervisor] = time.monotonic() + ABSENT_EVERY_S
        if state is not states.now:
            states.become(state)
            if state is ReaderState.READY:
                log.info("reader ready", triton=supervisor.name)
            elif reason:
                log.warning("reader not ready", triton=supervisor.name, detail=reason)
        if state is ReaderState.FAILED:
            try:
                await supervisor.reload(READER)
            except TritonError as error:
                log.warning("reader not reloaded", triton=supervisor.name, detail=str(error))


def _states(supervisor: Supervisor) -> States[ReaderState]:
    return States("reader", ReaderState.UNKNOWN, TRANSITIONS, triton=supervisor.name)


class _Questions:
    """Asks the reader of one Triton, over a channel that is kept while it works."""

    def __init__(self, dial: Dialer) -> None:
        self._dial = dial
        self._address = ""
        self._channel: Any = None

    async def ask(self, address: str) -> tuple[ReaderState, str]:
        """Send the reader at this address a moment of silence. Return its state, and why it is not ready."""
        if address != self._address:
            await self.close()
        if self._channel is None:
            self._address, self._channel = address, self._dial.channel(address)
        request = service_pb2.ModelInferRequest(model_name=READER)
        request.inputs.add(name="AUDIO", datatype="INT16", shape=[1, _SAMPLES])
        request.raw_input_contents.append(bytes(2 * _SAMPLES))
        try:
            await service_pb2_grpc.GRPCInferenceServiceStub(self._channel).ModelInfer(request, timeout=ANSWER_LIMIT_S)
        except grpc.aio.AioRpcError as error:
            reason = str(error.details())
            if error.code() in _GONE:
                # A channel that could not connect waits longer and longer. A new one tries at once.
                await self.close()
                return ReaderState.UNKNOWN, ""
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED or "is not healthy" in reason:
                return ReaderState.FAILED, reason
            return ReaderState.ABSENT, ""  # an unknown model, or one that says that it has no weights
        return ReaderState.READY, ""

    async def close(self) -> None:
        """Close the channel."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()
