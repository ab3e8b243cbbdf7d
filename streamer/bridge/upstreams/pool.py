"""All Tritons of a service: sequences go to the least loaded one that is well.

A name is resolved again from time to time, each of its addresses is a Triton. One that is no longer among them retires,
and so do all when another model takes over: it gets no more sequences, those that it has go on elsewhere as soon as
they can, and it is forgotten when it has none.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Mapping
from typing import Any, Final

from streamer.bridge.telemetry.logs import Log
from streamer.bridge.upstreams.rollover import RollError, successors
from streamer.bridge.upstreams.supervision import EmbeddedTriton, RemoteTriton
from streamer.bridge.upstreams.upstream import Reservation, Upstream
from streamer.limits import RESOLVE_EVERY_S, RETIRE_LIMIT_S
from streamer.triton import MODEL, TritonError
from streamer.triton.dialer import PLAIN, Dialer
from streamer.triton.link import ConnectionLost, LinkError
from streamer.triton.server import TritonServer

log = Log("streamer.bridge")

RESOLVE_LIMIT_S: Final = 5.0
CANCEL_AGAIN_S: Final = 1.0
# Other bridges may use a model for longer than we.
UNUSED_LIMIT_S: Final = 600.0


class UpstreamPool:
    """Opened once one of them answers; kept well until closed."""

    def __init__(
        self,
        tritons: Iterable[TritonServer | str],
        dial: Dialer = PLAIN,
        model: str = MODEL,
        resolve_s: float = RESOLVE_EVERY_S,
    ) -> None:
        """A TritonServer belongs to the service from now on; a string is host:port of somebody else's gRPC."""
        self.model = model  # of new sequences
        self._rolled = False  # since then Tritons are given the model
        self._dial = dial
        self._resolve_s = resolve_s
        self._own: list[Upstream] = []
        self._names: list[str] = []
        for triton in tritons:
            if isinstance(triton, str):
                self._names.append(triton)
            else:
                self._own.append(Upstream("own", EmbeddedTriton(triton), model, loads=True))
        self._found: dict[str, Upstream] = {}
        self._retiring: dict[Upstream, asyncio.Task[str]] = {}
        self._keeping: dict[Upstream, asyncio.Task[None]] = {}
        self._resolving: asyncio.Task[None] | None = None
        # Which Tritons and which model there are changes in one place at a time.
        self._changing = asyncio.Lock()

    @property
    def ready(self) -> bool:
        """Whether sequences went through one of them a moment ago."""
        return any(upstream.ready for upstream in self._present)

    @property
    def well(self) -> bool:
        """Whether one of them can be asked for a sequence."""
        return any(upstream.well for upstream in self._present)

    @property
    def number(self) -> int:
        """How many there are."""
        return len(self._present)

    @property
    def number_ready(self) -> int:
        """How many of them a sequence went through a moment ago, in every instance."""
        return sum(upstream.ready and not upstream.limps for upstream in self._present)

    @property
    def most(self) -> int:
        """How many sequences there are when all are well."""
        return sum(upstream.most for upstream in self._present)

    @property
    def room(self) -> int:
        """How many sequences those can hold that are well."""
        return sum(upstream.most for upstream in self._present if upstream.well)

    @property
    def free(self) -> int:
        """How many sequences can be had now."""
        return sum(max(0, upstream.most - upstream.taken) for upstream in self._present if upstream.well)

    async def open(self) -> None:
        """Returns once one is well; if none is, the first one's LinkError or TritonError."""
        await self._resolve(first=True)
        if not self._present:
            raise ConnectionLost(f"there is no Triton at {', '.join(self._names)}")
        results = await asyncio.gather(*(upstream.open() for upstream in self._present), return_exceptions=True)
        errors = [error for error in results if error is not None]
        for error in errors:
            if not isinstance(error, (LinkError, TritonError)):
                raise error
        if len(errors) == len(results):
            raise errors[0]
        for error in errors:
            log.warning("recogniser away", detail=str(error))
        for upstream in self._present:
            self._keep(upstream)
        if self._names:
            self._resolving = asyncio.create_task(self._resolve_again())

    async def close(self) -> None:
        """Leave all of them; what belongs to the service is ended."""
        left = (*self._present, *self._retiring)
        tasks = (self._resolving, *self._keeping.values(), *self._retiring.values())
        await _cancelled(task for task in tasks if task is not None)
        await asyncio.gather(*(upstream.close() for upstream in left))
        await asyncio.gather(*(upstream.supervision.end() for upstream in self._own))

    async def cut_off(self) -> None:
        """There is no time: what belongs to the service is killed, and close() will find nothing to wait for."""
        await asyncio.gather(
            *(owner.cut_off() for upstream in self._own if isinstance(owner := upstream.supervision, EmbeddedTriton))
        )

    async def roll(self, model: str, limit_s: float = RETIRE_LIMIT_S) -> asyncio.Future[list[Any]]:
        """Another model takes over, once it has answered on every Triton that is well; RollError if it does not.

        Sequences of sessions move at their next cut, and those that have not got to one after the limit are taken from
        it as if it had failed. The result is done once all Tritons are rid of it, with what went wrong for each.
        """
        async with self._changing:
            if model == self.model:
                raise RollError(f"{model} is in use already")
            following = await successors(self._present, model)
            former, self.model, self._rolled = self.model, model, True
            self._own = [following[upstream] for upstream in self._own]
            self._found = {address: following[upstream] for address, upstream in self._found.items()}
            for upstream in following.values():
                self._keep(upstream)
            leaving = [self._retire(upstream, limit_s, unload=True) for upstream in following]
        log.info("rolled", model=model, former=former)
        return asyncio.gather(*leaving, return_exceptions=True)

    def holding(self) -> dict[str, int]:
        """How many sequences each model holds that is in use."""
        held = {self.model: 0}
        for upstream in (*self._present, *self._retiring):
            held[upstream.model] = held.get(upstream.model, 0) + upstream.taken
        return held

    def has_better(self, lease: Reservation) -> bool:
        """Whether this sequence has to go on elsewhere when it can, and there is an elsewhere."""
        return lease.upstream.retiring and self.free > 0

    def lease(self, options: Mapping[str, Any], instead_of: Reservation | None = None) -> Reservation | None:
        """A place where most is free, elsewhere than the one it is to replace if possible; None if there is none."""
        open_ones = [upstream for upstream in self._present if upstream.well and upstream.taken < upstream.most]
        if not open_ones:
            return None

        def load(upstream: Upstream) -> tuple[bool, float]:
            failed = instead_of is not None and upstream is instead_of.upstream
            return failed, upstream.taken / upstream.most

        return min(open_ones, key=load).lease(options)

    @property
    def _present(self) -> list[Upstream]:
        return [*self._own, *self._found.values()]

    def _keep(self, upstream: Upstream) -> None:
        self._keeping[upstream] = asyncio.create_task(upstream.keep())

    def _retire(self, upstream: Upstream, limit_s: float, *, unload: bool) -> asyncio.Task[str]:
        upstream.retiring = True
        task = self._retiring[upstream] = asyncio.create_task(self._see_off(upstream, limit_s, unload))
        return task

    async def _see_off(self, upstream: Upstream, limit_s: float, unload: bool) -> str:
        """Wait until it has no sequences any more, leave it and take its model out; or say why that was not done."""
        await _cancelled([self._keeping.pop(upstream)])
        await upstream.emptied(limit_s)
        if upstream.taken:
            log.warning("recogniser left", triton=upstream.name, model=upstream.model, sequences=upstream.taken)
        await upstream.close()
        try:
            if unload:
                await self._unload(upstream)
        except TritonError as error:
            log.warning("model not unloaded", triton=upstream.name, model=upstream.model, detail=str(error))
            return f"{upstream.model} stays at {upstream.name}: {error}"
        finally:
            del self._retiring[upstream]
        return ""

    async def _unload(self, upstream: Upstream) -> None:
        model = upstream.model
        if not await upstream.supervision.unused(model, UNUSED_LIMIT_S):
            raise TritonError("others use it still, or its Triton does not tell")
        async with self._changing:
            if model != self.model:  # else it was called back meanwhile
                await upstream.supervision.unload(model)

    async def _resolve_again(self) -> None:
        while True:
            await asyncio.sleep(self._resolve_s)
            async with self._changing:
                before = self._found
                await self._resolve()
                for address in set(self._found) - set(before):
                    log.info("recogniser found", triton=address)
                    self._keep(self._found[address])
                for address in set(before) - set(self._found):
                    log.info("recogniser not named any more", triton=address)
                    self._retire(before[address], RETIRE_LIMIT_S, unload=False)

    async def _resolve(self, *, first: bool = False) -> None:
        found: dict[str, Upstream] = {}
        for name in self._names:
            try:
                addresses = await asyncio.wait_for(_addresses(name), RESOLVE_LIMIT_S)
            except (OSError, asyncio.TimeoutError) as error:
                if first and len(self._names) == 1:
                    raise ConnectionLost(f"there is no Triton at {name}: {error}") from error
                # Who was found before stays: a name server that is away must not end what works.
                addresses = [address for address, known in self._found.items() if known.name == name]
                log.warning("name not resolved", triton=name, detail=str(error))
            for address in addresses:
                found[address] = self._found.get(address) or self._foreign(name, address)
        self._found = found

    def _foreign(self, name: str, address: str) -> Upstream:
        return Upstream(name, RemoteTriton(address, self._dial.to(name)), self.model, loads=self._rolled)


async def _cancelled(tasks: Iterable[asyncio.Task[Any]]) -> None:
    tasks = list(tasks)
    waiting = {task for task in tasks if not task.done()}
    while waiting:
        for task in waiting:
            task.cancel()
        # Before Python 3.12 wait_for() forgets a cancellation that comes together with what it waits for.
        _, waiting = await asyncio.wait(waiting, timeout=CANCEL_AGAIN_S)
    await asyncio.gather(*tasks, return_exceptions=True)


async def _addresses(name: str) -> list[str]:
    """The addresses of host:port; one that is an address already stays as it is."""
    host, _, port = name.rpartition(":")
    infos = await asyncio.get_running_loop().getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    family = min(info[0] for info in infos)  # one way to each: IPv4 where there is it
    hosts = dict.fromkeys(str(info[4][0]) for info in infos if info[0] == family)
    return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host in hosts]
