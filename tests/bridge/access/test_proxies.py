"""The address of a client, from its connection, from headers of proxies, and by the PROXY protocol."""

from __future__ import annotations

import pytest

from streamer.bridge.access.proxies import SIGNATURE, Proxies, ProxyHeaderError, network_of, plain_address, read_source
from streamer.bridge.http.request import Headers
from tests.bridge.access.proxy_headers import LOCAL, block, line

INSIDE = ("10.0.0.0/8", "127.0.0.1", "2001:db8:aa::/48")


def client(told: tuple[str, ...], peer: str, proxies: Proxies) -> str:
    return proxies.client_of(Headers(("X-Forwarded-For", value) for value in told), peer)


@pytest.mark.parametrize(
    ("peer", "told", "expected"),
    [
        # Nobody in between, or nobody who is trusted: the claim does not count.
        ("192.0.2.7", (), "192.0.2.7"),
        ("192.0.2.7", ("198.51.100.1",), "192.0.2.7"),
        ("192.0.2.7", ("10.0.0.1",), "192.0.2.7"),
        ("2001:db8:bb::1", ("198.51.100.1",), "2001:db8:bb::1"),
        # One proxy: what it has added counts, whatever the client had written before it.
        ("10.0.0.5", (), "10.0.0.5"),
        ("10.0.0.5", ("198.51.100.1",), "198.51.100.1"),
        ("10.0.0.5", ("198.51.100.1, 192.0.2.7",), "192.0.2.7"),
        ("10.0.0.5", ("10.0.0.1, nonsense, 192.0.2.7",), "192.0.2.7"),
        ("10.0.0.5", ("198.51.100.1", "192.0.2.7"), "192.0.2.7"),
        # Several proxies in a row: the rightmost address that is not a proxy's.
        ("10.0.0.5", ("203.0.113.9, 192.0.2.7, 10.0.0.4",), "192.0.2.7"),
        ("10.0.0.5", ("192.0.2.7, 2001:db8:aa::1", "10.0.0.4"), "192.0.2.7"),
        ("127.0.0.1", ("10.0.0.3,10.0.0.4",), "10.0.0.3"),
        # What cannot be read ends the chain. The last proxy that could be read counts, never an address further left.
        ("10.0.0.5", ("198.51.100.1, nonsense",), "10.0.0.5"),
        ("10.0.0.5", ("198.51.100.1, unknown, 10.0.0.4",), "10.0.0.4"),
        ("10.0.0.5", ("198.51.100.1, ",), "10.0.0.5"),
        ("10.0.0.5", ("",), "10.0.0.5"),
        ("10.0.0.5", ("198.51.100.1, 999.1.1.1",), "10.0.0.5"),
        ("10.0.0.5", ("198.51.100.1, " + "9" * 5000,), "10.0.0.5"),
        # Other ways of writing an address.
        ("::ffff:10.0.0.5", ("::ffff:192.0.2.7",), "192.0.2.7"),
        ("10.0.0.5", ("192.0.2.7:4711",), "192.0.2.7"),
        ("10.0.0.5", ('"[2001:DB8:bb::1]:4711"',), "2001:db8:bb::1"),
        ("2001:db8:aa::2%eth0", ("2001:db8:bb:0::1",), "2001:db8:bb::1"),
    ],
)
def test_the_address_of_a_client(peer: str, told: tuple[str, ...], expected: str) -> None:
    """A chain of trusted proxies is followed from the right, as far as it can be read."""
    assert client(told, peer, Proxies(INSIDE)) == expected


@pytest.mark.parametrize(
    ("number", "told", "expected"),
    [
        (0, "192.0.2.7", "10.0.0.5"),
        (1, "192.0.2.7", "192.0.2.7"),
        (1, "192.0.2.7, 10.0.0.4", "10.0.0.4"),
        (2, "192.0.2.7, 10.0.0.4", "192.0.2.7"),
        (2, "192.0.2.7", "10.0.0.5"),
        (1, "nonsense", "10.0.0.5"),
    ],
)
def test_proxies_that_are_only_counted(number: int, told: str, expected: str) -> None:
    """With a number of proxies, the entry at that place from the right counts."""
    assert client((told,), "10.0.0.5", Proxies(number=number)) == expected


def test_networks() -> None:
    """Networks are written in one way; one with bits behind its prefix, or with all addresses, is not accepted."""
    assert [network_of(text) for text in ("10.1.2.3", "10.0.0.0/8", "2001:DB8::/32", "::1")] == [
        "10.1.2.3/32",
        "10.0.0.0/8",
        "2001:db8::/32",
        "::1/128",
    ]
    for text in ("", "10.0.0.1/8", "0.0.0.0/0", "::/0", "proxy.example", "10.0.0.0/33", "10.0.0.0-10.0.0.9"):
        assert network_of(text) is None


def test_who_is_trusted() -> None:
    """An address is compared as a number: IPv4 in the form of IPv6 is IPv4, and a zone does not matter."""
    proxies = Proxies(("10.0.0.0/8", "fe80::/10"))
    assert all(map(proxies.trusts, ("10.9.9.9", "::ffff:10.9.9.9", "fe80::1%eth0")))
    assert not any(map(proxies.trusts, ("11.0.0.1", "::10.0.0.1", "", "proxy")))
    assert not Proxies(number=1).trusts("10.0.0.1")
    assert plain_address("[::1]:80") == "::1"


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
