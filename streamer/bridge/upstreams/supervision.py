"""What can be done about a Triton: one of our own is replaced when it does not answer, a remote one is told to load its
model again. Either can be given another model while it runs, if its model control allows that.

Several upstreams may have the same supervisor: one for each model.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Protocol

import grpc  # type: ignore[import-untyped]
from google.protobuf.json_format import MessageToJson  # type: ignore[import-untyped]
from tritonclient.grpc import service_pb2, service_pb2_grpc  # type: ignore[import-untyped]

from streamer.bridge.telemetry.logs import Log
from streamer.triton import TritonError
from streamer.triton.dialer import PLAIN, Dialer
from streamer.triton.server import TritonServer

log = Log("streamer.bridge")

ASK_LIMIT_S = 5.0
LOAD_LIMIT_S = 60.0
# A model that was asked nothing for so long is used by nobody: bridges probe theirs every five seconds, and Triton
# forgets a sequence after fifteen.
UNUSED_S = 20.0


class Supervisor(Protocol):
    """One Triton and who looks after it."""

    @property
    def name(self) -> str:
        """What it is called in logs."""

    @property
    def loads(self) -> bool:
        """Whether it is given the models that it does not have, from the beginning."""

    @property
    def dial(self) -> Dialer:
        """How it is reached."""

    async def address(self) -> str:
        """Where it listens, host:port, once it does; TritonError if it cannot be started."""

    async def load(self, model: str) -> bool:
        """Give it this model too; True if it did not have it. TritonError if it cannot be had."""

    async def unused(self, model: str, limit_s: float) -> bool:
        """Waits until nobody at all uses the model there; False if that is not so after the limit, or is not told."""

    async def unload(self, model: str) -> None:
        """Take out a model that nobody uses; TritonError if it stays."""

    async def mend(self, model: str, address: str, *, broken: bool) -> None:
        """The one that listened at this address failed: do what can be done.

        `broken`: it said itself that the model's process has died.
        """

    async def end(self) -> None:
        """It is not needed any more."""


class RemoteTriton:
    """A Triton of somebody else."""

    loads = False  # but after a roll

    def __init__(self, name: str, address: str, dial: Dialer = PLAIN) -> None:
        """`name` is what it was called by whoever runs the service: its address, or one that a name stands for."""
        self.name = name
        self._address = address
        self.dial = dial

    async def address(self) -> str:
        """Where it is said to be."""
        return self._address

    async def load(self, model: str) -> bool:
        """If it has the model, that is enough: not every Triton loads one on request."""
        async with self._asked(f"does not have {model} and did not load it") as stub:
            answer = await stub.ModelReady(service_pb2.ModelReadyRequest(name=model), timeout=ASK_LIMIT_S)
            if answer.ready:
                return False
            await stub.RepositoryModelLoad(
                service_pb2.RepositoryModelLoadRequest(model_name=model), timeout=LOAD_LIMIT_S
            )
        log.info("model loaded", triton=self._address, model=model)
        return True

    async def unused(self, model: str, limit_s: float) -> bool:
        """Whether its statistics stand still: other bridges may use it, and they do not tell us."""
        deadline = time.monotonic() + limit_s
        before: Any = None
        while time.monotonic() < deadline:
            with suppress(TritonError):
                now = await self._statistics(model)
                if before is not None and now == before:
                    return True
                before = now
            await asyncio.sleep(UNUSED_S)
        return False

    async def unload(self, model: str) -> None:
        """Only where its model control allows it."""
        async with self._asked(f"keeps {model}") as stub:
            request = service_pb2.RepositoryModelUnloadRequest(model_name=model)
            await stub.RepositoryModelUnload(request, timeout=LOAD_LIMIT_S)
        log.info("model unloaded", triton=self._address, model=model)

    async def mend(self, model: str, address: str, *, broken: bool) -> None:
        """Reload a model whose process has died. One that is silent or gone is left to whoever runs it."""
        if not broken:
            return
        try:
            async with self._asked(f"did not reload {model}") as stub:
                await _reload(stub, model)
        except TritonError as error:  # among others: its model control does not allow it
            log.warning("model not reloaded", triton=self._address, detail=str(error))
        else:
            log.info("model reloaded", triton=self._address, model=model)

    async def end(self) -> None:
        """Nothing: it is not ours."""

    async def _statistics(self, model: str) -> list[tuple[int, int, int]]:
        async with self._asked("does not tell its statistics") as stub:
            answer = await stub.ModelStatistics(service_pb2.ModelStatisticsRequest(name=model), timeout=ASK_LIMIT_S)
        return [(one.inference_count, one.execution_count, one.last_inference) for one in answer.model_stats]

    def _asked(self, failure: str) -> AbstractAsyncContextManager[Any]:
        return _asked(self._address, self.dial, failure)


class EmbeddedTriton:
    """A Triton that lives and ends with the service."""

    name = "own"
    loads = True
    dial = PLAIN  # over loopback

    def __init__(self, server: TritonServer) -> None:
        self._server = server
        self._over = False
        self._lock = threading.Lock()  # no start may slip in after the end

    async def address(self) -> str:
        """Starts it unless it runs, and waits until it is ready."""
        await asyncio.to_thread(self._start)
        await asyncio.to_thread(self._server.wait_ready)
        return self._server.grpc_address

    async def load(self, model: str) -> bool:
        """It does what it is told, and loads the model again should it be started again."""
        if model in self._server.models:
            return False
        await asyncio.to_thread(self._server.load, model)
        log.info("model loaded", triton="own", model=model)
        return True

    async def unused(self, model: str, limit_s: float) -> bool:
        """Nobody else knows where it listens."""
        return True

    async def unload(self, model: str) -> None:
        """At once, and for good."""
        await asyncio.to_thread(self._server.unload, model)
        log.info("model unloaded", triton="own", model=model)

    async def mend(self, model: str, address: str, *, broken: bool) -> None:
        """Kill it: the next address() is that of another. Beside other models, one that is broken is only reloaded."""
        if broken and len(self._server.models) > 1 and address == self._running_address():
            try:
                async with _asked(address, self.dial, f"did not reload {model}") as stub:
                    await _reload(stub, model)
            except TritonError as error:
                log.warning("model not reloaded", triton=self.name, detail=str(error))
            else:
                log.info("model reloaded", triton=self.name, model=model)
                return
        await asyncio.to_thread(self._kill, address)

    async def cut_off(self) -> None:
        """Kill it, and for good: nobody has time for its end."""
        self._over = True
        await asyncio.to_thread(self._kill)

    async def end(self) -> None:
        """Stop it."""
        self._over = True
        await asyncio.to_thread(self._stop)

    def _start(self) -> None:
        with self._lock:
            if self._over:
                raise TritonError("Triton was stopped before it was ready")
            if not self._server.running:
                self._server.kill()  # what is left of one that has ended
            self._server.start()

    def _running_address(self) -> str:
        try:
            return self._server.grpc_address
        except TritonError:
            return ""

    def _kill(self, address: str | None = None) -> None:
        """With an address only if it still is the one that listens there: each start takes other ports."""
        with self._lock, suppress(TritonError):
            if address in (None, self._running_address()) or not self._server.running:
                self._server.kill()

    def _stop(self) -> None:
        with self._lock:
            self._server.stop()


@asynccontextmanager
async def _asked(address: str, dial: Dialer, failure: str) -> AsyncIterator[Any]:
    """A stub for requests to the Triton there; TritonError if it refuses or does not answer."""
    async with dial.channel(address) as channel:
        try:
            yield service_pb2_grpc.GRPCInferenceServiceStub(channel)
        except grpc.aio.AioRpcError as error:
            raise TritonError(f"the Triton at {address} {failure}: {error.details()}") from error


async def _reload(stub: Any, model: str) -> None:
    """Have a model loaded again although it has not changed."""
    config = (await stub.ModelConfig(service_pb2.ModelConfigRequest(name=model), timeout=ASK_LIMIT_S)).config
    # A model that has not changed is not loaded again, so it is given a parameter that nobody reads. To unload it first
    # would leave a moment in which a request for it ends the whole server.
    config.parameters["reloaded"].string_value = secrets.token_hex(8)
    request = service_pb2.RepositoryModelLoadRequest(model_name=model)
    request.parameters["config"].string_param = MessageToJson(config, preserving_proto_field_name=True)
    await stub.RepositoryModelLoad(request, timeout=LOAD_LIMIT_S)
