"""Mends a Triton that fails, and keeps the set of Tritons: restarts embedded ones, resolves the names of remote ones.

Both can load another model while they run, if their model control allows that. Several upstreams may share a
supervisor, one for each model.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Final, Protocol

import grpc  # type: ignore[import-untyped]
from google.protobuf.json_format import MessageToJson  # type: ignore[import-untyped]
from tritonclient.grpc import service_pb2, service_pb2_grpc  # type: ignore[import-untyped]

from streamer.base.limits import RESOLVE_EVERY_S
from streamer.bridge.telemetry.logs import Log
from streamer.bridge.triton import TritonError
from streamer.bridge.triton.link import PLAIN, ConnectionLost, Dialer
from streamer.bridge.triton.repository import set_apart
from streamer.bridge.triton.server import TritonServer

log = Log("streamer.bridge")

ASK_LIMIT_S = 5.0
LOAD_LIMIT_S = 60.0
# A model without requests for this time is unused: bridges probe their models every five seconds, and Triton forgets a
# sequence after fifteen.
UNUSED_S = 20.0
# The time for instances to return from their last request, which on a busy machine happens a while after its answer.
# Triton 2.51 crashes if it unloads a model before that: it looks for the instance among those that wait for work.
RETURN_S = 1.0


class Supervisor(Protocol):
    """Supervises one Triton."""

    @property
    def name(self) -> str:
        """Its name in logs."""

    @property
    def loads(self) -> bool:
        """Whether it loads models that it does not have, also without a roll."""

    @property
    def probers(self) -> int:
        """How many processes of this service probe it: each needs a slot for that."""

    @property
    def dial(self) -> Dialer:
        """The way to connect to it."""

    async def address(self) -> str:
        """Return its gRPC address once it listens. Raise TritonError if it cannot be started."""

    async def look_for(self, model: str) -> None:
        """Raise TritonError if its repository surely has no such model."""

    async def load(self, model: str) -> bool:
        """Load this model. Return whether it was not loaded before. Raise TritonError if that fails."""

    def instances(self, model: str) -> int | None:
        """Return how many instances the model has; None if that cannot be changed."""

    def memory(self, model: str) -> int | None:
        """Return how many bytes the processes of the model hold; None if that is not known."""

    async def resize(self, model: str, instances: int) -> None:
        """Change the number of instances while the model runs. If that fails, raise TritonError and change nothing.

        Sequences stay with their instance. An instance that is removed must have none, or Triton 2.51 may crash.
        """

    async def unused(self, model: str, limit_s: float) -> bool:
        """Wait until nothing uses the model there. Return False if that is not so, or not known, after the limit."""

    async def unload(self, model: str) -> None:
        """Unload a model that is not used. Raise TritonError if it stays loaded."""

    async def mend(self, model: str, address: str, *, broken: bool) -> None:
        """Mend the Triton at this address, which failed, as far as possible.

        `broken`: a process of the model has died or hangs.
        """

    def reader_address(self) -> str | None:
        """Return the gRPC address at which its reader may be asked now; None if it has no reader, or is away."""

    async def reload(self, model: str) -> None:
        """Load a model again whose processes have died. Raise TritonError if that fails."""

    async def end(self) -> None:
        """Stop supervising it."""


class OwnTriton(Supervisor, Protocol):
    """A Triton that ends with the service."""

    async def cut_off(self) -> None:
        """Kill it for good, without waiting for an orderly end."""


class RemoteTriton:
    """A Triton that runs elsewhere."""

    loads = False  # its operator loads models; only a roll loads one

    def __init__(self, name: str, address: str, dial: Dialer = PLAIN, probers: int = 1) -> None:
        """`name`: its name in the operator's settings: its address, or a name that resolves to it."""
        self.name = name
        self.probers = probers
        self._address = address
        self.dial = dial

    async def address(self) -> str:
        """Return the address."""
        return self._address

    async def look_for(self, model: str) -> None:
        """Look into the list of its repository, if it reports one."""
        names = {model}
        with suppress(TritonError):
            async with self._stub("does not list its models") as stub:
                request = service_pb2.RepositoryIndexRequest()
                names = {each.name for each in (await stub.RepositoryIndex(request, timeout=ASK_LIMIT_S)).models}
        if model not in names:
            raise TritonError(f"there is no model {model} in its repository")

    async def load(self, model: str) -> bool:
        """Load this model unless it is ready already, because some Tritons do not allow loading."""
        async with self._stub(f"does not have {model} and did not load it") as stub:
            answer = await stub.ModelReady(service_pb2.ModelReadyRequest(name=model), timeout=ASK_LIMIT_S)
            if answer.ready:
                return False
            await stub.RepositoryModelLoad(
                service_pb2.RepositoryModelLoadRequest(model_name=model), timeout=LOAD_LIMIT_S
            )
        log.info("model loaded", triton=self._address, model=model)
        return True

    def instances(self, model: str) -> int | None:
        """Return None, because the number is up to its operator."""
        return None

    def memory(self, model: str) -> int | None:
        """Return None, because the processes are on another machine."""
        return None

    async def resize(self, model: str, instances: int) -> None:
        """Raise TritonError, because the number is up to its operator."""
        raise TritonError(f"the number of instances at {self._address} is up to its operator")

    async def unused(self, model: str, limit_s: float) -> bool:
        """Wait until the model's statistics do not change, because other bridges may use it too."""
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
        """Unload a model, if the Triton's model control allows that."""
        await asyncio.sleep(RETURN_S)
        async with self._stub(f"keeps {model}") as stub:
            request = service_pb2.RepositoryModelUnloadRequest(model_name=model)
            await stub.RepositoryModelUnload(request, timeout=LOAD_LIMIT_S)
        log.info("model unloaded", triton=self._address, model=model)

    async def mend(self, model: str, address: str, *, broken: bool) -> None:
        """Reload a model whose process has died. The operator must mend a Triton that is silent or gone."""
        if not broken:
            return
        try:
            await self.reload(model)
        except TritonError as error:  # for example, its model control does not allow that
            log.warning("model not reloaded", triton=self._address, detail=str(error))

    def reader_address(self) -> str | None:
        """Return its address, because any Triton may have a reader."""
        return self._address

    async def reload(self, model: str) -> None:
        """Load a model again."""
        async with self._stub(f"did not reload {model}") as stub:
            await _reload(stub, model)
        log.info("model reloaded", triton=self._address, model=model)

    async def end(self) -> None:
        """Do nothing, because it is not ours."""

    async def _statistics(self, model: str) -> list[tuple[int, int, int]]:
        async with self._stub("does not report its statistics") as stub:
            answer = await stub.ModelStatistics(service_pb2.ModelStatisticsRequest(name=model), timeout=ASK_LIMIT_S)
        return [(each.inference_count, each.execution_count, each.last_inference) for each in answer.model_stats]

    def _stub(self, failure: str) -> AbstractAsyncContextManager[Any]:
        return _stub(self._address, self.dial, failure)


