"""The service as one thing to enter and leave: the Tritons, the links to them, and the port in front.

async with Service(TritonServer(asr_repository())) as service:
    ...  # service.url
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any

from streamer.bridge.access.port_policy import PortPolicy
from streamer.bridge.server import BridgeServer
from streamer.bridge.session.session import Limits
from streamer.bridge.telemetry.metrics import EVENT_LOOP, Metrics
from streamer.bridge.telemetry.traces import Tracing
from streamer.bridge.upstreams.models import Models
from streamer.bridge.upstreams.pool import UpstreamPool
from streamer.bridge.upstreams.tritons import Tritons
from streamer.limits import DEFAULT_MODEL, RESOLVE_EVERY_S
from streamer.triton import MODEL
from streamer.triton.dialer import PLAIN, Dialer
from streamer.triton.server import TritonServer


class Service:
    """Entered once the model has answered; left when every session got its finals and nothing is running.

    A TritonServer (started or not) belongs to the service from now on: it is started again when it dies, and stopped
    at the end. An address or several (gRPC, host:port) are Tritons of somebody else. PortError, TritonError and
    LinkError have a sentence for the user.
    """

    def __init__(
        self,
        triton: TritonServer | str | Sequence[str],
        *,
        host: str = "127.0.0.1",
        port: int = 8080,
        sessions: int | Callable[[UpstreamPool], Awaitable[int | None]] | None = None,
        limits: Limits | None = None,
        grace: float = 0.0,
        policy: PortPolicy | None = None,
        dial: Dialer | None = None,
        tracing: Tracing | None = None,
        models: Mapping[str, str] | None = None,
        resolve_s: float = RESOLVE_EVERY_S,
    ) -> None:
        """`sessions` at most, or what finds out once the Tritons are there how many those carry (what the models have
        slots for, if not given). `models` are Triton models by public name, with `default` among them. `grace` is for
        the end: see BridgeServer.stop().
        """
        self.metrics = Metrics(tracing)
        tritons = [triton] if isinstance(triton, (TritonServer, str)) else triton
        self.models = Models(Tritons(tritons, dial or PLAIN, resolve_s), models or {DEFAULT_MODEL: MODEL})
        self._sessions = sessions
        self._grace = grace
        self._server = BridgeServer(host, port, self.models, self.metrics, limits, policy)
        self._exit = AsyncExitStack()

    @property
    def url(self) -> str:
        """Where the websocket is."""
        return self._server.url

    @property
    def port(self) -> int:
        """That of its URL."""
        return self._server.port

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

    async def hurry(self) -> None:
        """Whoever leaves it, or is about to, has no time: sessions are cut off, and what belongs to it is killed."""
        self._server.hurry()
        await self.models.cut_off()

    async def _enter(self) -> None:
        # Whatever nobody waits for tells its failure to the loop alone.
        loop = asyncio.get_running_loop()
        if loop.get_exception_handler() is None:
            loop.set_exception_handler(self._failed)
            self._exit.callback(loop.set_exception_handler, None)
        # Left in reverse order: sessions, links, Tritons, port.
        self._exit.push_async_callback(self._server.stop)
        self._exit.push_async_callback(self.models.close)
        # The port first: when it is taken the user need not wait for Triton to hear that.
        await self._server.start()
        await self.models.open()
        self.metrics.held = lambda: {name: pool.held for name, pool in self.models.pools.items()}
        self.metrics.recognisers.set_function(lambda: self.models.tritons)
        self.metrics.recognisers_ready.set_function(lambda: self.models.tritons_ready)
        # Sessions end before their links; what is left for the other call is a start that failed half-way.
        self._exit.push_async_callback(self._server.stop, self._grace)
        if callable(self._sessions):
            self._server.admission.open(self.models, carried=await self._sessions(self.models.default))
        else:
            self._server.admission.open(self.models, self._sessions)

    def _failed(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        message = str(context.get("message", "something failed"))
        error = context.get("exception") or RuntimeError(message)
        self.metrics.failures(EVENT_LOOP).report("the event loop was told of a failure", error, detail=message)
