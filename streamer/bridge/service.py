"""The service as one thing to enter and leave: a Triton, the link to it, and the port in front.

async with Service(TritonServer(asr_repository())) as service:
    ...  # service.url
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from types import TracebackType

import grpc  # type: ignore[import-untyped]
from tritonclient.grpc import service_pb2, service_pb2_grpc  # type: ignore[import-untyped]

from streamer.bridge.metrics import Metrics
from streamer.bridge.prober import Prober
from streamer.bridge.server import BridgeServer
from streamer.bridge.session import Limits
from streamer.triton import TritonError
from streamer.triton.link import MODEL, Link
from streamer.triton.server import TritonServer

LINK_CLOSE_LIMIT_S = 3.0
CONFIG_LIMIT_S = 5.0


class Service:
    """Entered once the model has answered; left when every session got its finals and nothing is running.

    A TritonServer (started or not) belongs to the service from now on and is stopped with it; an address
    (gRPC, host:port) is a Triton of somebody else. PortError, TritonError and LinkError have a sentence for
    the user.
    """

    def __init__(
        self,
        triton: TritonServer | str,
        *,
        host: str = "127.0.0.1",
        port: int = 8080,
        sessions: int | None = None,
        limits: Limits | None = None,
        grace: float = 0.0,
    ) -> None:
        """`sessions` at most (what the model has slots for, if not given); `grace` is for the end: see
        BridgeServer.stop().
        """
        self.metrics = Metrics()
        self._triton = triton
        self._sessions = sessions
        self._grace = grace
        self._server = BridgeServer(host, port, MODEL, self.metrics, limits)
        self._exit = AsyncExitStack()
        self._probing: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Where the websocket is."""
        return self._server.url

    async def lost(self) -> None:
        """Returns when the recogniser has gone: no session can be served any more."""
        if self._probing is not None:
            await asyncio.shield(self._probing)

    async def __aenter__(self) -> Service:
        try:
            await self._enter()
        except BaseException:
            # Also when cancelled: whoever waits for Triton in a thread is only released by its stop.
            await self._exit.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exit.aclose()

    async def _enter(self) -> None:
        # Left in reverse order: probing, sessions, link, port, Triton.
        if isinstance(self._triton, TritonServer):
            self._exit.push_async_callback(asyncio.to_thread, self._triton.stop)
        # The port first: when it is taken the user need not wait for Triton to hear that.
        await self._server.start()
        self._exit.push_async_callback(self._server.stop)
        address = await self._ready_address()
        link = await Link.connect(address)
        self._exit.push_async_callback(link.close, LINK_CLOSE_LIMIT_S)
        # Sessions end before their link; what is left for the other call is a start that failed half-way.
        self._exit.push_async_callback(self._server.stop, self._grace)
        sequences = await _sequences(address)
        # One sequence is the prober's, also when all the others are taken.
        most = sequences - 1 if self._sessions is None else min(self._sessions, sequences - 1)
        prober = Prober(link, self.metrics)
        if not await prober.probe():
            raise TritonError(f"the model {MODEL} does not answer: {prober.failure}")
        self._server.prober = prober
        self._server.admission.open(link, most)
        self._probing = asyncio.create_task(prober.run())
        self._exit.push_async_callback(_cancel, self._probing)

    async def _ready_address(self) -> str:
        if isinstance(self._triton, str):
            return self._triton
        self._triton.start()
        await asyncio.to_thread(self._triton.wait_ready)
        return self._triton.grpc_address


async def _sequences(address: str) -> int:
    """How many sequences the model of this Triton takes at a time, over all its instances."""
    async with grpc.aio.insecure_channel(address, (("grpc.enable_http_proxy", 0),)) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        request = service_pb2.ModelConfigRequest(name=MODEL)
        config = (await stub.ModelConfig(request, timeout=CONFIG_LIMIT_S)).config
    instances = sum(group.count * max(1, len(group.gpus)) for group in config.instance_group)
    return int(instances * config.sequence_batching.oldest.max_candidate_sequences)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
