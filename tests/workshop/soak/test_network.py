"""Networks of a test: packets reach the right node, and links delay, lose, reorder and cut them as they are told."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.project import ROOT
from workshop.soak.network import IN_NAMESPACES

# Two nodes, and what one of them gets of what the other sends. It prints what was so, as JSON.
PROGRAM = """
import json, socket, threading
from workshop.soak.network import Network, Node
from workshop.soak.switch import IN, OUT, Way

DATA = bytes(range(256)) * 1200
PORT = 7

def listen():
    sock = socket.create_server(("0.0.0.0", PORT))
    sock.settimeout(60)
    return sock

def dial(address, limit_s=60):
    return socket.create_connection((address, PORT), limit_s)

def reaches(address, limit_s):
    try:
        near.run(lambda: dial(address, limit_s)).close()
    except OSError:
        return False
    listening.accept()[0].close()
    return True

def arrives(connection, peer):
    sending = threading.Thread(target=connection.sendall, args=(DATA,))
    sending.start()
    got = b""
    while len(got) < len(DATA):
        got += peer.recv(1 << 16)
    sending.join()
    return got == DATA

so = {}
with Network() as network:
    network.add_here("clients", "10.99.0.1")
    near = network.add(Node("near", "10.99.1.1", "10.99.1.2"), {"10.99.1.2": "other link"})
    far = network.add(Node("far", "10.99.2.1"))
    listening = far.run(listen)
    so["from a node"] = reaches("10.99.2.1", 60)
    here = dial("10.99.2.1")
    peer, address = listening.accept()
    so["from here"] = address[0]
    so["whole"] = arrives(here, peer)
    before = network.counts()
    kinds = ("delayed", "lost", "reordered")
    so["whole over a bad link"], so["happened"] = True, []
    with network.bad("far", Way(delay_s=0.01, jitter_s=0.005, loss=0.02, reorder=0.1)):
        for _ in range(200):  # most of the time, two or three will do
            so["whole over a bad link"] &= arrives(here, peer) and arrives(peer, here)
            after = network.counts()
            so["happened"] = [kind for kind in kinds if after.get(kind, 0) > before.get(kind, 0)]
            if len(so["happened"]) == len(kinds):
                break
    with network.bad("far", Way(cut=True)):
        so["over a cut link"] = reaches("10.99.2.1", 1.5)
        with network.bad("far", Way(cut=True)):
            pass
        so["still cut"] = not reaches("10.99.2.1", 1.5)
    with network.bad("far", Way(cut=True), (OUT,)):
        here.send(b"x")
        so["one way"] = peer.recv(1).decode()
        here.settimeout(1.0)
        peer.send(b"y")
        try:
            here.recv(1)
            so["the other way"] = True
        except TimeoutError:
            so["the other way"] = False
    here.settimeout(60)
    so["after it"] = here.recv(1).decode()
    with network.bad("other link", Way(cut=True)):
        so["beside the other link"] = reaches("10.99.2.1", 60)
    network.renumber(far, "10.99.2.9")
    so["new address"] = reaches("10.99.2.9", 60), reaches("10.99.2.1", 1.5)
    network.move("10.99.1.2", near, far)
    so["moved address"] = far.addresses, near.addresses
print(json.dumps(so))
"""


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    """What was so in the namespaces, which no test may have by itself."""
    command = [*IN_NAMESPACES, sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    so: dict[str, Any] = json.loads(done.stdout)
    return so


def test_nodes_reach_each_other(told: dict[str, Any]) -> None:
    """Nodes, and the process that made them, reach all addresses, and large data arrives whole."""
    assert told["from a node"]
    assert told["from here"] == "10.99.0.1"
    assert told["whole"]


def test_a_bad_link(told: dict[str, Any]) -> None:
    """Packets are delayed, lost and reordered, and TCP mends all of it."""
    assert told["happened"] == ["delayed", "lost", "reordered"]
    assert told["whole over a bad link"]


def test_a_cut_link(told: dict[str, Any]) -> None:
    """Nothing passes as long as one of two faults cuts the link; another link of the same node is as before."""
    assert not told["over a cut link"]
    assert told["still cut"]
    assert told["beside the other link"]


def test_a_half_open_link(told: dict[str, Any]) -> None:
    """Data passes in one way alone, and what was sent in the other arrives when the link is whole again."""
    assert told["one way"] == "x"
    assert not told["the other way"]
    assert told["after it"] == "y"


def test_another_address(told: dict[str, Any]) -> None:
    """A node can have another address, or one that another node had."""
    assert told["new address"] == [True, False]
    assert told["moved address"] == [["10.99.2.9", "10.99.1.2"], ["10.99.1.1"]]
