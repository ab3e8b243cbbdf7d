"""Reads the header of the PROXY protocol, versions 1 and 2, in which a proxy names the client of a connection.

It comes before everything else, even before TLS. https://www.haproxy.org/download/2.6/doc/proxy-protocol.txt
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Awaitable, Callable
from typing import Final

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
