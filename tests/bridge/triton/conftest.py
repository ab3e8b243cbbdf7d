from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psutil
import pytest

from streamer.bridge.triton.server import TritonServer

MODELS = Path(__file__).parent / "models"
# A program that starts a server, reports that, and then runs its last lines.
PROGRAM = """
import os, sys, time
from pathlib import Path
from streamer.bridge.triton.server import TritonServer

server = TritonServer(Path(sys.argv[1]), grace=2)
"""


class Place:
    """A test's folder for temporary files, and what its servers leave behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._names: set[str] = set()

    def folders(self) -> list[Path]:
        """Return the folders of servers; their names are kept for regions()."""
        found = list(self.folder.glob("streamer-triton-*"))
        self._names.update(path.name for path in found)
        return found

    def processes(self) -> list[psutil.Process]:
        """Return every process with the folder in its command line: guards, servers and their Python processes."""
        found = []
        for process in psutil.process_iter():
            try:
                if any(str(self.folder) in word for word in process.cmdline()):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def regions(self) -> list[str]:
        """Return the shared memory of all servers that were seen."""
        return [path.name for path in Path("/dev/shm").iterdir() if path.name.startswith(tuple(self._names))]

    def leftovers(self) -> list[object]:
        return [*self.folders(), *self.processes(), *self.regions()]


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    tmp_path_factory.getbasetemp()  # chosen now, so that it does not lie in the folder of this test
    # A short path: the paths that pytest makes are too long for the sockets of a private server.
    with tempfile.TemporaryDirectory(prefix="test-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Place(Path(folder))


@pytest.fixture
def program(place: Place) -> Callable[[str], AbstractContextManager[subprocess.Popen[bytes]]]:
    """Run PROGRAM with more lines in a new session, until it reports that it is ready."""

    @contextmanager
    def run(lines: str) -> Iterator[subprocess.Popen[bytes]]:
        with subprocess.Popen(
            [sys.executable, "-c", PROGRAM + lines, str(MODELS / "good")],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": str(place.folder)},
            start_new_session=True,
        ) as running:
            try:
                assert running.stdout is not None
                assert running.stdout.readline() == b"ready\n"
                assert place.folders()
                yield running
            finally:
                running.kill()

    return run


@pytest.fixture(scope="session")
def server() -> Iterator[TritonServer]:
    """Provide a server with two instances of the model `probe`, for tests that do it no harm."""
    with TritonServer(MODELS / "good", instances=2) as running:
        yield running


@pytest.fixture(scope="session")
def eventually() -> Callable[..., bool]:
    """Whether a condition becomes true in time."""

    def wait(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    return wait
