"""Finds the address of a client behind proxies. Only proxies that the operator has named are believed."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from streamer.bridge.http.request import Headers

HEADER = "X-Forwarded-For"


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
