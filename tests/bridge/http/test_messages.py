"""Frames without sockets: any fragments give the same messages, and memory is bounded by the largest message."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.protocol import State
from websockets.uri import parse_uri

from streamer.bridge.http.messages import Handshake, Messages
from streamer.bridge.http.request import Headers, HttpError, Request

LARGEST = 1000
FIELDS = {
    "Upgrade": "websocket",
    "Connection": "keep-alive, Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}


def asked(version: str = "1.1", method: str = "GET", **fields: str | None) -> Request:
    """Make a request for a websocket, with these fields changed or left out."""
    given = FIELDS | {name.replace("_", "-"): value for name, value in fields.items()}
    headers = Headers([(name, value) for name, value in given.items() if value is not None])
    return Request(method, "/socket", "a=b", headers, version=version)


class Client:
    """The other end, made with the same library."""

    def __init__(self) -> None:
        self._protocol = ClientProtocol(parse_uri("ws://a/"), state=State.OPEN, max_size=None)
        self.pings = 0

    def frames(self, message: str | bytes, cuts: list[int], ping: bytes = b"between") -> bytes:
        """Write a message in fragments that end at these places, with pings between them."""
        data = message.encode() if isinstance(message, str) else message
        places = sorted({0, *(cut for cut in cuts if cut < len(data)), len(data)})
        parts = [data[start:end] for start, end in pairwise(places)] or [b""]
        begin = self._protocol.send_text if isinstance(message, str) else self._protocol.send_binary
        begin(parts[0], fin=len(parts) == 1)
        for number, part in enumerate(parts[1:], 2):
            self._protocol.send_ping(ping)
            self.pings += 1
            self._protocol.send_continuation(part, fin=number == len(parts))
        return b"".join(self._protocol.data_to_send())

    def close(self, code: int | None) -> bytes:
        self._protocol.send_close(code)
        return b"".join(self._protocol.data_to_send())


def test_handshake() -> None:
    """A handshake is accepted with the first of our subprotocols that the client offers, or without any."""
    shaken = Handshake(asked(Sec_WebSocket_Protocol="key.1, b, a"), ["a", "b"])
    assert shaken.subprotocol == "a"
    headers = {name.lower(): value for name, value in shaken.headers}
    assert headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    assert headers["sec-websocket-protocol"] == "a"
    assert "sec-websocket-extensions" not in headers
    assert Handshake(asked(Sec_WebSocket_Protocol="c"), ["a"]).subprotocol is None
    assert Handshake(asked(), ["a"]).subprotocol is None


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        (asked(Upgrade="h2c"), 426, "upgrade_required"),
        (asked(Connection="close"), 426, "upgrade_required"),
        (asked(Connection=""), 400, "bad_handshake"),
        (asked(Sec_WebSocket_Key=None), 400, "bad_handshake"),
        (asked(Sec_WebSocket_Key="short"), 400, "bad_handshake"),
        (asked(Sec_WebSocket_Version="8"), 400, "bad_handshake"),
        (asked(Sec_WebSocket_Protocol=",;"), 400, "bad_handshake"),
        (asked(Sec_WebSocket_Protocol="streamer.key.\x80"), 400, "bad_handshake"),
        (asked(Sec_WebSocket_Key="dGhlIHNhbXBsZSBub25jZ\xd2=="), 400, "bad_handshake"),
        (asked(Connection="Upgrade\0"), 400, "bad_handshake"),
        (asked("1.0"), 400, "bad_request"),
        (asked(method="POST"), 400, "bad_request"),
    ],
)
def test_handshakes_that_are_none(request_: Request, status: int, code: str) -> None:
    """Invalid handshakes are refused with a sentence."""
    with pytest.raises(HttpError) as refused:
        Handshake(request_, ["a"])
    assert (refused.value.status, refused.value.code) == (status, code)
    assert len(refused.value.message.split()) > 5
    assert "\n" not in refused.value.message


@given(st.text(st.characters(max_codepoint=255)), st.sampled_from([*FIELDS, "Sec-WebSocket-Protocol"]))
def test_any_header(value: str, name: str) -> None:
    """A handshake with any field is accepted or refused."""
    with suppress(HttpError):
        Handshake(asked(**{name.replace("-", "_"): value}), ["a"])


@pytest.mark.parametrize("name", ["Cookie", "User-Agent", "Authorization"])
def test_headers_of_others(name: str) -> None:
    """Other headers do not affect the handshake, and are not logged."""
    Handshake(asked(**{name.replace("-", "_"): "caf\xe9 \x01"}), ["a"])


@given(
    said=st.lists(st.tuples(st.text(max_size=60) | st.binary(max_size=60), st.lists(st.integers(1, 59), max_size=4))),
    size=st.integers(1, 50),
)
def test_any_fragments(said: list[tuple[str | bytes, list[int]]], size: int) -> None:
    """However messages are divided into frames and reads, the same messages and pongs come out."""
    client, messages = Client(), Messages(LARGEST)
    sent = b"".join(client.frames(message, cuts) for message, cuts in said)
    heard = [message for place in range(0, len(sent), size) for message in messages.feed(sent[place : place + size])]
    assert heard == [message for message, _ in said]
    assert messages.open
    assert messages.failure is None
    output, end = messages.output()
    assert output.count(b"between") == client.pings
    assert not end


def test_a_long_way_to_write_a_length() -> None:
    """A length in more bytes than it needs is understood, and so are all frames behind it."""
    client, messages = Client(), Messages(LARGEST)
    for length in (b"\x85", b"\xfe\0\5", b"\xff\0\0\0\0\0\0\0\5", b"\x85"):
        assert messages.feed(b"\x82" + length + bytes(4) + b"hello") == [b"hello"]
        assert messages.feed(client.frames("text", []) + client.frames(b"more", [])) == ["text", b"more"]
    assert messages.open
    assert messages.failure is None


@pytest.mark.parametrize("cuts", [[], [10], [LARGEST], list(range(1, LARGEST))])
def test_too_large(cuts: list[int]) -> None:
    """A message at the limit is accepted, and one byte more closes, in any number of fragments."""
    client, messages = Client(), Messages(LARGEST)
    assert messages.feed(client.frames(bytes(LARGEST), cuts, b"")) == [bytes(LARGEST)]
    assert messages.feed(client.frames(bytes(LARGEST + 1), cuts, b"")) == []
    assert (messages.fault, messages.open, messages.over, messages.agreed) == ("too_large", True, True, False)
    assert messages.verdict is not None
    assert messages.feed(client.frames(b"more", [])) == []
    messages.close(*messages.verdict)
    assert messages.output()[1]
    assert messages.feed(client.frames(b"more", [])) == []


def test_not_utf8() -> None:
    """Text that is not UTF-8 closes; earlier messages are kept."""
    client, messages = Client(), Messages(LARGEST)
    bad = client.frames(b"\xff\xfe", [])
    assert messages.feed(client.frames(b"one", []) + bytes([bad[0] & 0xF0 | 1]) + bad[1:]) == [b"one"]
    assert (messages.fault, messages.over) == ("not_utf8", True)


@pytest.mark.parametrize(
    "bad", [b"\x81\x82\0\0\0\0\xff\xfe", b"\x82\xfe\x04\x00\0\0\0\0", b"\xc1\x80\0\0\0\0", b"\x88\x81\0\0\0\0a"]
)
def test_what_is_owed_after_a_fault(bad: bytes) -> None:
    """After a fault further input is ignored, but messages can be sent until the close."""
    client, messages = Client(), Messages(LARGEST)
    assert messages.feed(bad + client.frames(b"more", [])) == []
    assert messages.over
    assert messages.output() == (b"", False)
    messages.forgive()
    assert (messages.over, messages.deaf, messages.verdict, messages.fault) == (False, True, None, None)
    messages.text("owed")
    assert messages.feed(client.frames(b"more", []) * 100) == []
    assert messages.output() == (b"\x81\x04owed", False)
    messages.close(1000, "")
    assert messages.output() == (b"\x88\x02\x03\xe8", True)
    assert messages.over


@pytest.mark.parametrize(("code", "goodbye"), [(1000, True), (None, True), (1001, False), (1011, False), (4000, False)])
def test_who_closes(code: int | None, goodbye: bool) -> None:
    """A close by the client is a goodbye or a loss, depending on its code; both are answered."""
    messages = Messages(LARGEST)
    assert messages.feed(Client().close(code)) == []
    assert (messages.goodbye, messages.agreed, messages.fault, messages.open) == (goodbye, True, None, False)
    assert messages.output()[1]


def test_our_close() -> None:
    """After our close, the websocket is over once the client has answered."""
    messages = Messages(LARGEST)
    messages.close(1013, "later")
    assert (messages.open, messages.over, messages.agreed) == (False, False, False)
    assert messages.output() == (b"\x88\x07\x03\xf5later", False)
    messages.feed(Client().close(1013))
    assert (messages.over, messages.agreed, messages.goodbye, messages.fault) == (True, True, False, None)


@given(st.binary(max_size=400))
def test_any_bytes(data: bytes) -> None:
    """No input leads to an unexpected error of the library."""
    messages = Messages(LARGEST)
    messages.feed(data)
    assert messages.failure is None
