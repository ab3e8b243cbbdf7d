"""Network namespaces of a test, each like a machine of its own, and links between them that can be made bad.

The process has to be in namespaces of its own before (`enter`), so that nothing of the machine changes and no right is
needed. Packets go through a switch in another process (`switch.py`).
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple
from typing import TypeVar

from workshop.soak import switch
from workshop.soak.switch import CLEAR, IN, OUT, Order, Way

# Any user may make namespaces of users, and is root in them.
IN_NAMESPACES = ("unshare", "--user", "--map-root-user", "--net")
ENTERED = "STREAMER_SOAK_NETWORK"
NETWORK, BITS = "10.99.0.0", 16
# All interfaces have the same hardware address and do not ask for those of others: the switch looks only at IPv4.
HARDWARE = "02:00:00:00:00:01"
_NEW_NETWORK = 0x40000000  # CLONE_NEWNET
_libc = ctypes.CDLL(None, use_errno=True)
Result = TypeVar("Result")


class NetworkError(Exception):
    """There cannot be network namespaces here."""


def enter() -> None:
    """Start this program again in namespaces of its own, unless it is there already. Raise NetworkError."""
    if ENTERED in os.environ:
        return
    tried = subprocess.run([*IN_NAMESPACES, "ip", "link"], capture_output=True, text=True, check=False)
    if tried.returncode:
        raise NetworkError(
            f"no network namespace can be made here ({tried.stderr.strip()}). It needs `ip` (iproute2), and that users "
            "may make namespaces: sysctl kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu 24.04"
        )
    os.execvpe(IN_NAMESPACES[0], [*IN_NAMESPACES, sys.executable, *sys.argv], {**os.environ, ENTERED: "1"})


class Node:
    """A namespace with one interface."""

    def __init__(self, name: str, *addresses: str) -> None:
        """`addresses`: the first one is that of its own connections."""
        self.name = name
        self.addresses = list(addresses)
        self._namespace = _in_a_thread(_new_namespace)

    @property
    def address(self) -> str:
        """Its first address."""
        return self.addresses[0]

    def run(self, work: Callable[[], Result]) -> Result:
        """Do this in the namespace. Sockets that it opens and processes that it starts stay there."""

        def enter_and_work() -> Result:
            _check(_libc.setns(self._namespace, _NEW_NETWORK))
            return work()

        return _in_a_thread(enter_and_work)

    def configure(self, *orders: str) -> None:
        """Follow these orders of `ip`."""
        self.run(lambda: _ip(*orders))

    def connect(self, end: str) -> None:
        """Make its interface, and the other end of this name in the namespace of this process."""
        peer = f"peer name eth0 address {HARDWARE} netns /proc/{os.getpid()}/fd/{self._namespace}"
        _ip(f"link add {end} type veth {peer}", f"link set {end} up")
        addresses = (f"addr add {address}/{BITS} dev eth0" for address in self.addresses)
        self.configure("link set lo up", "link set eth0 arp off up", *addresses)

    def close(self) -> None:
        """Let the namespace go. It ends with its last process."""
        os.close(self._namespace)


class Network:
    """A context manager for nodes around a switch. Every link has a name: that of its node, or one of its own."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self._faults: dict[tuple[str, str], list[Way]] = defaultdict(list)
        self._switch: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Network:
        _ip("link set lo up")
        words = [sys.executable, "-I", switch.__file__]
        self._switch = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *details: object) -> None:
        assert self._switch is not None
        with self._switch as process:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()
        for node in self.nodes.values():
            node.close()

    def add(self, node: Node, links: Mapping[str, str] | None = None) -> Node:
        """Connect a node. `links`: the links of some of its addresses, by address; the others have that of the node."""
        end = f"end{len(self.nodes)}"
        node.connect(end)
        self.nodes[node.name] = node
        routes = {address: (node.name, (links or {}).get(address, node.name)) for address in node.addresses}
        self._order({"ends": {node.name: end}, "routes": routes})
        return node

    def add_here(self, name: str, *addresses: str) -> None:
        """Connect the namespace of this process."""
        end = f"end-{name}"
        _ip(
            f"link add {end} type veth peer name eth0 address {HARDWARE}",
            f"link set {end} up",
            "link set eth0 arp off up",
            *(f"addr add {address}/{BITS} dev eth0" for address in addresses),
        )
        self._order({"ends": {name: end}, "routes": dict.fromkeys(addresses, (name, name))})

    def move(self, address: str, former: Node | None, node: Node) -> None:
        """Give a node an address, which another one may have had."""
        if former is not None and address in former.addresses:
            former.addresses.remove(address)
            former.configure(f"addr del {address}/{BITS} dev eth0")
        node.configure(f"addr add {address}/{BITS} dev eth0")
        node.addresses.append(address)
        self._order({"routes": {address: (node.name, node.name)}})

    def renumber(self, node: Node, address: str) -> None:
        """Give a node another address in the place of its first one."""
        former, node.addresses[0] = node.addresses[0], address
        # In this order: with the first address the kernel takes all that were added later.
        node.configure(f"addr del {former}/{BITS} dev eth0", f"addr add {address}/{BITS} dev eth0")
        self._order({"routes": {address: (node.name, node.name)}, "gone": [former]})

    @contextmanager
    def bad(self, link: str, way: Way, ways: tuple[str, ...] = (OUT, IN)) -> Iterator[None]:
        """Make a link bad inside this block, in both ways or in one. Several such faults add up."""
        for each in ways:
            self._faults[link, each].append(way)
            self._tell(link, each)
        try:
            yield
        finally:
            for each in ways:
                self._faults[link, each].remove(way)
                self._tell(link, each)

    def counts(self) -> dict[str, int]:
        """Return what happened to packets so far."""
        return self._order({})

    def _tell(self, link: str, way: str) -> None:
        whole = CLEAR
        for fault in self._faults[link, way]:
            whole &= fault
        self._order({"links": [(link, way, *astuple(whole))]})

    def _order(self, order: Order) -> dict[str, int]:
        assert self._switch is not None
        assert self._switch.stdin is not None
        assert self._switch.stdout is not None
        with self._lock:
            self._switch.stdin.write(json.dumps(order) + "\n")
            self._switch.stdin.flush()
            answer = self._switch.stdout.readline()
        if not answer:
            raise NetworkError("the switch has ended")
        counts: dict[str, int] = json.loads(answer)
        return counts


def _ip(*orders: str) -> None:
    """Follow orders of the program `ip`, in the namespace of this thread."""
    done = subprocess.run(
        ["ip", "-batch", "-"], input="\n".join(orders) + "\n", text=True, capture_output=True, check=False
    )
    if done.returncode:
        raise NetworkError(f"ip: {done.stderr.strip()}")


def _new_namespace() -> int:
    _check(_libc.unshare(_NEW_NETWORK))
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _check(status: int) -> None:
    if status:
        raise NetworkError(os.strerror(ctypes.get_errno()))


def _in_a_thread(work: Callable[[], Result]) -> Result:
    """Do this in a thread of its own, because a namespace belongs to a thread."""
    results: list[Result] = []
    errors: list[BaseException] = []

    def keep() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=keep)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
