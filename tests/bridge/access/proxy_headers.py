"""Headers of the PROXY protocol, as proxies send them."""

from __future__ import annotations

import ipaddress
import struct

from streamer.bridge.access.proxies import SIGNATURE

LOCAL = SIGNATURE + b"\x20\x00\x00\x00"  # the proxy's own connection, for example a health check


def line(source: str, target: str = "") -> bytes:
    """Return a header of version 1."""
    kind = "TCP6" if ":" in source else "TCP4"
    target = target or ("::1" if ":" in source else "127.0.0.1")
    return f"PROXY {kind} {source} {target} 56324 443\r\n".encode()


def block(source: str, more: bytes = b"", told: int = 0x21, family: int | None = None) -> bytes:
    """Return a header of version 2, with `more` behind the addresses."""
    address = ipaddress.ip_address(source)
    family = family if family is not None else (0x21 if address.version == 6 else 0x11)
    rest = address.packed * 2 + struct.pack("!HH", 56324, 443) + more
    return SIGNATURE + struct.pack("!BBH", told, family, len(rest)) + rest
