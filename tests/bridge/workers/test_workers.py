"""The process that starts workers, on a machine that cannot start one. These workers only say that they are ready.

tests/commands/test_workers.py has whole services.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from streamer.bridge.workers import workers as workers_module
from streamer.bridge.workers.share import SharedRecord
from streamer.bridge.workers.workers import Place, WorkerError, Workers
from tests.bridge.service_client import eventually

# What a worker says all the time, or once.
READY = b'{"tell": "ready", "capacity": null, "measured": false}\n'
ALIVE = b'{"tell": "alive"}\n'
WORKER = """
import socket, sys
dialogue = socket.socket(fileno=int(sys.argv[1]))
dialogue.settimeout(0.05)
once, again = (bytes.fromhex(each) for each in sys.argv[2:])
dialogue.sendall(once)
while True:
    dialogue.sendall(again)
    try:
        dialogue.recv(1)  # until the end
        break
    except TimeoutError:
        pass
"""


class Machine:
    """Starts workers that are well, unless something is missing."""

    def __init__(self) -> None:
        self.failure: Exception | None = None  # instead of a start
        self.once, self.again = READY, ALIVE
        self.starts = self.refusals = 0

    def launch(self, place: Place) -> Sequence[str]:
        if self.failure is not None:
            self.refusals += 1
            raise self.failure
        self.starts += 1
        return [sys.executable, "-c", WORKER, str(place.dialogue), self.once.hex(), self.again.hex()]


NOTHING_LEFT = [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), RuntimeError("can't start new thread")]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine that has room."""
    monkeypatch.setattr(workers_module, "FIRST_PAUSE_S", 0.02)
    monkeypatch.setattr(workers_module, "ALIVE_EVERY_S", 0.05)
    return Machine()


@pytest.fixture
def record(tmp_path: Path) -> Iterator[SharedRecord]:
    """What the workers share."""
    kept = SharedRecord(tmp_path)
    yield kept
    kept.close()


@pytest.fixture
async def workers(tmp_path: Path, machine: Machine, record: SharedRecord) -> AsyncIterator[Workers]:
    """Two workers, which were not started yet."""
    group = Workers(tmp_path, 2, machine.launch, [], [], {}, record, None, 0.0)
    yield group
    await group.stop()


def wait_only_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for silent workers for a short time only."""
    monkeypatch.setattr(workers_module, "SILENT_LIMIT_S", 1.0)
    monkeypatch.setattr(workers_module, "FIRST_WORD_LIMIT_S", 1.0)


@pytest.mark.parametrize("failure", NOTHING_LEFT, ids=str)
async def test_a_worker_that_cannot_be_started_again(workers: Workers, machine: Machine, failure: Exception) -> None:
    """It is tried again until it can be started."""
    await asyncio.wait_for(workers.start(), 120)
    former = workers.pids
    assert sorted(former) == [1, 2]
    machine.failure = failure
    os.kill(former[2], signal.SIGKILL)
    await eventually(lambda: machine.refusals > 1)
    assert workers.pids == {1: former[1]}
    machine.failure = None
    await eventually(lambda: 2 in workers.pids)
    assert workers.pids[2] != former[2]


@pytest.mark.parametrize("failure", NOTHING_LEFT, ids=str)
async def test_a_worker_that_can_never_be_started(workers: Workers, machine: Machine, failure: Exception) -> None:
    """The service does not start, and says why."""
    machine.failure = failure
    with pytest.raises(
        WorkerError, match=r"worker 1 cannot be started \((No space left on device|can't start new .*)\)"
    ):
        await asyncio.wait_for(workers.start(), 120)


@pytest.mark.parametrize("once", [b"", ALIVE], ids=["before its first word", "after it"])
async def test_a_worker_that_hangs_while_it_starts_again(
    workers: Workers, machine: Machine, once: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed and started again, so that the others can be, too, and a model can be rolled."""
    await asyncio.wait_for(workers.start(), 120)
    wait_only_briefly(monkeypatch)
    machine.once, machine.again = once, b""
    os.kill(workers.pids[2], signal.SIGKILL)
    await eventually(lambda: machine.starts == 3)
    machine.once, machine.again = READY, ALIVE
    await eventually(lambda: machine.starts > 3 and workers.pids.get(2) is not None)


async def test_a_worker_that_hangs_at_the_start_of_the_service(
    workers: Workers, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service does not start, and says why."""
    wait_only_briefly(monkeypatch)
    machine.once = machine.again = b""
    with pytest.raises(WorkerError, match=r"worker 1 was killed by SIGKILL before it was ready"):
        await asyncio.wait_for(workers.start(), 120)


async def test_a_worker_that_hangs_while_no_thread_is_left(
    workers: Workers,
    machine: Machine,
    record: SharedRecord,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is killed and started again, although the words of workers that have ended cannot be joined; that is told."""
    await asyncio.wait_for(workers.start(), 120)
    used_up = ThreadPoolExecutor()
    used_up.shutdown()
    asyncio.get_running_loop().set_default_executor(used_up)
    for ended in (-1, -2):
        record._database.execute("INSERT INTO words VALUES (?, 0, ?)", (ended, b""))
    await eventually(lambda: "cannot be joined" in caplog.text)
    wait_only_briefly(monkeypatch)
    os.kill(workers.pids[2], signal.SIGSTOP)
    await eventually(lambda: machine.starts > 2)
    assert caplog.text.count("cannot be joined") == 1
