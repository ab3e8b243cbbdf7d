"""Requests over the socket of the user's runtime folder."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from streamer.commands.mic_control import ControlError, Request, ask, socket_path, taking_requests


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a runtime folder."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


class Session:
    """Keeps what it was asked for."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    async def perform(self, request: Request) -> str:
        """Take a request."""
        self.requests.append(request)
        return "listening"


async def test_a_request_and_its_answer() -> None:
    """Each request is performed once, and its answer is the state. Only this user can reach the socket."""
    session = Session()
    async with taking_requests(session.perform):
        for request in Request:
            assert await asyncio.to_thread(ask, request) == "listening"
        assert socket_path().stat().st_mode & 0o777 == 0o600
        assert socket_path().parent.stat().st_mode & 0o777 == 0o700
    assert session.requests == list(Request)
    assert not socket_path().exists()


async def test_a_request_that_nobody_understands() -> None:
    """A wrong line gets a sentence, and the session goes on; so it does after a client that sends nothing."""
    session = Session()
    async with taking_requests(session.perform):
        reader, writer = await asyncio.open_unix_connection(socket_path())
        writer.write(b"rm -rf \xff\n")
        answer = await reader.readline()
        writer.close()
        _, writer = await asyncio.open_unix_connection(socket_path())
        writer.close()
        assert await asyncio.to_thread(ask, Request.STATE) == "listening"
    assert answer == b"a request must be toggle, listen, pause, scratch, state or end\n"
    assert session.requests == [Request.STATE]


async def test_a_second_session() -> None:
    """It is refused, because both would type; the socket of a killed one is replaced."""
    session = Session()
    async with taking_requests(session.perform):
        with pytest.raises(ControlError, match="another `streamer mic` takes requests already"):
            async with taking_requests(session.perform):
                pass
        assert await asyncio.to_thread(ask, Request.STATE) == "listening"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(socket_path()))
    with pytest.raises(ControlError, match="no `streamer mic` takes requests"):
        ask(Request.STATE)
    async with taking_requests(session.perform):
        assert await asyncio.to_thread(ask, Request.STATE) == "listening"


async def test_a_folder_of_others() -> None:
    """No socket is made where other users could replace it."""
    socket_path().parent.mkdir()
    socket_path().parent.chmod(0o777)
    with pytest.raises(ControlError, match="other users may write to"):
        async with taking_requests(Session().perform):
            pass
    assert not socket_path().exists()
