"""Headers of the PROXY protocol: valid ones name the client, and nothing behind them is read."""

from __future__ import annotations

import pytest

from streamer.bridge.access.proxy_protocol import SIGNATURE, ProxyHeaderError, read_source
from tests.bridge.access.proxy_headers import LOCAL, block, line

BEHIND = b"GET / HTTP/1.1\r\n"


async def read(data: bytes) -> tuple[str, bytes]:
    """Return the address that a header names, and what was not read. EOFError if the header is not complete."""
    left = data

    async def receive(size: int) -> bytes:
        nonlocal left
        if len(left) < size:
            raise EOFError
        piece, left = left[:size], left[size:]
        return piece

    return await read_source(receive), left


@pytest.mark.parametrize(
    ("header", "source"),
    [
        (line("192.0.2.7"), "192.0.2.7"),
        (line("2001:db8::7"), "2001:db8::7"),
        (b"PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", "255.255.255.255"),
        (b"PROXY UNKNOWN\r\n", ""),
        (b"PROXY UNKNOWN ffff::1 ffff::1 65535 65535\r\n", ""),
        (block("192.0.2.7"), "192.0.2.7"),
        (block("2001:db8::7"), "2001:db8::7"),
        (block("192.0.2.7", more=b"\x04\x00\x01x" * 1000), "192.0.2.7"),
        (block("192.0.2.7", told=0x20), ""),
        (block("192.0.2.7", family=0x00), ""),
        (SIGNATURE + b"\x21\x31\x00\xd8" + bytes(216), ""),
        (LOCAL, ""),
    ],
)
async def test_valid_headers(header: bytes, source: str) -> None:
    """Both versions name the client, or say that there is none. What follows is left for others."""
    assert await read(header + BEHIND) == (source, BEHIND)


@pytest.mark.parametrize(
    "header",
    [
        BEHIND,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00",  # TLS
        b"proxy TCP4 192.0.2.7 127.0.0.1 1 2\r\n",
        b"PROXY TCP4 192.0.2.7 127.0.0.1 1 2\n",
        b"PROXY TCP4 192.0.2.7 127.0.0.1 1\r\n",
        b"PROXY TCP4 192.0.2.7 127.0.0.1 1 2 3\r\n",
        b"PROXY TCP4 192.0.2.7 127.0.0.1 1 65536\r\n",
        b"PROXY TCP4 192.0.2.7 127.0.0.1 -1 2\r\n",
        b"PROXY TCP4 192.0.2.7 127.0.0.1 1 \xb2\r\n",
        b"PROXY TCP4 192.0.2.07 127.0.0.1 1 2\r\n",
        b"PROXY TCP4 2001:db8::7 ::1 1 2\r\n",
        b"PROXY TCP6 192.0.2.7 127.0.0.1 1 2\r\n",
        b"PROXY TCP4 proxy.example 127.0.0.1 1 2\r\n",
        b"PROXY UDP4 192.0.2.7 127.0.0.1 1 2\r\n",
        b"PROXY  TCP4 192.0.2.7 127.0.0.1 1 2\r\n",
        b"PROXY UNKNOWN " + b"x" * 200,
        block("192.0.2.7", told=0x11),
        block("192.0.2.7", told=0x22),
        block("192.0.2.7", family=0x12),
        block("192.0.2.7", family=0x41),
        SIGNATURE + b"\x21\x11\x00\x04" + bytes(4),
        SIGNATURE + b"\x21\x21\x00\x0c" + bytes(12),
    ],
)
async def test_headers_that_are_not_valid(header: bytes) -> None:
    """Anything else is refused, after at most as many bytes as a header may have."""
    with pytest.raises(ProxyHeaderError):
        await read(header + b" " * 200)


@pytest.mark.parametrize("header", [line("192.0.2.7"), block("2001:db8::7", more=b"more"), LOCAL])
async def test_headers_that_are_cut_short(header: bytes) -> None:
    """A header that ends too early is never taken for a complete one."""
    for size in range(len(header)):
        with pytest.raises(EOFError):
            await read(header[:size])
