"""The server's shared memory is for our user alone."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from streamer.triton.private_memory import Watch
from streamer.triton.server import TritonServer

GOOD = Path(__file__).parent / "models" / "good"
SHARED_MEMORY = Path("/dev/shm")
CLOSE = """
import ctypes, errno, os, sys, tempfile
from streamer.triton import private_memory
libc = ctypes.CDLL(None)
"""
# As in a sandbox that allows no filters: whoever asks for one (22) gets an error.
NO_FILTERS = """
prctl = {"x86_64": 157, "aarch64": 167}[os.uname().machine]
architecture, _ = private_memory.ARCHITECTURES[os.uname().machine]
program = private_memory.filter_program(architecture, prctl, 0, 22, error=errno.EPERM)
libc.prctl(38, 1, 0, 0, 0)
assert private_memory.install(libc, program)
"""


def run(program: str, *arguments: str) -> str:
    """What a program prints: filters stay with a process until it ends."""
    done = subprocess.run(
        [sys.executable, "-c", CLOSE + program, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout


def modes(place: Any) -> dict[str, int]:
    place.folders()
    return {name: (SHARED_MEMORY / name).stat().st_mode & 0o777 for name in place.regions()}


def test_a_server_that_wants_others_to_read() -> None:
    """A region is private when it is made, and stays so when its maker sets its mode; other modes can be set."""
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
    """Of each instance, of a model that is loaded later, and of a server that was started again."""
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
    """Where the kernel keeps no filter, that is known, and the regions are closed before a server is ready."""
    told = run(
        NO_FILTERS + "assert not private_memory.close(libc)\n"
        "from pathlib import Path\n"
        "from streamer.triton.server import TritonServer\n"
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
    """It has something to look at when a region appears, and leaves those of others."""
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
    """Nobody but the service's user opens a region."""
    with TritonServer(GOOD):
        (name,) = modes(place)
        program = "import os, sys\nos.setuid(65534)\nopen(sys.argv[1])"
        command = [sys.executable, "-c", program, str(SHARED_MEMORY / name)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "PermissionError" in done.stderr
