"""One connection to a service, from the first attempt to its end. A session may have several, one after the other."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_websocket
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from streamer.address import websocket_url
from streamer.wire.errors import CloseCode
from streamer.wire.native import encode

CONNECT_S: Final = 10.0
CLOSE_S: Final = 2.0
# A service always reads, and acknowledges audio twice a second. If an answer is due, such a long silence is a fault.
PATIENCE_S: Final = 90.0
# Close codes of a lost connection: 1006 if nobody said goodbye, the others if a proxy goes away or restarts. The
# service itself uses none of them.
LOST_ON_THE_WAY: Final = (1006, 1001, 1012, 1014)
# Error codes after which another session can continue, and codes of a close without an error message.
ENDED: Final = ("failed", "not_ready", "shutting_down")
UNEXPLAINED: Final = ("closed", "full")


class SessionError(Exception):
    """The service refused, failed, or is not there. `code` is for programs, the message is for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


OnStarting = Callable[[str], None]
"""Is called with the name of a model that the service loads before the session begins."""


async def dial(address: str, key: str, on_starting: OnStarting | None = None) -> Connection:
    """Connect to a service, and show it this key if there is one. SessionError if that fails."""
    if not (key.isascii() and key.isprintable()):
        raise SessionError("unauthorized", "The key has a line break or another character that no key can have.")
    with _clear_errors(shown(address)):
        url = websocket_url(address)
        websocket = await open_websocket(
            url,
            proxy=None if _is_local(url) else True,
            compression=None,  # audio does not get smaller, and trying costs the service time
            open_timeout=CONNECT_S,
            # A busy service stops reading, so a ping would wait behind minutes of audio.
            ping_interval=None,
            close_timeout=CLOSE_S,
            additional_headers={"Authorization": f"Bearer {key}"} if key else None,
        )
    return Connection(shown(url), websocket, on_starting)


