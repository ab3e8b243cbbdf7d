"""Requests to other machines: which addresses are public, and how they end. Recordings and webhooks try the rest."""

from __future__ import annotations

import socket
import threading
from contextlib import closing

import pytest

from streamer.bridge.http.outgoing import TROUBLE, Exchange, Unreachable, is_public, parts_of


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1::1", True),
        ("64:ff9b::5db8:d822", True),
        ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False),
        ("::ffff:10.0.0.1", False),
        ("::1", False),
        ("::", False),
        ("fe80::1%lo", False),
        ("fec0::1", False),
        ("fd00::1", False),
        ("ff02::1", False),
        ("127.0.0.1", False),
        ("0.0.0.0", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("224.0.0.1", False),
        ("240.0.0.1", False),
        ("255.255.255.255", False),
    ],
)
def test_public_addresses(address: str, public: bool) -> None:
    """Addresses of this machine, its network and special ones are not public, nor are those that mean them."""
    assert is_public(address) is public


@pytest.mark.parametrize(
    "address", ["", "ftp://example.org/", "http://user:word@example.org/", "http://[::1", "http://"]
)
def test_what_is_no_address(address: str) -> None:
    """Only addresses of the web are asked, and none with a password."""
    with pytest.raises(Unreachable, match="http or https"):
        parts_of(address)


def test_a_request_with_a_body() -> None:
    """Its head says how long it is; the answer is not read further than its head."""
    got: list[bytes] = []
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def serve() -> None:
            with closing(listener.accept()[0]) as client:
                while b"words" not in b"".join(got):
                    got.append(client.recv(10_000))
                client.sendall(b"HTTP/1.1 204 No Content\r\n\r\n" + b"endless " * 1000)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        exchange = Exchange(30.0)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/a b?c=d"
        assert exchange.ask(address, {"webhook-id": "1"}, "POST", b"words").status == 204
        exchange.close()
        thread.join(60)
    head, _, body = b"".join(got).decode().partition("\r\n\r\n")
    assert (head.splitlines()[0], body) == ("POST /a%20b?c=d HTTP/1.1", "words")
    assert {"Content-Length: 5", "webhook-id: 1", "User-Agent: streamer"} <= set(head.splitlines())


def test_an_answer_without_an_end_is_interrupted() -> None:
    """A machine that says "go on" for ever is left, from another thread, while its data comes all the time."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def serve() -> None:
            with closing(listener.accept()[0]) as client:
                try:
                    while True:
                        client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                except OSError:
                    pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        exchange = Exchange(30.0)
        threading.Timer(0.3, exchange.interrupt).start()
        with pytest.raises(TROUBLE):
            exchange.ask(f"http://127.0.0.1:{listener.getsockname()[1]}/", {})
        exchange.close()
