"""Requests to other machines whose addresses clients name, to public ones only unless the operator allows all.

A name is looked up once, and the connection goes to the address that was checked, without a proxy: a name that means
another machine a moment later changes nothing. The client is that of the standard library, in a thread: around h11,
which reads the requests of the port, sockets, TLS and limits would have to be written once more, and a library with all
of that would be needed for nothing else.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import SplitResult, quote, urlsplit

_PORTS: Final = {"http": 80, "https": 443}
_MOST_TRIES: Final = 3  # addresses of one name
_TARGET: Final = "/%:@!$&'()*+,;=~-._?"  # characters that stay as they are in a path and a query
# IPv6 networks that mean addresses of IPv4, which are in their last 32 bits.
_TRANSLATED: Final = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "64:ff9b:1::/48")))

# What may go wrong while a request is sent and its answer is read; reason_of() explains it.
TROUBLE: Final = (OSError, http.client.HTTPException, ValueError)


class Unreachable(Exception):
    """An address that is not used. The message is a part of a sentence that says why."""


class Exchange:
    """A request and its answer. All but interrupt() may block, and that makes the others return."""

    def __init__(self, stall_s: float, *, remedy: str = "", context: ssl.SSLContext | None = None) -> None:
        """`stall_s`: how long it waits for data. `context`: for TLS.

        `remedy`: connect to public addresses only; this is the setting by which the operator allows others.
        """
        self._stall_s = stall_s
        self._remedy = remedy
        self._context = context
        self._socket: socket.socket | None = None
        self._response: http.client.HTTPResponse | None = None
        self._interrupted = False

    def ask(
        self, address: str, headers: Mapping[str, str], method: str = "GET", body: bytes | None = None
    ) -> http.client.HTTPResponse:
        """Send a request, and return the answer before its content. Raise Unreachable, or one of TROUBLE."""
        parts = parts_of(address)
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        connected = self._connect(host, port)
        if parts.scheme == "https":
            context = self._context or ssl.create_default_context()
            connected = context.wrap_socket(connected, server_hostname=host)
            self._socket = connected
        connection = http.client.HTTPConnection(host, port)
        connection.sock = connected
        query = f"?{parts.query}" if parts.query else ""
        target = quote(f"{parts.path or '/'}{query}", safe=_TARGET)
        own = {
            "Host": parts.netloc.encode("idna").decode(),
            "User-Agent": "streamer",
            "Accept-Encoding": "identity",
            "Connection": "close",
        }
        connection.request(method, target, body, {**own, **headers})
        self._response = connection.getresponse()
        return self._response

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

    def _connect(self, host: str, port: int) -> socket.socket:
        """Connect to an address of this host, if all of them may be used."""
        try:
            found = {str(entry[4][0]): None for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
        except (OSError, UnicodeError):
            found = {}
        # One answer for names that are not there and for those within this network: it does not tell which exist.
        if self._remedy and not (found and all(map(is_public, found))):
            allowed = f"the operator of the service has not allowed others ({self._remedy})"
            raise Unreachable(f"its host has no public address, and {allowed}")
        if not found:
            raise Unreachable("its host is not known")
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


def parts_of(address: str) -> SplitResult:
    """Return the parts of an address. Raise Unreachable if it is not one that may be asked."""
    try:
        parts = urlsplit(address)
        valid = parts.scheme in _PORTS and parts.hostname and parts.port != 0 and parts.username is None
    except ValueError:
        valid = False
    if not valid:
        raise Unreachable("it must be an address with http or https, without a name and a password")
    return parts