class EmbeddedTriton:
    """A Triton that starts and ends with the service."""

    name = "own"
    loads = True
    probers = 1
    dial = PLAIN  # over loopback

    def __init__(self, server: TritonServer) -> None:
        self._server = server
        self._over = False
        self._lock = threading.Lock()  # prevents a start after the end

    async def address(self) -> str:
        """Start it unless it runs, and wait until it is ready."""
        await asyncio.to_thread(self._start)
        await asyncio.to_thread(self._server.wait_ready)
        return self._server.grpc_address

    async def look_for(self, model: str) -> None:
        """Look for the folder of the model."""
        self._server.folder_of(model)

    async def load(self, model: str) -> bool:
        """Load this model unless it is loaded. A restart loads it too."""
        if model in self._server.models:
            return False
        await asyncio.to_thread(self._server.load, model)
        log.info("model loaded", triton="own", model=model)
        return True

    def instances(self, model: str) -> int | None:
        """Return how many instances the model has, or will have after the next start."""
        return self._server.instances(model)

    def memory(self, model: str) -> int | None:
        """Return how many bytes the processes of the model hold; None if it has none now."""
        return self._server.memory(model)

    async def resize(self, model: str, instances: int) -> None:
        """Change the number without a restart."""
        async with _stub(self._server.grpc_address, self.dial, f"has not changed the instances of {model}") as stub:
            # Start from the present configuration and not from the file: after a reload they differ, and Triton would
            # load the model again because of that.
            config = (await stub.ModelConfig(service_pb2.ModelConfigRequest(name=model), timeout=ASK_LIMIT_S)).config
            await _load(stub, model, set_apart(config, instances))
        self._server.note_instances(model, instances)
        await asyncio.to_thread(self._server.close_regions)

    async def unused(self, model: str, limit_s: float) -> bool:
        """Return True, because no other bridge uses this Triton."""
        return True

    async def unload(self, model: str) -> None:
        """Unload a model. A restart does not load it again."""
        await asyncio.sleep(RETURN_S)
        await asyncio.to_thread(self._server.unload, model)
        log.info("model unloaded", triton="own", model=model)

    async def mend(self, model: str, address: str, *, broken: bool) -> None:
        """Kill it, so that the next address() starts another one. If there are other models, only reload a broken one.

        An ensemble is never reloaded: other models may share its steps, and a restart loads them all at once.
        """
        if broken and len(self._server.models) > 1 and address == self._running_address():
            try:
                async with _stub(address, self.dial, f"did not reload {model}") as stub:
                    if not await _steps(stub, model):
                        await _reload(stub, model)
                        log.info("model reloaded", triton=self.name, model=model)
                        return
            except TritonError as error:
                log.warning("model not reloaded", triton=self.name, detail=str(error))
        await asyncio.to_thread(self._kill, address)

    def reader_address(self) -> str | None:
        """Return its address if it runs with a reader."""
        return (self._running_address() or None) if self._server.reader else None

    async def reload(self, model: str) -> None:
        """Load a model again."""
        async with _stub(self._running_address(), self.dial, f"did not reload {model}") as stub:
            await _reload(stub, model)
        await asyncio.to_thread(self._server.close_regions)
        log.info("model reloaded", triton=self.name, model=model)

    async def cut_off(self) -> None:
        """Kill it for good, without waiting for an orderly end."""
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
                self._server.kill()  # this removes the remains of a server that has ended
            self._server.start()

    def _running_address(self) -> str:
        try:
            return self._server.grpc_address
        except TritonError:
            return ""

    def _kill(self, address: str | None = None) -> None:
        """Kill it; with an address, only if it still listens there, because each start has another address."""
        with self._lock, suppress(TritonError):
            if address in (None, self._running_address()) or not self._server.running:
                self._server.kill()

    def _stop(self) -> None:
        with self._lock:
            self._server.stop()


