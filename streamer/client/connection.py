"""A connection to a service that is being made: the websocket, or a sentence that says why there is none."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_websocket
from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI

from streamer.address import websocket_url

CONNECT_S: Final = 10.0
CLOSE_S: Final = 2.0


class SessionError(Exception):
    """The service refused, failed, or is not there: a code word for programs, a sentence for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


async def dial(address: str, key: str) -> ClientConnection:
    """A websocket to a service, to which this key is shown if there is one; SessionError if it cannot be had."""
    with _clear_errors(shown(address)):
        url = websocket_url(address)
        return await open_websocket(
            url,
            proxy=None if _is_local(url) else True,
            compression=None,  # sound does not get smaller, and the time is the service's
            open_timeout=CONNECT_S,
            # A busy service reads no further: a ping would wait behind minutes of sound.
            ping_interval=None,
            close_timeout=CLOSE_S,
            additional_headers={"Authorization": f"Bearer {key}"} if key else None,
        )


def shown(url: str) -> str:
    """An address for people: without its query, which may hold a key."""
    return url.partition("?")[0]


@contextmanager
def _clear_errors(address: str) -> Iterator[None]:
    """Everything that can happen while a connection is opened as a SessionError."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:  # a ValueError and an OSError, too
        untrusted = f"The certificate of {address} is not trusted ({error.verify_message})"
        raise SessionError("untrusted", f"{untrusted}: SSL_CERT_FILE names a file of roots to trust.") from error
    except (ValueError, InvalidURI) as error:
        raise SessionError("bad_address", str(error)) from error
    except InvalidStatus as error:
        status = error.response.status_code
        later = error.response.headers.get("Retry-After")
        advice = f"; try again in {later} s" if later else ""
        raise SessionError("refused", f"{address} answered with HTTP status {status}{advice}.") from error
    except InvalidHandshake as error:
        raise SessionError("no_service", f"{address} is there, but it is no websocket: {error}.") from error
    except (asyncio.TimeoutError, TimeoutError) as error:
        raise SessionError("away", f"{address} did not answer within {CONNECT_S:g} s.") from error
    except OSError as error:
        raise SessionError("away", f"No service answers at {address}: {_reason(error)}.") from error


def _reason(error: OSError) -> str:
    """The system's words without its numbers."""
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
