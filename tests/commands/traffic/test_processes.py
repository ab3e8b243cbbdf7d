"""The processes behind a service on this machine."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from streamer.base.machine import find_process
from streamer.bridge.triton import MODEL
from streamer.bridge.triton.repository import asr_repository
from streamer.bridge.triton.server import TritonServer
from streamer.commands.traffic.metrics import batch_counts
from streamer.commands.traffic.processes import (
    Processes,
    Use,
    graphics,
    listener,
    memory_mb,
    most_graphics,
    read_graphics,
    work_between,
)
from streamer.commands.traffic.results import Graphics, Work


def test_who_listens() -> None:
    """The process that listens at a port is found, and nobody where nobody listens."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        assert listener(port) is None
        listening.listen()
        assert listener(port) == os.getpid()


def test_a_real_triton(exact_triton: TritonServer) -> None:
    """The server and its model are found below the bridge, with their memory and the address of the metrics."""
    found = Processes(os.getpid(), (), os.getpid())
    uses = found.use()
    assert {"bridge", "tritonserver", "model", "this command"} <= set(uses)
    assert all(uses[name].memory_mb > 1 and uses[name].cpu_s > 0 for name in ("bridge", "tritonserver", "model"))
    address = found.metrics_address()
    assert address is not None
    assert batch_counts(address) is not None
    assert exact_triton.pid > 0


def test_a_private_triton() -> None:
    """The metrics of a Triton without ports are read at its socket."""
    with TritonServer(asr_repository(), models=[MODEL], private=True) as triton:
        triton.wait_ready()
        guard = find_process(triton.pid)
        assert guard is not None
        address = Processes(guard.parent, (), os.getpid()).metrics_address()
        assert address is not None
        assert address.startswith("/")
        assert batch_counts(address) is not None


def test_a_service_elsewhere() -> None:
    """Only the processes of the measurement are known then."""
    found = Processes(None, [os.getpid()], os.getpid())
    assert set(found.use()) == {"clients", "this command"}
    assert found.metrics_address() is None
    assert memory_mb(1 << 30) == 0


def test_work() -> None:
    """Work is the difference of two moments, with the most memory in between; new processes count from their start."""
    before = {"model": Use(1.0, 100.0, 1)}
    after = {"model": Use(3.0, 90.0, 1), "others": Use(0.5, 5.0, 2)}
    assert work_between(before, after, {"model": 120.0}) == {"model": Work(2.0, 120.0, 1), "others": Work(0.5, 5.0, 2)}


def test_graphics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer of nvidia-smi is read; without the program, or if it fails, there is no GPU."""
    assert read_graphics("50, 1000\n30, 500\n") == Graphics(0.4, 1500.0)
    assert read_graphics("[N/A], [N/A]\n") is None
    assert most_graphics([Graphics(0.25, 100.0), Graphics(0.75, 300.0)]) == Graphics(0.5, 300.0)
    assert most_graphics([]) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert graphics() is None
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho '10, 200'\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    assert graphics() == Graphics(0.1, 200.0)
    tool.write_text("#!/bin/sh\nexit 9\n")
    assert graphics() is None
