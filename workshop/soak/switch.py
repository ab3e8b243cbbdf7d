"""A switch between network namespaces that delays, loses and reorders packets, and cuts links in one or both ways.

    python -m workshop.soak.switch

Each node has an interface in a namespace of its own, whose other end is here. The switch copies packets from one end
to another, by their IPv4 address. `tc netem` could do the same, but many kernels are built without it, and this works
for every user who can make a namespace. It imports nothing but the standard library, and runs as a process of its own,
so that what else a test does delays no packet.

Standard input has an order in each line, as JSON: `ends` (the interfaces), `routes` (for each address the end and the
link that lead to it), `gone` (addresses that nobody has any more), `links` (what happens in one way of a link). Each is
answered by what happened to packets so far. At the end of standard input it ends.
"""

from __future__ import annotations

import heapq
import json
import random
import select
import socket
import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import TypedDict

ALL_PROTOCOLS = 3  # ETH_P_ALL
SOL_PACKET, IGNORE_OUTGOING, VNET_HEADER = 263, 23, 15
# A packet begins with a header by which the kernel says what it has left to the hardware: checksums, and pieces.
HEADER, ETHERNET, IPV4 = 10, 14, b"\x08\x00"
LARGEST = HEADER + ETHERNET + (1 << 16)
AT_ONCE = 64  # packets of one interface before it is the turn of the next
MOST_WAITING = 20_000  # packets that are delayed; more are lost, as in a full queue
BUFFER = 4 << 20


@dataclass(frozen=True)
class Way:
    """What happens to packets that go one way over a link."""

    cut: bool = False
    delay_s: float = 0.0
    jitter_s: float = 0.0  # up to this much more delay
    loss: float = 0.0  # the part of all packets that is lost
    reorder: float = 0.0  # the part that overtakes those that are delayed

    def __and__(self, other: Way) -> Way:
        """Both one after the other."""
        return Way(
            self.cut or other.cut,
            self.delay_s + other.delay_s,
            self.jitter_s + other.jitter_s,
            1 - (1 - self.loss) * (1 - other.loss),
            1 - (1 - self.reorder) * (1 - other.reorder),
        )


CLEAR = Way()
PACKETS_TO, BYTES_TO = "packets to ", "bytes to "
OUT, IN = "out", "in"  # from the node, and to it


class Order(TypedDict, total=False):
    """What the switch is told. All of it may be missing: then it only says what happened to packets."""

    ends: dict[str, str]  # interfaces, by the names of ends
    routes: dict[str, tuple[str, str]]  # the end and the link that lead to an address
    gone: list[str]  # addresses
    links: list[tuple[str, str, bool, float, float, float, float]]  # link, way, and the fields of `Way`


class Switch:
    """Copies packets between interfaces."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._ends: dict[str, socket.socket] = {}
        self._counted: dict[str, tuple[str, str]] = {}  # what packets to an end and their bytes are counted as
        self._routes: dict[bytes, tuple[str, str]] = {}
        self._ways: dict[tuple[str, str], Way] = {}
        self._waiting: list[tuple[float, int, socket.socket, bytes]] = []
        self._number = 0
        self._latest: dict[tuple[bytes, bytes], float] = {}  # when the last delayed packet between two addresses leaves
        self._random = random.Random(0)

    def obey(self, order: Order) -> None:
        """Follow one order."""
        for name, interface in order.get("ends", {}).items():
            self._ends[name] = _listen(interface)
            self._counted[name] = f"{PACKETS_TO}{name}", f"{BYTES_TO}{name}"
        for address, (end, link) in order.get("routes", {}).items():
            self._routes[socket.inet_aton(address)] = end, link
        for address in order.get("gone", []):
            self._routes.pop(socket.inet_aton(address), None)
        for link, way, cut, *amounts in order.get("links", []):
            whole = Way(cut, *amounts)
            self._ways[link, way] = CLEAR if whole == CLEAR else whole

    def run(self) -> None:
        """Copy packets until standard input ends."""
        orders = sys.stdin.fileno()
        poll = select.epoll()
        poll.register(orders, select.EPOLLIN)
        by_number: dict[int, socket.socket] = {}
        while True:
            wait = -1.0 if not self._waiting else max(0.0, self._waiting[0][0] - time.monotonic())
            for number, _ in poll.poll(wait):
                if number != orders:
                    self._take(by_number[number])
                    continue
                line = sys.stdin.readline()
                if not line:
                    return
                order = json.loads(line)
                self.obey(order)
                for end in self._ends.values():
                    if end.fileno() not in by_number:
                        by_number[end.fileno()] = end
                        poll.register(end.fileno(), select.EPOLLIN)
                print(json.dumps(self.counts), flush=True)
            self._send_due()

    def _take(self, end: socket.socket) -> None:
        for _ in range(AT_ONCE):
            try:
                packet = end.recv(LARGEST)
            except BlockingIOError:
                return
            except OSError:  # the interface is down
                return
            if packet[22:24] == IPV4:
                self._pass_on(packet)

    def _pass_on(self, packet: bytes) -> None:
        source, target = packet[36:40], packet[40:44]
        here, there = self._routes.get(source), self._routes.get(target)
        if here is None or there is None:
            self.counts["without a route"] += 1
            return
        packets, size = self._counted[there[0]]
        self.counts[packets] += 1
        self.counts[size] += len(packet) - HEADER
        out, into = self._ways.get((here[1], OUT), CLEAR), self._ways.get((there[1], IN), CLEAR)
        end = self._ends[there[0]]
        if out is CLEAR and into is CLEAR:
            self._send(end, packet)
            return
        way = out & into
        if way.cut:
            self.counts["cut off"] += 1
        elif way.loss and self._random.random() < way.loss:
            self.counts["lost"] += 1
        elif way.reorder and self._random.random() < way.reorder:
            self.counts["reordered"] += 1
            self._send(end, packet)
        elif way.delay_s or way.jitter_s:
            self._delay(end, packet, way, (source, target))
        else:
            self._send(end, packet)

    def _delay(self, end: socket.socket, packet: bytes, way: Way, between: tuple[bytes, bytes]) -> None:
        if len(self._waiting) >= MOST_WAITING:
            self.counts["lost"] += 1
            return
        due = time.monotonic() + way.delay_s + self._random.random() * way.jitter_s
        due = self._latest[between] = max(due, self._latest.get(between, 0.0))  # the order stays
        self._number += 1
        self.counts["delayed"] += 1
        heapq.heappush(self._waiting, (due, self._number, end, packet))

    def _send_due(self) -> None:
        waiting = self._waiting
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, _, end, packet = heapq.heappop(waiting)
            self._send(end, packet)

    def _send(self, end: socket.socket, packet: bytes) -> None:
        try:
            end.send(packet)
            self.counts["sent"] += 1
        except OSError:  # the interface is down, or its queue is full
            self.counts["lost"] += 1


def _listen(interface: str) -> socket.socket:
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    end.setsockopt(SOL_PACKET, VNET_HEADER, 1)
    end.setsockopt(SOL_PACKET, IGNORE_OUTGOING, 1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
    end.bind((interface, ALL_PROTOCOLS))
    end.setblocking(False)
    return end


if __name__ == "__main__":
    Switch().run()
