"""The process that starts workers, on a machine that cannot start one. These workers only say that they are ready.

tests/commands/test_workers.py has whole services.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from streamer.bridge.workers import workers as workers_module
from streamer.bridge.workers.share import SharedRecord
from streamer.bridge.workers.workers import Place, WorkerError, Workers
from tests.bridge.service_client import eventually

WORKER = """
import socket, sys
dialogue = socket.socket(fileno=int(sys.argv[1]))
dialogue.sendall(b'{"tell": "ready", "capacity": null, "measured": false}\\n')
dialogue.recv(1)  # until the end
"""


class Machine:
    """Starts workers, unless nothing is left on its disk."""

    def __init__(self) -> None:
        self.full = False
        self.refusals = 0

    def launch(self, place: Place) -> Sequence[str]:
        if self.full:
            self.refusals += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return [sys.executable, "-c", WORKER, str(place.dialogue)]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine that has room."""
    monkeypatch.setattr(workers_module, "FIRST_PAUSE_S", 0.02)
    return Machine()


@pytest.fixture
async def workers(tmp_path: Path, machine: Machine) -> AsyncIterator[Workers]:
    """Two workers, which were not started yet."""
    record = SharedRecord(tmp_path)
    group = Workers(tmp_path, 2, machine.launch, [], [], {}, record, None, 0.0)
    yield group
    await group.stop()
    record.close()


async def test_a_worker_that_cannot_be_started_again(workers: Workers, machine: Machine) -> None:
    """It is tried again until it can be started."""
    await asyncio.wait_for(workers.start(), 120)
    former = workers.pids
    assert sorted(former) == [1, 2]
    machine.full = True
    os.kill(former[2], signal.SIGKILL)
    await eventually(lambda: machine.refusals > 1)
    assert workers.pids == {1: former[1]}
    machine.full = False
    await eventually(lambda: 2 in workers.pids)
    assert workers.pids[2] != former[2]


async def test_a_worker_that_can_never_be_started(workers: Workers, machine: Machine) -> None:
    """The service does not start, and says why."""
    machine.full = True
    with pytest.raises(WorkerError, match=r"worker 1 cannot be started \(No space left on device\)"):
        await asyncio.wait_for(workers.start(), 120)
