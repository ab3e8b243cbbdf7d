"""One connection to a service, from the first attempt to its end. A session may use several, one after the other."""

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
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidProxy, InvalidStatus, InvalidURI
from websockets.frames import Close

from streamer.base.address import addresses_of, websocket_url
from streamer.base.codes import ClientCode, ErrorCode
from streamer.base.text import printable
from streamer.wire.errors import CloseCode
from streamer.wire.native import encode

CONNECT_S: Final = 10.0
# The same if the service has further addresses: one that does not answer in this time holds nobody up.
CONNECT_OF_SEVERAL_S: Final = 3.0
CLOSE_S: Final = 2.0
# A session that is given up may have sent more than the service has read, so its end may never be read.
GIVE_UP_S: Final = 0.3
# The service always reads, and sends a message about new audio twice a second. If it owes an answer, a longer silence
# is a fault.
PATIENCE_S: Final = 90.0
# Close codes of a lost connection: 1006 if no close frame came, the others if a proxy goes away or restarts. The
# service itself uses none of them.
LOST_CODES: Final = (1006, 1001, 1012, 1014)
# Error codes of a service that has ended its session, so another session can go on. Codes of a close without an error.
ENDED: Final = (ErrorCode.FAILED, ErrorCode.NOT_READY, ErrorCode.SHUTTING_DOWN)
UNEXPLAINED: Final = (ClientCode.CLOSED, ErrorCode.FULL)


