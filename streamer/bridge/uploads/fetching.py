"""Fetches the recording at an address that a client names. Each redirect is checked like the first address."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar
from urllib.parse import urljoin, urlsplit

from streamer.base.codes import ErrorCode
from streamer.base.web_address import MOST_REDIRECTS, STALL_S, reason_of
from streamer.bridge.access.quotas import Fetch, UploadLimits
from streamer.bridge.http.outgoing import TROUBLE, Exchange, Unreachable
from streamer.wire.errors import WireError, bad

_REDIRECTS: Final = (301, 302, 303, 307, 308)
_PIECE: Final = 1 << 16  # bytes
_HEADERS: Final = {"Accept": "audio/*, video/*, */*;q=0.5"}
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
        self._stall_s = stall_s
        self._exchange = Exchange(stall_s, remedy="--fetch any" if public else "")
        self._response: http.client.HTTPResponse | None = None

    def open(self) -> int | None:
        """Send the request, follow redirects, and return the length of the recording if it is known."""
        address = self._address
        try:
            for _ in range(MOST_REDIRECTS + 1):
                self._response = response = self._exchange.ask(address, _HEADERS)
                if response.status not in _REDIRECTS:
                    break
                target = urljoin(address, response.headers.get("Location") or "")
                if urlsplit(address).scheme == "https" and urlsplit(target).scheme != "https":
                    raise Unreachable("it redirects to an address that is not encrypted")
                self._exchange.close()
                address = target
            else:
                raise Unreachable(f"it redirects more than {MOST_REDIRECTS} times")
        except Unreachable as error:
            raise _failed(self._address, str(error)) from None
        except TROUBLE as error:
            raise _failed(self._address, reason_of(error, self._stall_s)) from None
        if response.status != http.client.OK:
            raise _failed(self._address, f"HTTP status {response.status}")
        return response.length

    def read(self) -> bytes:
        """Return the next bytes; none at the end."""
        assert self._response is not None
        try:
            return self._response.read1(_PIECE)
        except TROUBLE as error:
            raise _failed(self._address, reason_of(error, self._stall_s)) from None

    def interrupt(self) -> None:
        """End it, whatever it waits for."""
        self._exchange.interrupt()

    def close(self) -> None:
        """Close the connection."""
        self._exchange.close()


def _failed(address: str, reason: str) -> WireError:
    short = address if len(address) <= 80 else f"{address[:79]}…"
    return bad(ErrorCode.REMOTE_CONTENT, f"The recording at {short!r} cannot be fetched: {reason}.")
