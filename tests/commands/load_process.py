"""`streamer load` as a process, and recordings for it that have their texts beside them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.pseudo_terminal import COMMAND, PATIENCE_S

LEVEL_OVER = "streamer: 1 session: "


class Loading:
    """The command in a process of its own."""

    def __init__(self, *arguments: str, folder: Path) -> None:
        self._out, self._err = folder / "out", folder / "err"
        with self._out.open("w") as out, self._err.open("w") as err:
            self.process = psutil.Popen([*COMMAND, "load", *arguments], stdout=out, stderr=err)

    @property
    def out(self) -> str:
        """What it has printed."""
        return self._out.read_text()

    @property
    def err(self) -> str:
        """What it has reported."""
        return self._err.read_text()

    def wait_for(self, words: str) -> None:
        """Wait until it has reported these words."""
        deadline = time.monotonic() + PATIENCE_S
        while words not in self.err:
            assert self.process.is_running(), (self.out, self.err)
            assert time.monotonic() < deadline, (self.out, self.err)
            time.sleep(0.05)

    def status(self) -> int:
        """Wait for its end. Returns the exit status."""
        status: int = self.process.wait(PATIENCE_S)
        assert "Traceback" not in self.err
        return status


Start = Callable[..., Loading]


@contextmanager
def starting(folder: Path) -> Iterator[Start]:
    """Yield a function that starts the command. All that was started has ended at the end."""
    started: list[Loading] = []

    def start(*arguments: str) -> Loading:
        started.append(Loading(*arguments, folder=folder))
        return started[-1]

    yield start
    for each in started:
        if each.process.is_running():
            each.process.terminate()
            each.process.wait(PATIENCE_S)


def with_text(recording: str | Path, text: str, folder: Path) -> Path:
    """Copy a recording into a folder, with its text beside it. Returns its path."""
    path = folder / Path(recording).name
    shutil.copy(recording, path)
    path.with_suffix(".txt").write_text(text)
    return path