class Connection:
    """A websocket that carries messages both ways. SessionError says why it has ended."""

    def __init__(self, url: str, websocket: ClientConnection, on_starting: OnStarting | None) -> None:
        self.url = url
        self._on_starting = on_starting
        self.patience_s = PATIENCE_S
        self._websocket = websocket
        self._receiving: asyncio.Task[str | bytes] | None = None
        self._overdue = ""
        self._closing: asyncio.Task[None] | None = None

    def ended(self, error: SessionError) -> bool:
        """Whether this error means that the service is shutting down, or that its recogniser has failed."""
        # A sender may see the close before the message with the reason has been read.
        closed = error.code in UNEXPLAINED and self._websocket.close_code in (CloseCode.FAILED, CloseCode.TRY_LATER)
        return closed or error.code in ENDED

    async def open(self, start: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a session, or resume one. Returns the answer of the service, which is `ready`."""
        # The service may refuse before it has read anything. Then sending fails, and the answer says why.
        with suppress(SessionError):
            await self.send(encode({"type": "start", **start}))
        while True:
            answer = await self.receive(self.patience_s)
            if answer is None:
                raise self.overdue("has sent nothing")
            if answer["type"] == "ready":
                return answer
            if answer["type"] != "starting":
                raise self._nonsense(answer)
            if self._on_starting:
                self._on_starting(str(answer.get("model", "")))

    async def send(self, message: str | bytes) -> None:
        """Send a message. Waits while the service does not read."""
        timer = asyncio.get_running_loop().call_later(self.patience_s, self.overdue, "has read nothing")
        try:
            await self._websocket.send(message)
        except ConnectionClosed as error:
            raise self._ended(error) from error
        finally:
            timer.cancel()

    async def receive(self, limit_s: float) -> dict[str, Any] | None:
        """Return the next message. None if none comes within this time, or if another task has taken it."""
        # Not with wait_for: before Python 3.12 it can swallow a cancellation that comes together with the result, so a
        # Ctrl-C would be lost. This way no message is lost either when the waiting task is cancelled.
        receiving = self._receiving = self._receiving or self._received()
        await asyncio.wait({receiving}, timeout=limit_s)
        if not receiving.done() or self._receiving is not receiving:
            return None
        self._receiving = None
        if receiving.cancelled():
            raise self._lost()
        try:
            return self._read(receiving.result())
        except ConnectionClosed as error:
            raise self._ended(error) from error

    def overdue(self, complaint: str) -> SessionError:
        """The service has missed a deadline: close the connection, and give all waiting tasks the reason."""
        self._overdue = f"The service at {self.url} {complaint} for {self.patience_s:g} s."
        self._closing = asyncio.create_task(self._websocket.close())
        return SessionError("overdue", self._overdue)

    def abort(self) -> None:
        """End the connection without a goodbye."""
        self._websocket.transport.abort()

    async def close(self) -> None:
        """Close the connection, even if messages are still on their way."""
        await self._websocket.close()
        if self._receiving is not None:
            self._receiving.cancel()
            await asyncio.gather(self._receiving, return_exceptions=True)
        if self._closing is not None:
            await self._closing

    def _received(self) -> asyncio.Task[str | bytes]:
        """Receive a message in a task of its own. Python does not complain if nobody asks how it ended."""
        task = asyncio.create_task(self._websocket.recv())
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    def _read(self, message: str | bytes) -> dict[str, Any]:
        event: Any
        try:
            event = json.loads(message)
        except ValueError:
            event = None
        if not isinstance(event, dict) or not isinstance(event.get("type"), str):
            raise self._nonsense(message)
        if event["type"] == "error" and event.get("fatal", True):
            raise SessionError(event.get("code", "failed"), event.get("message", "The service gave no reason."))
        return event

    def _nonsense(self, message: object) -> SessionError:
        return SessionError("not_understood", f"{self.url} does not speak Streamer's protocol: {message!r:.80}")

    def _lost(self) -> SessionError:
        return SessionError("lost", f"The connection to {self.url} was lost.")

    def _ended(self, error: ConnectionClosed) -> SessionError:
        if self._overdue:
            return SessionError("overdue", self._overdue)
        closed = error.rcvd
        if closed is None or closed.code in LOST_ON_THE_WAY:
            return self._lost()
        if closed.code == CloseCode.TRY_LATER:
            return SessionError("full", f"The service at {self.url} is full: {closed.reason or 'try again later'}.")
        reason = f"{closed.reason} (code {closed.code})" if closed.reason else f"code {closed.code}"
        return SessionError("closed", f"The service at {self.url} closed the session before its end: {reason}.")


def shown(url: str) -> str:
    """The address as people may see it: without its query, which may hold a key."""
    return url.partition("?")[0]


@contextmanager
def _clear_errors(address: str) -> Iterator[None]:
    """Turn every error of opening a connection into a SessionError."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:  # also a ValueError and an OSError, so it comes first
        untrusted = f"The certificate of {address} is not trusted ({error.verify_message})"
        raise SessionError("untrusted", f"{untrusted}: set SSL_CERT_FILE to a file of trusted roots.") from error
    except (ValueError, InvalidURI) as error:
        raise SessionError("bad_address", str(error)) from error
    except InvalidStatus as error:
        status = error.response.status_code
        later = error.response.headers.get("Retry-After")
        advice = f"; try again in {later} s" if later else ""
        raise SessionError("refused", f"{address} answered with HTTP status {status}{advice}.") from error
    except InvalidHandshake as error:
        raise SessionError("no_service", f"{address} answers, but is not a websocket service: {error}.") from error
    except (asyncio.TimeoutError, TimeoutError) as error:
        raise SessionError("away", f"{address} did not answer within {CONNECT_S:g} s.") from error
    except OSError as error:
        raise SessionError("away", f"No service answers at {address}: {_reason(error)}.") from error


def _reason(error: OSError) -> str:
    """What the system says, without its error number."""
    if isinstance(error, ConnectionRefusedError):
        return "the connection was refused"
    return (error.strerror or str(error) or type(error).__name__).strip().rstrip(".")


def _is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
