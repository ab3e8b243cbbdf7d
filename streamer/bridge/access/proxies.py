"""Finds the address of a client behind proxies, in their headers or by the PROXY protocol. Only named proxies count."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from streamer.bridge.http.request import Headers

HEADER = "X-Forwarded-For"
HOST_HEADER = "X-Forwarded-Host"
MOST_HOSTS = 4  # names of a service in one request


class Proxies:
    """The proxies in front of a service, given by their addresses, or only by their number.

    Each proxy appends to the header the address that it saw. Anything further left was sent by the client itself.
    """

    def __init__(self, networks: Iterable[str] = (), *, number: int = 0) -> None:
        """`networks`: where the proxies are; `number`: how many there are, if their addresses are not known.

        Without both, nobody is believed.
        """
        self._networks = tuple(ipaddress.ip_network(network) for network in networks)
        self._number = number

    @property
    def counted(self) -> bool:
        """Whether only the number of the proxies is known."""
        return self._number > 0

    def trusts(self, address: str) -> bool:
        """Return whether one of the proxies has this address."""
        return bool(plain := plain_address(address)) and self._holds(plain)

    def client_of(self, headers: Headers, peer: str) -> str:
        """Return the address of the client: the one that the outermost believed proxy has seen."""
        client = plain_address(peer) or peer
        entries = ",".join(headers.all(HEADER)).split(",")
        if self._number:
            return (plain_address(entries[-self._number]) if len(entries) >= self._number else "") or client
        # Read from the right: an entry counts only if the proxy that wrote it is believed.
        while entries and self.trusts(client) and (address := plain_address(entries.pop())):
            client = address
        return client

    def hosts_of(self, headers: Headers, peer: str) -> list[str]:
        """Return the names under which the client may have seen the service, as the request and its proxies say."""
        hosts = headers.all("Host")
        if self._number or self.trusts(peer):
            hosts += [host.strip() for host in ",".join(headers.all(HOST_HEADER)).split(",")]
        return list(dict.fromkeys(filter(None, hosts)))[:MOST_HOSTS]

    def _holds(self, plain: str) -> bool:
        address = ipaddress.ip_address(plain)
        return any(address in network for network in self._networks)


def network_of(text: str) -> str | None:
    """Return an address or network in its usual form; None if it is not one, or if it contains every address."""
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        return None
    return str(network) if network.prefixlen else None


def plain_address(text: str) -> str:
    """Return an address without port and brackets, and IPv4 in its own form; "" if the text is not an address."""
    text = text.strip().strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return ""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


# Reads the header of the PROXY protocol, versions 1 and 2, in which a proxy names the client of a connection.

SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"  # of version 2
_WORD: Final = b"PROXY "  # of version 1
_LONGEST_LINE: Final = 107
_MOST_PORT: Final = 65535
_VERSION: Final = 2
_LOCAL, _PROXY = 0, 1
# One byte names the family and the transport. Only TCP is supported.
_NO_ADDRESS: Final = (0x00, 0x31)  # unknown, and a Unix socket
_TCP4, _TCP6 = 0x11, 0x21
_IPV4_BYTES, _IPV6_BYTES, _PORT_BYTES = 4, 16, 2  # the sizes of an address and of a port


class ProxyHeaderError(Exception):
    """The connection does not begin with a valid header. The message says what is wrong, for the log."""


async def read_source(receive: Callable[[int], Awaitable[bytes]]) -> str:
    """Read a header; return the address of the client, or "" if the connection is the proxy's own.

    `receive` returns exactly the number of bytes in its argument, so that nothing behind the header is read.
    """
    # Even the shortest line is longer than this.
    start = await receive(len(SIGNATURE))
    if start == SIGNATURE:
        version_and_command, family, length = struct.unpack("!BBH", await receive(4))
        return _source_of_bytes(version_and_command, family, await receive(length))
    if not start.startswith(_WORD):
        raise ProxyHeaderError("there is no header")
    while not start.endswith(b"\n"):
        if len(start) == _LONGEST_LINE:
            raise ProxyHeaderError("the line is too long")
        start += await receive(1)
    return _source_of_line(start)


def _source_of_line(line: bytes) -> str:
    """Read version 1, for example `PROXY TCP4 192.0.2.1 198.51.100.1 56324 443`."""
    if not line.endswith(b"\r\n"):
        raise ProxyHeaderError("the line does not end with CR LF")
    words = line[:-2].decode("ascii", errors="replace").split(" ")
    if words[1] == "UNKNOWN":
        return ""
    kinds: dict[str, type[ipaddress.IPv4Address | ipaddress.IPv6Address]]
    kinds = {"TCP4": ipaddress.IPv4Address, "TCP6": ipaddress.IPv6Address}
    kind = kinds.get(words[1])
    if kind is None or len(words) != 6 or not all(map(_is_port, words[4:])):
        raise ProxyHeaderError("the line is not valid")
    try:
        source, _ = kind(words[2]), kind(words[3])
    except ValueError:
        raise ProxyHeaderError("the line has an address that is not valid") from None
    return str(source)


def _source_of_bytes(version_and_command: int, family: int, rest: bytes) -> str:
    """Read version 2. What follows the addresses does not matter here."""
    version, command = version_and_command >> 4, version_and_command & 0x0F
    if version != _VERSION or command not in (_LOCAL, _PROXY):
        raise ProxyHeaderError("the version or the command is unknown")
    if command == _LOCAL or family in _NO_ADDRESS:
        return ""
    size = {_TCP4: _IPV4_BYTES, _TCP6: _IPV6_BYTES}.get(family)
    if size is None:
        raise ProxyHeaderError("the kind of address is unknown")
    if len(rest) < 2 * (size + _PORT_BYTES):
        raise ProxyHeaderError("the addresses are cut short")
    return str(ipaddress.ip_address(rest[:size]))


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= len(str(_MOST_PORT)) and int(text) <= _MOST_PORT
