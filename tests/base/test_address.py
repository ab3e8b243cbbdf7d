"""Addresses as people type them, and the check whether a service is ready."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from streamer.base.address import is_ready, websocket_url

READY = b'{"service": "streamer", "ready": true}\n'


@contextmanager
def answering(answer: bytes, *, endlessly: bool = False, after_s: float = 0.0) -> Iterator[int]:
    """A port whose first connection gets this answer, or its bytes one by one until the client has enough."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection = listening.accept()[0]
            with connection:
                connection.recv(4096)
                time.sleep(after_s)
                connection.sendall(answer)
                with suppress(OSError):
                    while endlessly:
                        time.sleep(0.02)
                        connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        thread.join()


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("localhost", "ws://localhost:8080/v1/stream"),
        ("10.0.0.1:5", "ws://10.0.0.1:5/v1/stream"),
        ("http://a", "ws://a/v1/stream"),
        ("http://a:8000/", "ws://a:8000/v1/stream"),
        ("https://b/else?key=1", "wss://b/else?key=1"),
        ("ws://a:1/v1/stream", "ws://a:1/v1/stream"),
        ("wss://a", "wss://a/v1/stream"),
        ("[::1]:9", "ws://[::1]:9/v1/stream"),
    ],
)
def test_every_form_of_an_address_is_understood(address: str, url: str) -> None:
    """Missing scheme, port and path are filled in; given ones are kept."""
    assert websocket_url(address) == url


@pytest.mark.parametrize("address", ["", "ftp://a", "a b", "a:99999", "a:x", "http://", "[::1", "://"])
def test_what_is_no_address_is_refused_by_name(address: str) -> None:
    """The message repeats what was typed."""
    with pytest.raises(ValueError, match="not an address of a service") as caught:
        websocket_url(address)
    assert f"'{address}'" in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n" + READY, True),
        (b"HTTP/1.1 503 Not yet\r\n\r\n" + READY, False),
        (b'HTTP/1.1 200 OK\r\n\r\n{"service": "streamer", "ready": false}', False),
        (b'HTTP/1.1 200 OK\r\n\r\n{"service": "other", "ready": true}', False),
        (b"HTTP/1.1 200 OK\r\n\r\n[1]", False),
        (b"HTTP/1.1 200 OK\r\n\r\n<html>", False),
        (b"220 mail\r\n", False),
        (b"\xff\xfe", False),
    ],
)
def test_only_a_ready_service_of_ours_is_ready(answer: bytes, expected: bool) -> None:
    """Another program on the port does not count as a service."""
    with answering(answer) as port:
        assert is_ready(port=port) is expected


def test_nobody_there_is_a_quick_no() -> None:
    """A closed port is recognised at once."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    assert not is_ready(port=port)


def test_a_busy_service_has_time_to_answer() -> None:
    """It is not taken for absent, so no second one is started beside it."""
    with answering(b"HTTP/1.1 200 OK\r\n\r\n" + READY, after_s=0.7) as port:
        assert is_ready(port=port)


def test_an_endless_answer_is_not_waited_for() -> None:
    """The limit is for the whole check, even if the answer comes byte by byte."""
    with answering(b"x", endlessly=True) as port:
        assert not is_ready(port=port, timeout=0.1)
