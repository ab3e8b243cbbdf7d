"""Questions between workers over real sockets: answers with pieces, sockets as gifts, and workers that are away."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest

from streamer.base.codes import ErrorCode
from streamer.base.json_types import JsonObject
from streamer.bridge.http.request import Request
from streamer.bridge.http.websocket import WebSocket
from streamer.bridge.telemetry.logs import Failures
from streamer.bridge.workers import neighbours as neighbours_module
from streamer.bridge.workers.neighbours import NeighbourAway, Neighbours, Reply, whole
from streamer.bridge.workers.passing import Between, pass_on
from tests.bridge.descriptors import no_descriptors
from tests.bridge.service_client import eventually


class Worker:
    """A worker that answers, and what it got."""

    def __init__(self) -> None:
        self.failures = 0
        self.gifts: list[socket.socket] = []
        self.closed = asyncio.Event()

    async def echo(self, question: JsonObject, gift: socket.socket | None) -> Reply:
        if gift is not None:
            self.gifts.append(gift)
        return Reply({"heard": question}, keeps=gift is not None)

    async def count(self, question: JsonObject, gift: socket.socket | None) -> Reply:
        async def pieces() -> AsyncGenerator[bytes, None]:
            try:
                for number in range(int(str(question["most"]))):
                    yield b"%d" % number * 1000
                    await asyncio.sleep(0)
                if question.get("fails"):
                    raise OSError
            finally:
                self.closed.set()

        return Reply({"status": 200}, pieces())

    async def fail(self, question: JsonObject, gift: socket.socket | None) -> Reply:
        raise KeyError("nothing")

    async def wait(self, question: JsonObject, gift: socket.socket | None) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    def note(self) -> None:
        self.failures += 1


@pytest.fixture
async def worker(tmp_path: Path) -> AsyncIterator[Worker]:
    """Worker 2 of three, which listens."""
    worker, neighbours = Worker(), Neighbours(tmp_path, 2, 3)
    answers = {"echo": worker.echo, "count": worker.count, "fail": worker.fail, "wait": worker.wait}
    (tmp_path / "2.sock").write_text("of a worker that was killed")
    await neighbours.open(answers, Failures(worker.note))
    yield worker
    await neighbours.close()
    assert not (tmp_path / "2.sock").exists()


@pytest.fixture
def asking(tmp_path: Path) -> Neighbours:
    """Worker 1, which asks."""
    return Neighbours(tmp_path, 1, 3)


async def test_an_answer(worker: Worker, asking: Neighbours) -> None:
    """A long question and its answer arrive whole, and many of them at a time."""
    long = "word " * 30_000
    replies = await asyncio.gather(*(asking.ask_briefly(2, "echo", {"long": long, "n": n}) for n in range(20)))
    assert [reply.head["heard"] for reply in replies] == [{"long": long, "n": n} for n in range(20)]


async def test_pieces(worker: Worker, asking: Neighbours) -> None:
    """The pieces of an answer come in order; who leaves early ends it at the other side, too."""
    reply = await asking.ask(2, "count", {"most": 50})
    assert await whole(reply) == b"".join(b"%d" % number * 1000 for number in range(50))
    worker.closed.clear()
    reply = await asking.ask(2, "count", {"most": 10**9})
    assert reply.pieces is not None
    await anext(reply.pieces)
    await reply.pieces.aclose()
    await asyncio.wait_for(worker.closed.wait(), 60)


async def test_an_answer_that_is_cut_off(worker: Worker, asking: Neighbours) -> None:
    """An answer without its end is an error, and not a shorter answer."""
    reply = await asking.ask(2, "count", {"most": 3, "fails": True})
    with pytest.raises(NeighbourAway):
        await whole(reply)


async def test_a_socket_as_a_gift(worker: Worker, asking: Neighbours) -> None:
    """A socket arrives with the question, and is a descriptor of its own there."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        await asking.ask_briefly(2, "echo", {"a": "gift"}, theirs.fileno())
        theirs.close()
        [gift] = worker.gifts
        with gift:
            gift.sendall(b"hello")
            assert ours.recv(5) == b"hello"


async def test_a_question_of_somebody_who_has_given_up(worker: Worker, tmp_path: Path) -> None:
    """Who was stopped for a while takes no connection that its client does not use any more."""
    ours, theirs = socket.socketpair()
    with ours, theirs, socket.socket(socket.AF_UNIX) as asking:
        asking.connect(str(tmp_path / "2.sock"))
        question = b'{"kind": "echo"}'
        socket.send_fds(asking, [len(question).to_bytes(4, "big")], [theirs.fileno()])
        asking.sendall(question)
        asking.close()  # the worker has not even looked yet
        theirs.close()
        ours.setblocking(False)
        reading = asyncio.create_task(asyncio.get_running_loop().sock_recv(ours, 1))
        await eventually(lambda: reading.done() or bool(worker.gifts))
        assert not worker.gifts
        assert await reading == b""  # nobody holds the other end any more
    assert worker.failures == 0


