"""Runs scripts: as programs, as a user does, or in this process, which has imported torch already."""

from __future__ import annotations

import contextlib
import io
import runpy
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from tests.project import SCRIPTS
from workshop.processes import STOP_SIGNALS

PATIENCE_S = 380


def run(script: str, *arguments: object, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the script of this path below scripts/ to its end."""
    command = [sys.executable, str(SCRIPTS / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=PATIENCE_S, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def run_here(script: str, *arguments: object, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The same in this process, for scripts that would take seconds to import torch.

    The script is the main program also here: it has its arguments, its folder, its output and its exit status.
    """
    path = SCRIPTS / script
    command = [str(path), *map(str, arguments)]
    status = 0
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err, _surroundings(command, folder):
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as end:
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except Exception:
            traceback.print_exc()
            status = 1
    done = subprocess.CompletedProcess(command, status, out.getvalue(), err.getvalue())
    assert "Traceback" not in done.stderr, done.stderr
    return done


@contextmanager
def _surroundings(command: list[str], folder: Path | None) -> Iterator[None]:
    """What a program finds when it starts, and what it may change without harm to later tests."""
    handlers = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(), contextlib.ExitStack() as stack:
        stack.callback(lambda: [signal.signal(number, handler) for number, handler in handlers.items()])
        warnings.resetwarnings()
        patch.setattr(sys, "argv", command)
        patch.syspath_prepend(str(Path(command[0]).parent))
        if folder:
            patch.chdir(folder)
        yield