@asynccontextmanager
async def _stub(address: str, dial: Dialer, failure: str) -> AsyncIterator[Any]:
    """Provide a stub for requests to a Triton. Raise TritonError with `failure` if a request fails."""
    async with dial.channel(address) as channel:
        try:
            yield service_pb2_grpc.GRPCInferenceServiceStub(channel)
        except grpc.aio.AioRpcError as error:
            raise TritonError(f"the Triton at {address} {failure}: {error.details()}") from error


async def _steps(stub: Any, model: str) -> list[str]:
    """Return the names of the steps of an ensemble; none for another model."""
    config = (await stub.ModelConfig(service_pb2.ModelConfigRequest(name=model), timeout=ASK_LIMIT_S)).config
    return [step.model_name for step in config.ensemble_scheduling.step]


async def _reload(stub: Any, model: str) -> None:
    """Load a model again although it has not changed; of an ensemble also the steps, which have the processes."""
    for step in await _steps(stub, model):
        await _reload(stub, step)
    config = (await stub.ModelConfig(service_pb2.ModelConfigRequest(name=model), timeout=ASK_LIMIT_S)).config
    # Triton does not load an unchanged model again, so this changes a parameter that is not used. Unloading the model
    # first would leave a moment in which a request for it crashes the whole server.
    config.parameters["reloaded"].string_value = secrets.token_hex(8)
    await _load(stub, model, config)


