"""Fetches the recording at an address that a client names, from public addresses only unless the operator allows all.

A name is looked up once, and the connection goes to the address that was checked, without a proxy: a name that means
another machine a moment later changes nothing. Each redirect is checked like the first address.
"""

from __future__ import annotations

import asyncio
import http.client
import ipaddress
import socket
import ssl
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, TypeVar
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from streamer.base.codes import ErrorCode
from streamer.base.web_address import MOST_REDIRECTS, STALL_S, reason_of
from streamer.bridge.access.quotas import Fetch, UploadLimits
from streamer.wire.errors import WireError, bad

_PORTS: Final = {"http": 80, "https": 443}
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_PIECE: Final = 1 << 16  # bytes
_MOST_TRIES: Final = 3  # addresses of one name
_TARGET: Final = "/%:@!$&'()*+,;=~-._?"  # characters that stay as they are in a path and a query
# IPv6 networks that mean addresses of IPv4, which are in their last 32 bits.
_TRANSLATED: Final = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "64:ff9b:1::/48")))
_Result = TypeVar("_Result")


class Fetcher:
    """Fetches recordings, each in a thread, which waits at most `stall_s` for data."""

    def __init__(self, limits: UploadLimits, stall_s: float = STALL_S) -> None:
        self._limits = limits
        self._stall_s = stall_s
        self._threads = ThreadPoolExecutor(max(1, limits.most), "fetching")

    async def fetch(self, address: str) -> AsyncGenerator[bytes, None]:
        """Yield the recording. Raise WireError if it cannot be fetched, or is too large."""
        transfer = _Transfer(address, public=self._limits.fetch is not Fetch.ANY, stall_s=self._stall_s)
        largest, size = self._limits.largest, 0
        try:
            length = await self._run(transfer.open)
            while length is None or length <= largest:
                piece = await self._run(transfer.read)
                if not piece:
                    if length is not None and size < length:
                        raise _failed(address, f"only {size} of {length} bytes came")
                    return
                size += len(piece)
                if size > largest:
                    break
                yield piece
        finally:
            transfer.interrupt()
            self._threads.submit(transfer.close)  # it waits for a thread that has not noticed yet
        raise bad(ErrorCode.TOO_LARGE, f"The recording at the address has more than {largest} bytes, the maximum.")

    async def _run(self, work: Callable[[], _Result]) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


class _Transfer:
    """One recording on its way. All but interrupt() may block, and that makes the others return."""

    def __init__(self, address: str, *, public: bool, stall_s: float) -> None:
        """`public`: connect to no other addresses."""
        self._address = address
        self._public = public
        self._stall_s = stall_s
        self._socket: socket.socket | None = None
        self._response: http.client.HTTPResponse | None = None
        self._interrupted = False

    def open(self) -> int | None:
        """Send the request, follow redirects, and return the length of the recording if it is known."""
        address = self._address
        try:
            for _ in range(MOST_REDIRECTS + 1):
                response = self._ask(_parts(address))
                if response.status not in _REDIRECTS:
                    break
                target = urljoin(address, response.headers.get("Location") or "")
                if urlsplit(address).scheme == "https" and urlsplit(target).scheme != "https":
                    raise _failed(self._address, "it redirects to an address that is not encrypted")
                self.close()
                address = target
            else:
                raise _failed(self._address, f"it redirects more than {MOST_REDIRECTS} times")
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _failed(self._address, reason_of(error, self._stall_s)) from None
        if response.status != http.client.OK:
            raise _failed(self._address, f"HTTP status {response.status}")
        return response.length

    def read(self) -> bytes:
        """Return the next bytes; none at the end."""
        assert self._response is not None
        try:
            return self._response.read1(_PIECE)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _failed(self._address, reason_of(error, self._stall_s)) from None

    def interrupt(self) -> None:
        """End it, whatever it waits for."""
        self._interrupted = True
        if self._socket is not None:
            with suppress(OSError):
                # Not the method of a TLS socket, which takes its state away from the thread that reads.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        if self._response is not None:
            self._response.close()
        if self._socket is not None:
            self._socket.close()

    def _ask(self, parts: SplitResult) -> http.client.HTTPResponse:
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        connected = self._connect(host, port)
        if parts.scheme == "https":
            connected = ssl.create_default_context().wrap_socket(connected, server_hostname=host)
            self._socket = connected
        connection = http.client.HTTPConnection(host, port)
        connection.sock = connected
        query = f"?{parts.query}" if parts.query else ""
        target = quote(f"{parts.path or '/'}{query}", safe=_TARGET)
        headers = {
            "Host": parts.netloc.encode("idna").decode(),
            "User-Agent": "streamer",
            "Accept": "audio/*, video/*, */*;q=0.5",
            "Accept-Encoding": "identity",
            "Connection": "close",
        }
        connection.request("GET", target, headers=headers)
        self._response = connection.getresponse()
        return self._response

    def _connect(self, host: str, port: int) -> socket.socket:
        """Connect to an address of this host, if all of them may be used."""
        try:
            found = {str(entry[4][0]): None for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
        except (OSError, UnicodeError):
            found = {}
        # One answer for names that are not there and for those within this network: it does not tell which exist.
        if self._public and not (found and all(map(is_public, found))):
            why = "its host has no public address, and the operator of the service has not allowed others (--fetch any)"
            raise _failed(self._address, why)
        if not found:
            raise _failed(self._address, "its host is not known")
        trouble: OSError | None = None
        for address in list(found)[:_MOST_TRIES]:
            if self._interrupted:
                raise ConnectionAbortedError
            try:
                self._socket = socket.create_connection((address, port), self._stall_s)
            except OSError as error:
                trouble = error
                continue
            if self._interrupted:  # before there was a connection
                self._socket.close()
                raise ConnectionAbortedError
            return self._socket
        assert trouble is not None
        raise trouble


def is_public(address: str) -> bool:
    """Return whether an IP address is of the internet, and not of this machine, its network or another special one."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        within = ip.ipv4_mapped or ip.sixtofour
        if any(ip in network for network in _TRANSLATED):
            within = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if within is not None:
            return is_public(str(within))
        if ip.is_site_local:
            return False
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


def _parts(address: str) -> SplitResult:
    """Return the parts of an address. Raise WireError if it is not one that may be fetched."""
    try:
        parts = urlsplit(address)
        valid = parts.scheme in _PORTS and parts.hostname and parts.port != 0 and parts.username is None
    except ValueError:
        valid = False
    if not valid:
        raise _failed(address, "it must be an address with http or https, without a name and a password")
    return parts


def _failed(address: str, reason: str) -> WireError:
    short = address if len(address) <= 80 else f"{address[:79]}…"
    return bad(ErrorCode.REMOTE_CONTENT, f"The recording at {short!r} cannot be fetched: {reason}.")
