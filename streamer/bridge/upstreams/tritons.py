"""The set of Tritons: embedded ones, and remote ones, whose names are resolved regularly."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from streamer.bridge.telemetry.logs import Log
from streamer.bridge.upstreams.supervision import EmbeddedTriton, RemoteTriton, Supervisor
from streamer.limits import RESOLVE_EVERY_S
from streamer.triton.dialer import PLAIN, Dialer
from streamer.triton.link import ConnectionLost
from streamer.triton.server import TritonServer

log = Log("streamer.bridge")

RESOLVE_LIMIT_S: Final = 5.0


class Tritons:
    """The supervisors of all Tritons, one each."""

    def __init__(
        self, tritons: Iterable[TritonServer | str], dial: Dialer = PLAIN, resolve_s: float = RESOLVE_EVERY_S
    ) -> None:
        """`tritons`: TritonServers, which the service owns now, and addresses (gRPC, host:port) of remote Tritons."""
        self._dial = dial
        self._resolve_s = resolve_s
        self._own: list[EmbeddedTriton] = []
        self._names: list[str] = []
        for triton in tritons:
            if isinstance(triton, str):
                self._names.append(triton)
            else:
                self._own.append(EmbeddedTriton(triton))
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
                remote[address] = self._remote.get(address) or RemoteTriton(name, address, self._dial.to(name))
        self._remote = remote


async def _addresses(name: str) -> list[str]:
    """Return the addresses of host:port, which may be an address already."""
    host, _, port = name.rpartition(":")
    infos = await asyncio.get_running_loop().getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    family = min(info[0] for info in infos)  # only one address family, so that no Triton counts twice: IPv4 if possible
    hosts = dict.fromkeys(str(info[4][0]) for info in infos if info[0] == family)
    return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host in hosts]
