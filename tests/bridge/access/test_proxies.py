"""The address of a client, from its connection and from what proxies report."""

from __future__ import annotations

import pytest

from streamer.bridge.access.proxies import Proxies, network_of, plain_address
from streamer.bridge.http.request import Headers

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