async def test_a_client_that_is_gone_before_its_connection_is_passed_on() -> None:
    """Of a connection with TLS, both ends are closed: the other worker notices it, and this one keeps nothing."""
    loop = asyncio.get_running_loop()
    theirs, accepted = socket.socketpair()
    worker, ours = socket.socketpair()
    request = Request("GET", "/v1/stream")
    with theirs, worker:
        websocket = WebSocket(request, None, 1024, lambda _: None, lambda _: None)
        await loop.create_connection(lambda: websocket, sock=accepted)
        assert websocket.pause_for_passing() == b""
        websocket.abort()
        await websocket.wait_until_lost()
        between = await Between.begin(websocket, ours)
        worker.setblocking(False)
        assert await asyncio.wait_for(loop.sock_recv(worker, 1), 60) == b""
        await asyncio.wait_for(between.wait_until_lost(), 60)


@pytest.mark.fails_inside
async def test_a_question_that_fails(worker: Worker, asking: Neighbours) -> None:
    """An unexpected failure is reported there, and the asker learns that there is no answer. A gift is closed."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with pytest.raises(NeighbourAway) as away:
            await asking.ask_briefly(2, "fail", {}, theirs.fileno())
        assert not away.value.gone
        theirs.close()
        assert ours.recv(1) == b""  # nobody holds the other end any more
    assert worker.failures == 1


async def test_workers_that_are_away(worker: Worker, asking: Neighbours, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that does not run is gone; one that does not answer is not."""
    with pytest.raises(NeighbourAway) as away:
        await asking.ask_briefly(3, "echo", {})
    assert away.value.gone
    monkeypatch.setattr(neighbours_module, "ANSWER_LIMIT_S", 0.2)
    with pytest.raises(NeighbourAway) as away:
        await asking.ask_briefly(2, "wait", {})
    assert not away.value.gone


async def test_no_descriptor_is_left(worker: Worker, asking: Neighbours) -> None:
    """Who cannot ask takes the other worker for one that does not answer, and asks again when there is room."""
    with no_descriptors():
        with pytest.raises(NeighbourAway) as away:
            await asking.ask_briefly(2, "echo", {})
        assert not away.value.gone
    assert (await asking.ask_briefly(2, "echo", {})).head["heard"] == {}


@pytest.mark.parametrize("enciphered", [False, True])
async def test_a_connection_that_cannot_be_passed_on(
    asking: Neighbours, enciphered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a descriptor for it, its client is told to try again, and the connection stays."""
    theirs, accepted = socket.socketpair()
    websocket = WebSocket(Request("GET", "/v1/stream"), None, 1024, lambda _: None, lambda _: None)
    monkeypatch.setattr(WebSocket, "enciphered", enciphered)
    with theirs:
        await asyncio.get_running_loop().create_connection(lambda: websocket, sock=accepted)
        with no_descriptors():
            assert await pass_on(asking, 2, websocket, {}) is ErrorCode.NOT_READY
        assert not websocket.lost
        websocket.abort()
        await websocket.wait_until_lost()


async def test_a_worker_without_descriptors(
    worker: Worker, asking: Neighbours, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not try all the time to take a connection, and answers when there is room."""
    tried = 0
    accept = socket.socket.accept

    def count(listener: socket.socket) -> object:
        nonlocal tried
        tried += 1
        return accept(listener)

    monkeypatch.setattr(neighbours_module, "ACCEPT_PAUSE_S", 0.2)
    monkeypatch.setattr(socket.socket, "accept", count)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / "2.sock"))
        with no_descriptors():
            await eventually(lambda: tried > 1)
            began = time.monotonic()
            await eventually(lambda: tried > 3)
            assert time.monotonic() - began > 0.2
        assert (await asking.ask_briefly(2, "echo", {})).head["heard"] == {}


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_stranger_leaves_nothing(worker: Worker, tmp_path: Path) -> None:
    """Connections that say nothing, or too much, end without an answer, and no descriptor stays."""
    before = open_descriptors()
    for first in (b"", b"\xff\xff\xff\xff", b"\0\0\0\4nope"):
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "2.sock"))
        writer.write(first)
        writer.write_eof()
        assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()
        await writer.wait_closed()
    for _ in range(600):
        if open_descriptors() <= before:
            break
        await asyncio.sleep(0.05)
    assert open_descriptors() <= before
