"""Messages to a supervisor at a real Unix datagram socket."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamer.bridge.telemetry.supervisor_messages import SupervisorMessages

OFTEN = "30000"  # microseconds


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[socket.socket]:
    """Provide a supervisor's socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.setblocking(False)
        yield listening


async def heard(supervisor: socket.socket) -> str:
    """Return the next message."""
    told = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(supervisor, 100), 60)
    return told.decode()


async def test_ready_and_stopping(supervisor: socket.socket) -> None:
    """Both are sent once, and nothing else if no watchdog is asked for."""
    async with SupervisorMessages({"NOTIFY_SOCKET": supervisor.getsockname()}) as messages:
        messages.ready()
        messages.stopping()
    assert [await heard(supervisor), await heard(supervisor)] == ["READY=1", "STOPPING=1"]
    with pytest.raises(BlockingIOError):
        supervisor.recv(100)


async def test_watchdog(supervisor: socket.socket) -> None:
    """The event loop reports regularly that it runs, and stops at the end."""
    environment = {"NOTIFY_SOCKET": supervisor.getsockname(), "WATCHDOG_USEC": OFTEN, "WATCHDOG_PID": str(os.getpid())}
    async with SupervisorMessages(environment):
        assert [await heard(supervisor) for _ in range(3)] == ["WATCHDOG=1"] * 3
    while True:
        try:
            supervisor.recv(100)
        except BlockingIOError:
            break
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize("asked", [{"WATCHDOG_USEC": OFTEN, "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"}, {}])
async def test_no_watchdog(supervisor: socket.socket, asked: dict[str, str]) -> None:
    """Messages that another process should send, or none at all, are not sent."""
    async with SupervisorMessages({"NOTIFY_SOCKET": supervisor.getsockname(), **asked}):
        assert len(asyncio.all_tasks()) == 1


async def test_an_abstract_name() -> None:
    """A name with @ is in the abstract namespace, without a file."""
    name = f"streamer-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0{name}")
        listening.setblocking(False)
        SupervisorMessages({"NOTIFY_SOCKET": f"@{name}"}).ready()
        assert await heard(listening) == "READY=1"


async def test_a_supervisor_that_has_gone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A socket that is not there is a line in the log, and the service goes on."""
    with caplog.at_level(logging.WARNING, logger="streamer"):
        SupervisorMessages({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready()
    assert "supervisor not told" in caplog.text


async def test_a_supervisor_that_does_not_read(supervisor: socket.socket) -> None:
    """A full socket does not stop the service."""
    messages = SupervisorMessages({"NOTIFY_SOCKET": supervisor.getsockname()})
    for _ in range(10_000):
        messages.ready()


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "vsock:2:1"}])
async def test_without_a_supervisor(environment: dict[str, str]) -> None:
    """Without a socket nothing is sent, and nothing runs."""
    async with SupervisorMessages({**environment, "WATCHDOG_USEC": OFTEN}) as messages:
        messages.ready()
        assert len(asyncio.all_tasks()) == 1
