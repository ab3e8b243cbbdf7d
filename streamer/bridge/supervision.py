"""What can be done about a Triton that does not answer: one of our own is replaced, another's model is reloaded."""

from __future__ import annotations

import asyncio
import secrets
import threading
from contextlib import suppress
from typing import Protocol

import grpc  # type: ignore[import-untyped]
from google.protobuf.json_format import MessageToJson  # type: ignore[import-untyped]
from tritonclient.grpc import service_pb2, service_pb2_grpc  # type: ignore[import-untyped]

from streamer.bridge.logs import Log
from streamer.triton import TritonError
from streamer.triton.dial import PLAIN, Dial
from streamer.triton.link import MODEL
from streamer.triton.server import TritonServer

log = Log("streamer.bridge")

CONFIG_LIMIT_S = 5.0
RELOAD_LIMIT_S = 60.0


class Supervision(Protocol):
    """One Triton and who looks after it."""

    @property
    def dial(self) -> Dial:
        """How it is reached."""

    async def address(self) -> str:
        """Where it listens, host:port, once it does; TritonError if it cannot be started."""

    async def mend(self, *, broken: bool) -> None:
        """It failed: do what can be done. `broken`: it said itself that its model's process has died."""

    async def end(self) -> None:
        """It is not needed any more."""


class Foreign:
    """A Triton of somebody else."""

    def __init__(self, address: str, dial: Dial = PLAIN) -> None:
        self._address = address
        self.dial = dial

    async def address(self) -> str:
        """Where it is said to be."""
        return self._address

    async def mend(self, *, broken: bool) -> None:
        """Reload a model whose process has died. One that is silent or gone is left to whoever runs it."""
        if not broken:
            return
        async with self.dial.channel(self._address) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            try:
                question = service_pb2.ModelConfigRequest(name=MODEL)
                config = (await stub.ModelConfig(question, timeout=CONFIG_LIMIT_S)).config
                # A model that has not changed is not loaded again, so it is given a parameter that nobody reads. To
                # unload it first would leave a moment in which a request for it ends the whole server.
                config.parameters["reloaded"].string_value = secrets.token_hex(8)
                request = service_pb2.RepositoryModelLoadRequest(model_name=MODEL)
                text = MessageToJson(config, preserving_proto_field_name=True)
                request.parameters["config"].string_param = text
                await stub.RepositoryModelLoad(request, timeout=RELOAD_LIMIT_S)
                log.info("model reloaded", triton=self._address)
            except grpc.aio.AioRpcError as error:  # among others: its model control does not allow it
                log.warning("model not reloaded", triton=self._address, detail=error.details())

    async def end(self) -> None:
        """Nothing: it is not ours."""


class Own:
    """A Triton that lives and ends with the service."""

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

    async def mend(self, *, broken: bool) -> None:
        """Kill it: the next address() is that of another."""
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

    def _kill(self) -> None:
        with self._lock, suppress(TritonError):
            self._server.kill()

    def _stop(self) -> None:
        with self._lock:
            self._server.stop()
