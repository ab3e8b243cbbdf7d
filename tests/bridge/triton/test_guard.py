"""The guard when it is killed or stopped itself, and the server's shared memory, which is private to our user."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from streamer.bridge.triton.private_memory import Watch
from streamer.bridge.triton.server import TritonServer

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


SHARED_MEMORY = Path("/dev/shm")
CLOSE = """
import ctypes, errno, os, sys, tempfile
from streamer.bridge.triton import private_memory
libc = ctypes.CDLL(None)
"""
# As in a sandbox without filters: the call to install one (22) fails.
NO_FILTERS = """
prctl = {"x86_64": 157, "aarch64": 167}[os.uname().machine]
architecture, _ = private_memory.ARCHITECTURES[os.uname().machine]
program = private_memory.filter_program(architecture, prctl, 0, 22, error=errno.EPERM)
libc.prctl(38, 1, 0, 0, 0)
assert private_memory.install(libc, program)
"""


def run(program: str, *arguments: str) -> str:
    """Return what a program prints; filters stay until a process ends, so this needs its own process."""
    done = subprocess.run(
        [sys.executable, "-c", CLOSE + program, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout


def modes(place: Any) -> dict[str, int]:
    place.folders()
    return {name: (SHARED_MEMORY / name).stat().st_mode & 0o777 for name in place.regions()}


def test_a_server_that_wants_others_to_read() -> None:
    """A region is private from the start, and stays so when its mode is set again; other modes can still be set."""
    told = run(
        "assert private_memory.close(libc)\n"
        "with tempfile.TemporaryDirectory(dir='/dev/shm') as folder:\n"
        "    region = os.open(f'{folder}/region', os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)\n"
        "    print(oct(os.fstat(region).st_mode & 0o777))\n"
        "    for mode in (0o644, 0o640):\n"
        "        os.fchmod(region, mode)\n"
        "        print(oct(os.fstat(region).st_mode & 0o777))\n"
    )
    assert told.split() == ["0o600", "0o600", "0o640"]


def test_every_region_of_a_server(place: Any, tmp_path: Path) -> None:
    """Memory is private for each instance, for a model that is loaded later, and after a restart."""
    repository = tmp_path / "repository"
    shutil.copytree(GOOD, repository)
    shutil.copytree(GOOD / "probe", repository / "later")
    config = repository / "later" / "config.pbtxt"
    config.write_text(config.read_text().replace('name: "probe"', 'name: "later"'))
    with TritonServer(repository, models=["probe"], instances=2) as server:
        assert list(modes(place).values()) == [0o600] * 2
        server.load("later")
        assert list(modes(place).values()) == [0o600] * 4
        server.kill()
        server.start()
        server.wait_ready()
        assert list(modes(place).values()) == [0o600] * 4


def test_without_filters(place: Any) -> None:
    """If the kernel has no filters, that is noticed, and the regions are closed before a server is ready."""
    told = run(
        NO_FILTERS + "assert not private_memory.close(libc)\n"
        "from pathlib import Path\n"
        "from streamer.bridge.triton.server import TritonServer\n"
        "tempfile.tempdir = sys.argv[2]\n"
        "with TritonServer(Path(sys.argv[1]), instances=2):\n"
        "    (folder,) = Path(tempfile.tempdir).iterdir()\n"
        "    for region in Path('/dev/shm').glob(folder.name + '-*'):\n"
        "        print(oct(region.stat().st_mode & 0o777))\n",
        str(GOOD),
        str(place.folder),
    )
    assert told.split() == ["0o600", "0o600"]
    assert not place.leftovers()


def test_a_watch_closes_what_is_of_its_server(tmp_path: Path) -> None:
    """A watch notices a new region, and leaves those of other servers."""
    folder = Path(f"streamer-triton-{os.getpid():08}")
    ours, others = SHARED_MEMORY / f"{folder.name}-region", SHARED_MEMORY / f"{folder.name}0-region"
    watch = Watch(ctypes.CDLL(None), folder)
    try:
        for region in (ours, others):
            region.touch()
            region.chmod(0o644)
        watch.look()
        assert ours.stat().st_mode & 0o777 == 0o600
        assert others.stat().st_mode & 0o777 == 0o644
    finally:
        os.close(watch.fileno())
        ours.unlink()
        others.unlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_cannot_read_it(place: Any) -> None:
    """Only the user of the service can open a region."""
    with TritonServer(GOOD):
        (name,) = modes(place)
        program = "import os, sys\nos.setuid(65534)\nopen(sys.argv[1])"
        command = [sys.executable, "-c", program, str(SHARED_MEMORY / name)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "PermissionError" in done.stderr
