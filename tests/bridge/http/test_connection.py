"""Requests and answers over real sockets: pieces of any size, bounded time, bounded memory."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct

import pytest

from streamer.bridge.http import channel, connection
from tests.bridge.http.reader import Answer, Port
from tests.bridge.http.request_handlers import Handlers

GET = b"GET /echo HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /echo HTTP/1.1\r\nHost: a\r\n"
LAST = b"GET /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


def chunks(*pieces: bytes) -> bytes:
    """Write a body in chunks, with its end."""
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (*pieces, b""))


# Requests


async def test_requests_one_after_another(opened: Port) -> None:
    """A connection is kept for further requests of all kinds, and closed when the client asks for it."""
    peer = await opened.connect(GET)
    assert (await peer.answer()).body == b"GET /echo  0 127.0.0.1\n"
    peer.send(POST + b"Content-Length: 5\r\n\r\nabcde")
    assert (await peer.answer()).body == b"POST /echo  5 127.0.0.1\n"
    peer.send(POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks(b"abc", b"defg"))
    answer = await peer.answer()
    assert answer.body == b"POST /echo  7 127.0.0.1\n"
    assert "connection" not in answer.headers
    assert answer.headers["server"] == "streamer"
    assert answer.headers["date"].endswith("GMT")
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert opened.numbers["idle"] == 1
    peer.send(LAST)
    last = Answer.parse(await peer.rest())
    assert (last.status, last.headers["connection"]) == (200, "close")
    peer.close()


async def test_requests_at_once(opened: Port) -> None:
    """Requests that are sent before the first answer are answered in order."""
    sent = [
        GET,
        POST + b"Content-Length: 100000\r\n\r\n" + bytes(100_000),
        b"HEAD /echo HTTP/1.1\r\nHost: a\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks(*([b"a"] * 1000)),
        b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n",
        LAST,
    ]
    told = await opened.told(b"".join(sent))
    assert told.count(b"HTTP/1.1 200 OK") == 5
    assert told.index(b"POST /echo  100000") < told.index(b"POST /echo  1000 ") < told.index(b"404 Not Found")


async def test_a_request_byte_by_byte(opened: Port) -> None:
    """A request that comes byte by byte gets the same answer."""
    peer = await opened.connect()
    for byte in POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks(b"abc"):
        peer.send(bytes([byte]))
        await asyncio.sleep(0)
    assert (await peer.answer()).body == b"POST /echo  3 127.0.0.1\n"
    peer.close()


async def test_http_1_0(opened: Port, handlers: Handlers) -> None:
    """HTTP/1.0 allows one request on a connection, which ends with the answer; nothing is sent in chunks."""
    answer = Answer.parse(await opened.told(b"GET /echo?a=b HTTP/1.0\r\n\r\n"))
    assert (answer.status, answer.body) == (200, b"GET /echo a=b 0 127.0.0.1\n")
    assert answer.headers["connection"] == "close"
    answer = Answer.parse(await opened.told(b"GET /stream?3 HTTP/1.0\r\n\r\n"))
    assert "transfer-encoding" not in answer.headers
    assert answer.body == bytes(30_000)


async def test_a_client_that_ends_its_side(opened: Port) -> None:
    """A client that has ended its side still gets its answer."""
    peer = await opened.connect(GET)
    peer.writer.write_eof()
    assert b"GET /echo" in await peer.rest()
    peer.close()


async def test_head(opened: Port) -> None:
    """HEAD gives the length without the content."""
    peer = await opened.connect(
        b"HEAD /echo HTTP/1.1\r\nHost: a\r\n\r\nHEAD /stream?3 HTTP/1.1\r\nHost: a\r\n\r\n" + LAST
    )
    told = await peer.rest()
    assert told.count(b"Content-Length: ") == 2
    assert told.count(b"200 OK") == 3
    assert told.count(b"GET /echo") == 1
    peer.close()


# What is not served


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (b"GET //[ HTTP/1.1\r\nHost: a\r\n\r\n", 404, "not_found"),
        (b"POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n", 404, "not_found"),
        (b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 404, "not_found"),
        (b"DELETE /echo HTTP/1.1\r\nHost: a\r\n\r\n", 405, "method_not_allowed"),
        (b"CONNECT /echo HTTP/1.1\r\nHost: a\r\n\r\n", 405, "method_not_allowed"),
        (b"GET / HTTP/1.1\r\n\r\n", 400, "bad_request"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "bad_request"),
        (POST + b"A: " + bytes([97]) * 100_000, 431, "head_too_large"),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400, "bad_request"),
        (POST + b"Content-Length: 300001\r\n\r\n", 413, "too_large"),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks(bytes(300_001)), 413, "too_large"),
        (b"POST /small HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n", 413, "too_large"),
        (
            b"POST /small HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(b"a" * 11),
            413,
            "too_large",
        ),
        (b"GET /fail HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 413, "too_large"),
        (b"POST /refuse HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n", 403, "bad_origin"),
    ],
)
async def test_what_is_not_served(opened: Port, data: bytes, status: int, code: str) -> None:
    """JSON says why a request is refused; the connection ends if the next request could not be found in the data."""
    peer = await opened.connect(data)
    answer = await peer.answer()
    peer.close()
    assert (answer.status, answer.error["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/json"
    assert answer.error["message"].endswith(".")
    assert (answer.headers.get("allow") is not None) == (status == 405)
    assert opened.failed == 0


async def test_an_error_of_a_known_length_keeps_the_connection(opened: Port) -> None:
    """A short unwanted body is read and discarded."""
    peer = await opened.connect(b"POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcde")
    assert (await peer.answer()).status == 404
    peer.send(GET)
    assert (await peer.answer()).status == 200
    peer.close()


async def test_a_refusal_reaches_who_is_still_sending(opened: Port) -> None:
    """What the client still sends is discarded for a while, so that the answer is not lost."""
    peer = await opened.connect(b"POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n")
    for _ in range(30):
        peer.send(bytes(100_000))
        await asyncio.sleep(0)
    answer = await peer.answer()
    assert (answer.status, answer.headers["connection"]) == (404, "close")
    peer.close()


async def test_a_body_that_is_not_read(opened: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long unread body ends the connection within a limit."""
    monkeypatch.setattr(connection, "LINGER_S", 0.1)
    peer = await opened.connect(b"POST /ignore HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n" + bytes(1000))
    answer = await peer.answer()
    assert (answer.body, answer.headers["connection"]) == (b"ignored\n", "close")
    assert await peer.rest() == b""
    peer.close()