class SessionError(Exception):
    """The service refuses, has failed, or does not answer. `code` is for programs, the message is for people.

    The words may be those of a stranger's service, so they are one line that steers no terminal.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(printable(message))
        self.code = code


# How an attempt without TLS may end at a port that speaks TLS: no answer, one that is no HTTP, or a refusal.
_PERHAPS_TLS: Final = (ClientCode.AWAY, ClientCode.NO_SERVICE, ClientCode.REFUSED)
TLS_S: Final = 3.0

OnStarting = Callable[[str], None]
"""A function that the client calls with the name of a model, if the service loads it before the session begins."""


class Addresses:
    """The addresses of a service. A client uses one of them until it does not serve, and then the next one."""

    def __init__(self, text: str) -> None:
        """`text`: one address, or several with commas between them."""
        self._addresses = addresses_of(text)
        self._place = 0

    def __len__(self) -> int:
        return len(self._addresses)

    async def dial(self, key: str, on_starting: OnStarting | None = None) -> Connection:
        """Connect to the present address, or to the next one that answers. Raise SessionError if none does."""
        limit_s = CONNECT_S if len(self) == 1 else CONNECT_OF_SEVERAL_S
        for left in reversed(range(len(self))):
            try:
                return await dial(self._addresses[self._place], key, on_starting, limit_s)
            except SessionError as error:
                if error.code not in _PASSED_OVER or not left:
                    raise
                self.pass_over()
        raise AssertionError("there is an address")

    def pass_over(self) -> None:
        """Use the next address from now on."""
        self._place = (self._place + 1) % len(self)


# What is wrong with one address may be well at another one.
_PASSED_OVER: Final = (ClientCode.AWAY, ClientCode.NO_SERVICE, ClientCode.REFUSED)


async def dial(address: str, key: str, on_starting: OnStarting | None = None, limit_s: float = CONNECT_S) -> Connection:
    """Connect to a service, with this key unless it is empty. Raise SessionError if that fails."""
    if not (key.isascii() and key.isprintable()):
        raise SessionError(
            ErrorCode.UNAUTHORIZED, "The key has a line break or another character that no key can have."
        )
    try:
        with _clear_errors(without_query(address), limit_s):
            url = websocket_url(address)
            websocket = await open_websocket(
                url,
                proxy=None if _is_local(url) else True,
                compression=None,  # audio does not become smaller, and compression costs the service time
                open_timeout=limit_s,
                # While a service does not read, a ping would wait behind minutes of audio.
                ping_interval=None,
                close_timeout=CLOSE_S,
                additional_headers={"Authorization": f"Bearer {key}"} if key else None,
            )
    except SessionError as error:
        if error.code in _PERHAPS_TLS and (secure := await _secure_address(address)):
            speaks = f"{without_query(address)} speaks TLS: use {secure}."
            raise SessionError(ClientCode.BAD_ADDRESS, speaks) from error
        raise
    return Connection(without_query(url), websocket, on_starting)


class Connection:
    """A websocket that carries messages both ways. After its end, its methods raise SessionError with the reason."""

    def __init__(self, url: str, websocket: ClientConnection, on_starting: OnStarting | None) -> None:
        self.url = url
        self._on_starting = on_starting
        self.patience_s = PATIENCE_S
        self._websocket = websocket
        self._receiving: asyncio.Task[str | bytes] | None = None
        self._overdue = ""
        self._closing: asyncio.Task[None] | None = None

    def service_ended(self, error: SessionError) -> bool:
        """Return whether this error means that the service has ended its session: it shuts down, or has failed."""
        # A sender may notice the close before the receiver has read the message with the reason.
        closed = error.code in UNEXPLAINED and self._websocket.close_code in (CloseCode.FAILED, CloseCode.TRY_LATER)
        return closed or error.code in ENDED

    def recogniser_failed(self, error: SessionError) -> bool:
        """Return whether this error means that the recogniser has failed on the audio of the session."""
        closed = error.code == ClientCode.CLOSED and self._websocket.close_code == CloseCode.FAILED
        return closed or error.code == ErrorCode.FAILED

    async def open(self, start: Mapping[str, object]) -> dict[str, Any]:
        """Begin or resume a session. Return the answer of the service, which is `ready`."""
        # The service may refuse the session before it reads. Then sending fails, and its answer has the reason.
        with suppress(SessionError):
            await self.send(encode({"type": "start", **start}))
        while True:
            answer = await self.receive(self.patience_s)
            if answer is None:
                raise self.overdue("has sent nothing")
            if answer["type"] == "ready":
                return answer
            if answer["type"] != "starting":
                raise self._protocol_error(answer)
            if self._on_starting:
                self._on_starting(printable(str(answer.get("model", ""))))

    async def send(self, message: str | bytes) -> None:
        """Send a message. Wait while the service does not read."""
        timer = asyncio.get_running_loop().call_later(self.patience_s, self.overdue, "has read nothing")
        try:
            await self._websocket.send(message)
        except ConnectionClosed as error:
            raise self._end_error(error.rcvd) from error
        except AttributeError as error:  # as in _close_websocket
            raise self._end_error(self._websocket.protocol.close_rcvd) from error
        finally:
            timer.cancel()

    async def receive(self, limit_s: float) -> dict[str, Any] | None:
        """Return the next message, or None if none comes within this time or another task takes it."""
        # This must not use wait_for: before Python 3.12 it loses a cancellation, such as a Ctrl-C, that comes together
        # with the result. And with a separate task, no message is lost when the waiting task is cancelled.
        receiving = self._receiving = self._receiving or self._start_receiving()
        await asyncio.wait({receiving}, timeout=limit_s)
        if not receiving.done() or self._receiving is not receiving:
            return None
        self._receiving = None
        if receiving.cancelled():
            raise self._lost_error()
        try:
            return self._read(receiving.result())
        except ConnectionClosed as error:
            raise self._end_error(error.rcvd) from error

    def overdue(self, complaint: str) -> SessionError:
        """Close the connection because the service has missed a deadline. All waiting tasks get this reason."""
        self._overdue = f"The service at {self.url} {complaint} for {self.patience_s:g} s."
        self._closing = asyncio.create_task(self._close_websocket())
        return SessionError(ClientCode.OVERDUE, self._overdue)

    def abort(self) -> None:
        """End the connection at once, without a close frame."""
        with suppress(AttributeError):  # as in _close_websocket
            self._websocket.transport.abort()

    async def close(self, limit_s: float = CLOSE_S) -> None:
        """Close the connection, even if messages are still on their way. A service that reads nothing is left soon."""
        closing = asyncio.ensure_future(self._close_websocket())
        await asyncio.wait({closing}, timeout=limit_s)
        if not closing.done():
            self.abort()
        await closing
        if self._receiving is not None:
            self._receiving.cancel()
            await asyncio.gather(self._receiving, return_exceptions=True)
        if self._closing is not None:
            await self._closing

    async def _close_websocket(self) -> None:
        # asyncio fails if a transport is aborted that has closed itself once its last data was written. websockets
        # aborts it at its own limit, so at that moment this can happen. The connection is gone then.
        with suppress(AttributeError):
            await self._websocket.close()

    def _start_receiving(self) -> asyncio.Task[str | bytes]:
        """Receive a message in another task. The callback keeps Python from reporting an error that nobody reads."""
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
            raise self._protocol_error(message)
        if event["type"] == "error" and event.get("fatal", True):
            reason = str(event.get("message", "The service gave no reason."))
            raise SessionError(str(event.get("code", ErrorCode.FAILED)), reason)
        return event

    def _protocol_error(self, message: object) -> SessionError:
        return SessionError(
            ClientCode.NOT_UNDERSTOOD, f"{self.url} does not speak Streamer's protocol: {message!r:.80}"
        )

    def _lost_error(self) -> SessionError:
        return SessionError(ClientCode.LOST, f"The connection to {self.url} was lost.")

    def _end_error(self, close: Close | None) -> SessionError:
        """Return the error for this close frame of the service, or for none."""
        if self._overdue:
            return SessionError(ClientCode.OVERDUE, self._overdue)
        if close is None or close.code in LOST_CODES:
            return self._lost_error()
        if close.code == CloseCode.TRY_LATER:
            return SessionError(
                ErrorCode.FULL, f"The service at {self.url} is full: {close.reason or 'try again later'}."
            )
        reason = f"{close.reason} (code {close.code})" if close.reason else f"code {close.code}"
        return SessionError(
            ClientCode.CLOSED, f"The service at {self.url} closed the session before its end: {reason}."
        )


async def _secure_address(address: str) -> str:
    """Return the address with TLS if the service speaks TLS and the address says otherwise. Empty if not."""
    parts = urlsplit(websocket_url(address))
    if parts.scheme != "ws":
        return ""
    # Only to see whether there is TLS: nothing is sent, so nobody needs to be trusted.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    opening = asyncio.ensure_future(asyncio.open_connection(parts.hostname, parts.port or 80, ssl=context))
    try:
        _, writer = await asyncio.wait_for(opening, TLS_S)
    except (OSError, asyncio.TimeoutError):  # also an ssl.SSLError
        return ""
    writer.transport.abort()
    return f"wss://{parts.netloc}"


def without_query(url: str) -> str:
    """Return an address without its query, which may have a key, for messages and logs."""
    return url.partition("?")[0]


@contextmanager
def _clear_errors(address: str, limit_s: float) -> Iterator[None]:
    """Turn every error while a connection opens into a SessionError with a clear sentence."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:  # also a ValueError and an OSError, so it comes first
        untrusted = f"The certificate of {address} is not trusted ({error.verify_message})"
        raise SessionError(
            ClientCode.UNTRUSTED, f"{untrusted}: set SSL_CERT_FILE to a file of trusted roots."
        ) from error
    except (ValueError, InvalidURI) as error:
        raise SessionError(ClientCode.BAD_ADDRESS, str(error)) from error
    except InvalidProxy as error:  # its own message has the password of the proxy
        raise SessionError(
            ClientCode.BAD_ADDRESS, f"The proxy in the settings of this machine cannot be used: {error.msg}."
        ) from error
    except ImportError as error:
        raise SessionError(
            ClientCode.BAD_ADDRESS,
            "The settings of this machine name a SOCKS proxy, which needs another package: pip install python-socks.",
        ) from error
    except InvalidStatus as error:
        status = error.response.status_code
        later = error.response.headers.get("Retry-After")
        advice = f"; try again in {later} s" if later else ""
        raise SessionError(ClientCode.REFUSED, f"{address} answered with HTTP status {status}{advice}.") from error
    except InvalidHandshake as error:
        raise SessionError(
            ClientCode.NO_SERVICE, f"{address} answers, but is not a websocket service: {error}."
        ) from error
    except (asyncio.TimeoutError, TimeoutError) as error:
        raise SessionError(ClientCode.AWAY, f"{address} did not answer within {limit_s:g} s.") from error
    except OSError as error:
        raise SessionError(ClientCode.AWAY, f"No service answers at {address}: {_reason(error)}.") from error


def _reason(error: OSError) -> str:
    """Return the reason of an error of the system, without its number."""
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