async def _load(stub: Any, model: str, config: Any) -> None:
    """Load a model with this configuration."""
    request = service_pb2.RepositoryModelLoadRequest(model_name=model)
    request.parameters["config"].string_param = MessageToJson(config, preserving_proto_field_name=True)
    await stub.RepositoryModelLoad(request, timeout=LOAD_LIMIT_S)


# The set of Tritons: embedded ones, and remote ones, whose names are resolved regularly.

RESOLVE_LIMIT_S: Final = 5.0


class Tritons:
    """The supervisors of all Tritons, one each."""

    def __init__(
        self,
        tritons: Iterable[TritonServer | OwnTriton | str],
        dial: Dialer = PLAIN,
        resolve_s: float = RESOLVE_EVERY_S,
        probers: int = 1,
    ) -> None:
        """`tritons`: TritonServers, which the service owns now, and addresses (gRPC, host:port) of remote Tritons.

        `probers`: how many processes of the service probe a remote one.
        """
        self._dial = dial
        self._resolve_s = resolve_s
        self._probers = probers
        self._own: list[OwnTriton] = []
        self._names: list[str] = []
        for triton in tritons:
            if isinstance(triton, str):
                self._names.append(triton)
            else:
                self._own.append(EmbeddedTriton(triton) if isinstance(triton, TritonServer) else triton)
        self._remote: dict[str, RemoteTriton] = {}

    @property
    def present(self) -> list[Supervisor]:
        """The Tritons that are present now."""
        return [*self._own, *self._remote.values()]

    async def find(self) -> None:
        """Resolve the names for the first time. Raise ConnectionLost if there is no Triton at all."""
        await self._resolve(first=True)
        if not self.present:
            raise ConnectionLost(f"there is no Triton at {', '.join(self._names)}")

    async def follow(self, on_change: Callable[[], Awaitable[None]]) -> None:
        """Resolve the names regularly until cancelled. `on_change` is called when other Tritons are present."""
        while self._names:
            await asyncio.sleep(self._resolve_s)
            before = set(self._remote)
            await self._resolve()
            for address in set(self._remote) - before:
                log.info("recogniser found", triton=address)
            for address in before - set(self._remote):
                log.info("recogniser not named any more", triton=address)
            if before != set(self._remote):
                await on_change()

    async def end(self) -> None:
        """Stop embedded Tritons."""
        await asyncio.gather(*(triton.end() for triton in self._own))

    async def cut_off(self) -> None:
        """Kill embedded Tritons at once, so that end() need not wait for them."""
        await asyncio.gather(*(triton.cut_off() for triton in self._own))

    async def _resolve(self, *, first: bool = False) -> None:
        remote: dict[str, RemoteTriton] = {}
        for name in self._names:
            try:
                addresses = await asyncio.wait_for(_addresses(name), RESOLVE_LIMIT_S)
            except (OSError, asyncio.TimeoutError) as error:
                if first and len(self._names) == 1:
                    raise ConnectionLost(f"there is no Triton at {name}: {error}") from error
                # Keep the present Tritons, because a failure of the name server must not end sessions.
                addresses = [address for address, triton in self._remote.items() if triton.name == name]
                log.warning("name not resolved", triton=name, detail=str(error))
            for address in addresses:
                present = self._remote.get(address)
                remote[address] = present or RemoteTriton(name, address, self._dial.to(name), self._probers)
        self._remote = remote


async def _addresses(name: str) -> list[str]:
    """Return the addresses of host:port, which may be an address already."""
    host, _, port = name.rpartition(":")
    infos = await asyncio.get_running_loop().getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    family = min(info[0] for info in infos)  # only one address family, so that no Triton counts twice: IPv4 if possible
    hosts = dict.fromkeys(str(info[4][0]) for info in infos if info[0] == family)
    return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host in hosts]
