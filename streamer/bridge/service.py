"""The whole service as a context manager: the Tritons, the links to them, and the port in front.

async with Service(TritonServer(asr_repository(), models=[MODEL])) as service:
    ...  # service.url
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from types import TracebackType

from streamer.base.limits import DEFAULT_MODEL, RESOLVE_EVERY_S, InstanceBounds
from streamer.bridge.access.quotas import Quotas
from streamer.bridge.access.rules import PortPolicy
from streamer.bridge.administration import Administration
from streamer.bridge.server import BridgeServer
from streamer.bridge.session.deadlines import Limits
from streamer.bridge.telemetry.logs import Log
from streamer.bridge.telemetry.metrics import EVENT_LOOP, Metrics
from streamer.bridge.telemetry.traces import Tracing
from streamer.bridge.telemetry.usage import ByKey, HourOfAudio, UsageFile
from streamer.bridge.triton import MODEL
from streamer.bridge.triton.link import PLAIN, Dialer, unknown_parts
from streamer.bridge.triton.server import TritonServer
from streamer.bridge.upstreams.admission import Models
from streamer.bridge.upstreams.instance_count import InstanceCount
from streamer.bridge.upstreams.model_loader import MemoryBound, ModelLoader
from streamer.bridge.upstreams.supervision import OwnTriton, Tritons
from streamer.bridge.workers.others import Others
from streamer.bridge.workers.worker import Worker

log = Log("streamer.bridge")


class Service:
    """The service. Entering waits until the model has answered. Leaving waits until every session has ended.

    `triton` is a TritonServer, which the service owns: it is started if necessary, restarted
    if it dies, and stopped at the end. Or it is one or more addresses (gRPC, host:port) of Tritons that run elsewhere.
    The messages of PortError, TritonError and LinkError are sentences for the user.
    """

    def __init__(
        self,
        triton: TritonServer | OwnTriton | str | Sequence[str],
        *,
        host: str = "127.0.0.1",
        port: int = 8080,
        sessions: int | Callable[[Models], Awaitable[int | None]] | None = None,
        limits: Limits | None = None,
        grace: float = 0.0,
        policy: PortPolicy | None = None,
        dial: Dialer | None = None,
        tracing: Tracing | None = None,
        models: Mapping[str, str] | None = None,
        resolve_s: float = RESOLVE_EVERY_S,
        instances: InstanceBounds | None = None,
        on_demand: MemoryBound | None = None,
        worker: Worker | None = None,
    ) -> None:
        """`sessions`: the most sessions, or a function that measures them once the Tritons are ready; by default, as
        many as the models have slots. `models`: Triton models by public name, including `default`. `grace`: see
        BridgeServer.stop(). `instances`: the fewest and the most instances of each model, whose number follows the
        load; the TritonServer must be resizable. `on_demand`: load `default` at the start, and the other models when
        sessions ask for them, within this bound; the TritonServer must start with `default` only. `worker`: this
        process, if it is one of several that serve the same port.
        """
        self.metrics = Metrics(tracing)
        self._policy = policy or PortPolicy()
        sources = triton if isinstance(triton, Sequence) and not isinstance(triton, str) else [triton]
        self._on_demand = on_demand
        self._worker = worker
        tritons = Tritons(sources, dial or PLAIN, resolve_s, 1 if worker is None else worker.neighbours.workers)
        self.models = Models(tritons, models or {DEFAULT_MODEL: MODEL}, on_demand=on_demand is not None)
        self._sessions = sessions
        self._grace = grace
        self._instances = instances
        self._server = BridgeServer(host, port, self.models, self.metrics, limits, self._policy, worker)
        self._exit = AsyncExitStack()

    @property
    def url(self) -> str:
        """The URL of the websocket."""
        return self._server.url

    @property
    def port(self) -> int:
        """The port of the URL."""
        return self._server.port

    @property
    def wyoming_port(self) -> int | None:
        """The port for Wyoming; None if there is none."""
        return self._server.wyoming_port

    @property
    def grpc_port(self) -> int | None:
        """The port for gRPC; None if there is none."""
        return self._server.grpc_port

    @property
    def administration(self) -> Administration:
        """What answers an operator."""
        return self._server.administration

    async def __aenter__(self) -> Service:
        try:
            await self._enter()
        except BaseException:
            # Also after a cancellation: a thread that waits for Triton ends only when Triton is stopped.
            await self._exit.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exit.aclose()

    async def hurry(self) -> None:
        """Make a present or later exit quick: cut off all sessions, and kill the embedded Triton."""
        self._server.hurry()
        await self.models.cut_off()

    async def _enter(self) -> None:
        # Failures of tasks that nothing awaits are reported only to the loop.
        loop = asyncio.get_running_loop()
        if loop.get_exception_handler() is None:
            loop.set_exception_handler(self._report)
            self._exit.callback(loop.set_exception_handler, None)
        # On exit this happens in reverse order: sessions, links, Tritons, port, usage.
        others, quotas, metrics = self._policy.access.others, self._policy.access.quotas, self.metrics
        if self._policy.usage_file is not None:
            if others.bridges is None:  # otherwise the store has it
                quotas.restore_audio(self._policy.usage_file.record.hour)
            keeper = UsageKeeper(self._policy.usage_file, lambda: metrics.usage, quotas.audio_of_hour)
            self._exit.push_async_callback(keeper.close)
        if self._worker is not None:
            metrics.worker_starts = self._worker.starts
        if self._worker is not None or others.bridges is not None:
            metrics.bridges = lambda: others.bridges
            self._exit.callback(others.close)
            self._exit.push_async_callback(_cancel, asyncio.create_task(others.run()))
            self._exit.push_async_callback(_cancel, asyncio.create_task(_settle(others, metrics, quotas)))
        self._exit.push_async_callback(self._server.stop)
        self._exit.push_async_callback(self.models.close)
        # The port comes first, so that a user learns at once, and not after Triton's start, that the port is in use.
        await self._server.start()
        await self.models.open()
        self.metrics.held = lambda: {name: pool.held for name, pool in self.models.pools.items()}
        self.metrics.model_states = self.models.states
        self.metrics.unknown = lambda: unknown_parts
        self.metrics.recognisers.set_function(lambda: self.models.tritons)
        self.metrics.recognisers_ready.set_function(lambda: self.models.tritons_ready)
        self.metrics.readers_ready.set_function(lambda: self.models.readers_ready)
        # This callback ends sessions before their links. The one above is for a start that fails half-way.
        self._exit.push_async_callback(self._server.stop, self._grace)
        sessions = await self._sessions(self.models) if callable(self._sessions) else self._sessions
        if self._on_demand is not None:
            loader = ModelLoader(self.models, self._on_demand, self.metrics)
            self._exit.push_async_callback(loader.close)
            self._server.admission.open(self.models, sessions, loader=loader)
        # A measured number grows and shrinks with the Tritons, but not with instances, which share the same processors.
        elif callable(self._sessions) and self._instances is None:
            self._server.admission.open(self.models, capacity=sessions)
        else:
            self._server.admission.open(self.models, sessions)
        if self._instances is not None:
            self._follow_load(self._instances, sessions)

    def _follow_load(self, bounds: InstanceBounds, sessions: int | None) -> None:
        counts = [InstanceCount(pool, bounds, self.metrics, sessions) for pool in self.models.pools.values()]
        self.metrics.instances = lambda: {count.name: count.numbers for count in counts}
        for count in counts:
            self._exit.push_async_callback(_cancel, asyncio.create_task(count.follow()))

    def _report(self, _: asyncio.AbstractEventLoop, context: Mapping[str, object]) -> None:
        message, cause = str(context.get("message", "something failed")), context.get("exception")
        error = cause if isinstance(cause, BaseException) else RuntimeError(message)
        self.metrics.failures(EVENT_LOOP).report("the event loop was told of a failure", error, detail=message)


# What is lost of the usage if the service is killed.
KEEP_EVERY_S = 10.0


class UsageKeeper:
    """Keeps what keys use in the file of the service, from now on until it is closed."""

    def __init__(self, file: UsageFile, usage: Callable[[], ByKey], hour: Callable[[], HourOfAudio]) -> None:
        """`usage` returns what was used since the start, and `hour` the audio of the last hour."""
        self._file, self._usage, self._hour = file, usage, hour
        self._failure = ""  # of the last writing
        self._ending = asyncio.Event()
        self._task = asyncio.create_task(self._keep())

    async def close(self) -> None:
        """Write the rest, and let another service use the file."""
        self._ending.set()
        await self._task
        self._file.close()

    async def _keep(self) -> None:
        while not self._ending.is_set():
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._ending.wait(), KEEP_EVERY_S)
            self._file.settle(self._usage(), self._hour(), time.time())
            try:
                await asyncio.to_thread(self._file.write, self._file.record.text())
            except OSError as error:
                reason = error.strerror or str(error)
                if reason != self._failure:
                    log.error("usage not written, it is kept in memory", reason=reason)
                self._failure = reason
            else:
                if self._failure:
                    log.info("usage written again")
                self._failure = ""


# How often others learn what audio came here. What a process has not told is lost if it is killed.
SETTLE_S = 1.0


async def _settle(others: Others, metrics: Metrics, quotas: Quotas) -> None:
    """Share what was used with other processes, again and again until cancelled."""
    try:
        while True:
            await asyncio.sleep(SETTLE_S)
            others.settle(metrics.usage, quotas.audio_of_hour())
            if quotas.limits.audio_per_key_s is not None:
                quotas.take_audio_of_others(others.audio_of_others())
    finally:
        others.settle(metrics.usage, quotas.audio_of_hour())


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