@pytest.mark.fails_inside
async def test_a_fault_of_ours(opened: Port, caplog: pytest.LogCaptureFixture) -> None:
    """A failing handler gives 500 without details, a traceback in the log, and a count; the connection goes on."""
    peer = await opened.connect(b"GET /fail HTTP/1.1\r\nHost: a\r\n\r\n")
    with caplog.at_level(logging.ERROR, logger="streamer"):
        answer = await peer.answer()
    assert (answer.status, answer.error["code"]) == (500, "internal")
    assert b"fault of ours" not in answer.body
    assert "RuntimeError: a fault of ours" in caplog.text
    assert opened.failed == 1
    peer.send(GET)
    assert (await peer.answer()).status == 200
    peer.close()


@pytest.mark.fails_inside
async def test_a_fault_within_an_answer(opened: Port, caplog: pytest.LogCaptureFixture) -> None:
    """If a handler fails within its answer, the client can see that the end is missing."""
    with caplog.at_level(logging.ERROR, logger="streamer"):
        told = await opened.told(b"GET /break HTTP/1.1\r\nHost: a\r\n\r\n")
    assert not told.endswith(b"0\r\n\r\n")
    assert "RuntimeError: a fault of ours" in caplog.text
    assert opened.failed == 1


# Expect


async def test_consent(opened: Port) -> None:
    """A client that waits for consent is told to send the body once the handler reads it."""
    peer = await opened.connect(POST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n")
    assert await peer.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    peer.send(b"abc")
    assert (await peer.answer()).body == b"POST /echo  3 127.0.0.1\n"
    peer.send(GET)
    assert (await peer.answer()).status == 200
    peer.close()


@pytest.mark.parametrize(("path", "status"), [("nothing", 404), ("small", 413), ("refuse", 403), ("ignore", 200)])
async def test_no_consent(opened: Port, path: str, status: int) -> None:
    """A client that is refused, or whose body is ignored, learns so before it sends the body."""
    head = f"POST /{path} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3000\r\n\r\n"
    peer = await opened.connect(head.encode())
    answer = await peer.answer()
    assert (answer.status, answer.headers["connection"]) == (status, "close")
    peer.close()


# Bounds


async def test_half_a_request_behind_another(opened: Port) -> None:
    """An incomplete request is not answered, and does not count as one that is being answered."""
    peer = await opened.connect(GET + GET[:9])
    await peer.answer()
    await opened.until(idle=1, answering=0)
    peer.send(GET[9:])
    assert (await peer.answer()).status == 200
    peer.close()


@pytest.mark.parametrize("data", [b"", b"GET / HT", GET + b"GET / HT"])
async def test_slow_heads(impatient: Port, data: bytes) -> None:
    """A client whose head does not come in time is cut off, however much of it has come."""
    peer = await impatient.connect(data)
    told = await peer.rest()
    assert told.count(b"HTTP/1.1") == data.count(b"echo")
    assert impatient.dropped == ["too_slow"]
    peer.close()


async def test_slow_bodies(opened: Port) -> None:
    """Each kibibyte of a body has a time limit; a few bytes now and then are not enough."""
    peer = await opened.connect(POST + b"Content-Length: 5000\r\n\r\n")

    async def dribble() -> None:
        for _ in range(100):
            peer.send(b"a")
            await asyncio.sleep(0.02)

    dribbling = asyncio.create_task(dribble())
    answer = await peer.answer()
    assert (answer.status, answer.error["code"], opened.dropped) == (408, "too_slow", ["too_slow"])
    dribbling.cancel()
    peer.close()


async def test_a_body_in_time(opened: Port) -> None:
    """A body that comes fast enough may take any time in all."""
    peer = await opened.connect(POST + b"Content-Length: 12288\r\n\r\n")
    for _ in range(12):
        await asyncio.sleep(0.1)
        peer.send(bytes(1024))
    assert (await peer.answer()).body == b"POST /echo  12288 127.0.0.1\n"
    peer.close()


async def test_a_body_that_breaks_off(opened: Port) -> None:
    """The handler learns that a body broke off."""
    for head in (b"Content-Length: 9\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc"):
        peer = await opened.connect(POST + head)
        peer.writer.write_eof()
        assert Answer.parse(await peer.rest()).error["code"] == "bad_request"
        peer.close()
    assert opened.failed == 0


async def test_idle_connections_end(opened: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle connections are kept for a while, and only a limited number of them."""
    monkeypatch.setattr(connection, "IDLE_LIMIT_S", 1.0)
    monkeypatch.setattr(channel, "MOST_IDLE", 1)
    first = await opened.connect(GET)
    await first.answer()
    await opened.until(idle=1)
    assert b"200 OK" in await opened.told(GET)
    assert opened.numbers["idle"] == 1
    assert await first.rest() == b""
    assert opened.dropped == []
    first.close()


async def test_requests_at_a_time_are_bounded(opened: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request above the limit is told to try again."""
    monkeypatch.setattr(channel, "MOST_ANSWERING", 1)
    first = await opened.connect(b"GET /hang HTTP/1.1\r\nHost: a\r\n\r\n")
    await opened.until(answering=1)
    peer = await opened.connect(GET)
    answer = await peer.answer()
    assert (answer.status, answer.error["code"], answer.headers["retry-after"]) == (503, "busy", "1")
    first.close()
    peer.close()


async def test_a_client_that_resets(opened: Port, handlers: Handlers) -> None:
    """The handler is cancelled if the client resets the connection."""
    peer = await opened.connect(b"GET /hang HTTP/1.1\r\nHost: a\r\n\r\n")
    await opened.until(answering=1)
    at_once = struct.pack("ii", 1, 0)
    peer.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
    peer.close()
    await asyncio.wait_for(handlers.cancelled.wait(), 60)


async def test_a_client_that_ends_its_side_and_waits(
    opened: Port, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that ended its side may be gone, so it gets its answer only if that is ready soon."""
    monkeypatch.setattr(connection, "HALF_CLOSED_LIMIT_S", 0.1)
    peer = await opened.connect(b"GET /hang HTTP/1.1\r\nHost: a\r\n\r\n")
    peer.writer.write_eof()
    await asyncio.wait_for(handlers.cancelled.wait(), 60)
    peer.close()


async def test_the_end(opened: Port, handlers: Handlers) -> None:
    """At the end idle connections are closed, and a request is answered as the last of its connection."""
    idle, silent = await opened.connect(GET), await opened.connect()
    await idle.answer()
    busy = await opened.connect(b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab")
    await opened.until(idle=1, opening=1, answering=1)
    opened.listener.close()
    assert await idle.rest() == await silent.rest() == b""
    handlers.go_on.set()
    busy.send(b"c")
    answer = Answer.parse(await busy.rest())
    assert (answer.body, answer.headers["connection"]) == (b"3\n", "close")
    for peer in (idle, silent, busy):
        peer.close()
