"""The guard when it is killed or stopped itself."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import psutil

from streamer.triton.server import TritonServer

GOOD = Path(__file__).parent / "models" / "good"


def guard_of(server: TritonServer) -> psutil.Process:
    guard = psutil.Process(server.pid).parent()
    assert guard is not None
    return guard


def test_a_killed_guard_takes_all_processes_along(place: Any, tmp_path: Path, eventually: Any) -> None:
    """All processes end, also those of a model that do not notice the end of the server."""
    shutil.copytree(GOOD, tmp_path / "models")
    model = tmp_path / "models" / "probe" / "1" / "model.py"
    model.write_text("import subprocess\nsubprocess.Popen(['sleep', '60'])\n" + model.read_text())
    server = TritonServer(tmp_path / "models")
    server.start()
    try:
        server.wait_ready()
        processes = psutil.Process(server.pid).children(recursive=True)
        assert "sleep" in [process.name() for process in processes]
        guard_of(server).kill()
        assert eventually(lambda: not psutil.wait_procs(processes, timeout=0.1)[1])
        assert not server.running
    finally:
        server.stop()
    assert place.leftovers() == []


def test_a_stopped_guard_hides_no_end(place: Any, eventually: Any) -> None:
    """If the server dies meanwhile, that is noticed, and it can be started again."""
    with TritonServer(GOOD) as server:
        guard_of(server).suspend()
        os.kill(server.pid, signal.SIGKILL)
        assert eventually(lambda: not server.running)
        server.kill()
        assert place.leftovers() == []
        server.start()
        server.wait_ready()
        assert server.running
    assert place.leftovers() == []


def test_stop_with_a_stopped_guard(place: Any) -> None:
    """The guard continues, and ends the server in order."""
    with TritonServer(GOOD) as server:
        guard = guard_of(server)
        guard.suspend()
        running = server._running
        server.stop()
        assert running is not None
        assert running.guard.returncode >= 0
    assert place.leftovers() == []


def test_a_program_that_dies_while_the_guard_is_stopped(place: Any, program: Any, eventually: Any) -> None:
    """The kernel lets the guard continue, and nothing is left."""
    with program("with server:\n    print('ready', flush=True)\n    time.sleep(60)") as running:
        (guard,) = psutil.Process(running.pid).children()
        guard.suspend()
        running.kill()
        assert eventually(lambda: not place.processes())
    assert eventually(lambda: not place.leftovers())
