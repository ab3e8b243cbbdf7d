"""HTTP without sockets: any pieces give the same requests, and invalid data has one answer."""

from __future__ import annotations

from http import HTTPStatus
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.bridge.http.framing import LONGEST_HEAD, Framing, Head, Mark
from streamer.bridge.http.request import HttpError

POST = b"POST /up?a=b HTTP/1.1\r\nHost: a\r\nX-Name: \xe9\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n3;x=y\r\nefg\r\n0\r\nTrailer: 1\r\n\r\n"
MEASURED = POST + b"Content-Length: 7\r\n\r\nabcdefg"


def read(framing: Framing, pieces: list[bytes]) -> tuple[Head, bytes]:
    """Return head and body of one request that comes in these pieces."""
    waiting, body, head = list(pieces), b"", None
    while True:
        event = framing.next()
        if isinstance(event, Head):
            head = event
        elif isinstance(event, bytes):
            body += event
        elif event is Mark.NEEDS_MORE:
            framing.feed(waiting.pop(0))
        else:
            assert head is not None
            assert event is Mark.END
            return head, body


def rest(framing: Framing) -> None:
    """Return everything that can be read without more bytes."""
    while not isinstance(framing.next(), Mark):
        pass


@pytest.mark.parametrize("request_", [CHUNKED, MEASURED])
@given(cuts=st.lists(st.integers(1, 130), max_size=12))
def test_any_pieces(request_: bytes, cuts: list[int]) -> None:
    """A request is the same, however it is divided."""
    places = sorted({0, *(cut for cut in cuts if cut < len(request_)), len(request_)})
    pieces = [request_[start:end] for start, end in pairwise(places)]
    framing = Framing()
    head, body = read(framing, pieces)
    assert (head.method, head.target, head.version) == ("POST", "/up?a=b", "1.1")
    assert head.headers.get("x-name") == "é"
    assert body == b"abcdefg"
    assert framing.whole


def test_requests_in_one_piece() -> None:
    """Requests that came together are read one after another, each once the one before is answered."""
    framing = Framing()
    framing.feed(MEASURED + b"GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
    read(framing, [])
    assert framing.next() is Mark.PAUSED
    assert framing.holds_bytes
    framing.head(HTTPStatus.OK, {"Content-Length": "0"})
    framing.end()
    assert framing.next_cycle()
    head, body = read(framing, [])
    assert (head.target, body) == ("/next", b"")


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "bad_request"),  # TLS
        (b"hello\r\n\r\n", 400, "bad_request"),
        (b"GET /\r\n\r\n", 400, "bad_request"),
        (b"GET / HTTP/1.1\r\n\r\n", 400, "bad_request"),  # no host
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "bad_request"),
        (b"GET /\x80 HTTP/1.1\r\nHost: a\r\n\r\n", 400, "bad_request"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nA b: c\r\n\r\n", 400, "bad_request"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nA: \x00\r\n\r\n", 400, "bad_request"),
        (b"PRI * HTTP/2.0\r\nHost: a\r\n\r\n", 505, "bad_request"),
        (POST + b"Content-Length: x\r\n\r\n", 400, "bad_request"),
        (POST + b"Content-Length: -1\r\n\r\n", 400, "bad_request"),
        (POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "bad_request"),
        (POST + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", 400, "bad_request"),
        (POST + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "bad_request"),
        (POST.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n", 400, "bad_request"),
        (POST + b"Transfer-Encoding: gzip\r\n\r\n", 501, "bad_request"),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nfghi\r\n", 400, "bad_request"),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\nabcdef\r\n", 400, "bad_request"),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 21 + b"\r\n", 400, "bad_request"),
        (POST + b"A: " + b"a" * LONGEST_HEAD + b"\r\n\r\n", 431, "head_too_large"),
        (POST + b"A: " + b"a" * 2 * LONGEST_HEAD, 431, "head_too_large"),
        (b"G" * 2 * LONGEST_HEAD, 431, "head_too_large"),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"x" * 2 * LONGEST_HEAD, 431, "head_too_large"),
    ],
)
def test_what_is_no_request(data: bytes, status: int, code: str) -> None:
    """Invalid data is refused with a fitting status and a sentence, and nothing more of it is read."""
    framing = Framing()
    framing.feed(data)
    with pytest.raises(HttpError) as refused:
        rest(framing)
    assert (refused.value.status, refused.value.code) == (status, code)
    assert len(refused.value.message.split()) > 5
    assert framing.broken
    assert framing.next() is Mark.PAUSED
    assert framing.head(HTTPStatus(status), {}).startswith(b"HTTP/1.1 ")


@given(st.binary(max_size=300), st.booleans())
def test_anything(data: bytes, behind_a_request: bool) -> None:
    """Any data is a request, needs more, or is refused."""
    framing = Framing()
    framing.feed(POST + b"Transfer-Encoding: chunked\r\n\r\n" + data if behind_a_request else data)
    try:
        rest(framing)
    except HttpError:
        assert framing.broken


def test_words_of_a_client_are_not_repeated() -> None:
    """An error does not quote a key from an invalid line."""
    framing = Framing()
    framing.feed(b"GET / HTTP/1.1\r\nHost: a\r\nAuthorization streamer_secret\r\n\r\n")
    with pytest.raises(HttpError) as refused:
        framing.next()
    assert "secret" not in refused.value.message
    assert refused.value.__cause__ is None


def test_what_is_left_of_a_body() -> None:
    """The rest of a body is known if its length was sent."""
    framing = Framing()
    framing.feed(POST + b"Expect: 100-continue\r\nContent-Length: 7\r\n\r\n")
    framing.next()
    assert (framing.remaining, framing.awaits_consent, framing.whole) == (7, True, False)
    assert framing.consent() == b"HTTP/1.1 100 Continue\r\n\r\n"
    framing.feed(b"abc")
    assert framing.next() == b"abc"
    assert (framing.remaining, framing.awaits_consent) == (4, False)
    framing = Framing()
    framing.feed(CHUNKED)
    framing.next()
    assert framing.remaining is None


def test_head() -> None:
    """A HEAD request gets only the head, with the length; other requests are not affected."""
    framing = Framing()
    framing.feed(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
    read(framing, [])
    answer = framing.head(HTTPStatus.OK, {"Content-Length": "3"}) + framing.piece(b"abc") + framing.end()
    assert answer == b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"
    assert framing.next_cycle()
    read(framing, [])
    assert framing.head(HTTPStatus.OK, {"Content-Length": "3"}) + framing.piece(b"abc") == answer + b"abc"


def test_answers_of_unknown_length() -> None:
    """Answers of unknown length are sent in chunks; with HTTP/1.0 they end with the connection."""
    for version, expected in (
        (b"1.1", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
        (b"1.0", b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc"),
    ):
        framing = Framing()
        framing.feed(b"GET / HTTP/" + version + b"\r\nHost: a\r\n\r\n")
        read(framing, [])
        assert framing.head(HTTPStatus.OK, {}) + framing.piece(b"abc") + framing.end() == expected
        assert framing.next_cycle() is (version == b"1.1")
