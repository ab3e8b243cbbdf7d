"""All Tritons of a service: sequences go to the least loaded one that is well.

A name is resolved again from time to time, each of its addresses is a Triton. One that is no longer among them gets
no more sequences and is forgotten when it has none.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Mapping
from typing import Any, Final

from streamer.bridge.logs import Log
from streamer.bridge.supervision import Foreign, Own
from streamer.bridge.upstream import Lease, Upstream
from streamer.triton import TritonError
from streamer.triton.dial import PLAIN, Dial
from streamer.triton.link import ConnectionLost, LinkError
from streamer.triton.server import TritonServer

log = Log("streamer.bridge")

RESOLVE_EVERY_S: Final = 30.0
RESOLVE_LIMIT_S: Final = 5.0


class Upstreams:
    """Opened once one of them answers; kept well until closed."""

    def __init__(self, tritons: Iterable[TritonServer | str], dial: Dial = PLAIN) -> None:
        """A TritonServer belongs to the service from now on; a string is host:port of somebody else's gRPC."""
        self._dial = dial
        self._own: list[Upstream] = []
        self._names: list[str] = []
        for triton in tritons:
            if isinstance(triton, str):
                self._names.append(triton)
            else:
                self._own.append(Upstream("own", Own(triton)))
        self._found: dict[str, Upstream] = {}
        self._gone: list[Upstream] = []
        self._keeping: dict[Upstream, asyncio.Task[None]] = {}
        self._resolving: asyncio.Task[None] | None = None

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
        """How many of them a sequence went through a moment ago."""
        return sum(upstream.ready for upstream in self._present)

    @property
    def most(self) -> int:
        """How many sequences there are when all are well."""
        return sum(upstream.most for upstream in self._present)

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
        tasks = [task for task in (self._resolving, *self._keeping.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(upstream.close() for upstream in (*self._present, *self._gone)))

    def lease(self, options: Mapping[str, Any], instead_of: Lease | None = None) -> Lease | None:
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

    async def _resolve_again(self) -> None:
        while True:
            await asyncio.sleep(RESOLVE_EVERY_S)
            before = set(self._found)
            await self._resolve()
            for address in set(self._found) - before:
                log.info("recogniser found", triton=address)
                self._keep(self._found[address])
            for upstream in [upstream for upstream in self._gone if not upstream.taken]:
                self._gone.remove(upstream)
                self._keeping.pop(upstream).cancel()
                await upstream.close()

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
                found[address] = self._found.get(address) or Upstream(name, Foreign(address, self._dial.to(name)))
        for address in set(self._found) - set(found):
            log.info("recogniser not named any more", triton=address)
            self._gone.append(self._found[address])
        self._found = found


async def _addresses(name: str) -> list[str]:
    """The addresses of host:port; one that is an address already stays as it is."""
    host, _, port = name.rpartition(":")
    infos = await asyncio.get_running_loop().getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    family = min(info[0] for info in infos)  # one way to each: IPv4 where there is it
    hosts = dict.fromkeys(str(info[4][0]) for info in infos if info[0] == family)
    return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host in hosts]
