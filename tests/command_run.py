"""Runs the command to its end, in a process or in this one; the recordings for it, and their right words."""

from __future__ import annotations

import contextlib
import io
import json
import socket
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
import soundfile

from streamer.commands.cli import run
from streamer.testing.exact_speech import say, silence
from tests.bridge.service_client import SPOKEN, WORDS
from tests.project import SAMPLES
from tests.pseudo_terminal import COMMAND, PATIENCE_S

if TYPE_CHECKING:
    from streamer.bridge.service import Service

TALK, SHORT, PHRASE = (str(SAMPLES / name) for name in ("talk.flac", "airplane.mp3", "quilter.ogg"))


def _away() -> str:
    """An address that no service can have: the port is taken, but nobody listens."""
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    address = f"127.0.0.1:{taken.getsockname()[1]}"
    taken.detach()  # it stays taken until this process ends
    return address


AWAY = _away()


class Said(NamedTuple):
    """The paths of recordings for an exact model, for tests that are not about the words of the shipped one."""

    talk: str  # three sentences in 20 s
    phrase: str  # 6 s
    short: str  # 3 s


def write_said(folder: Path) -> Said:
    """Write these recordings into a folder."""
    said = {
        "talk": (say("somebody speaks first"), silence(1500), np.frombuffer(SPOKEN, "<i2")),
        "phrase": (say(WORDS[0]),),
        "short": (say("this takes three seconds"),),
    }
    for name, audio in said.items():
        soundfile.write(folder / f"{name}.flac", np.concatenate(audio), 16_000)
    return Said(*(str(folder / f"{name}.flac") for name in said))


def streamer(*arguments: str, given: bytes = b"", folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    done = subprocess.run(
        [*COMMAND, *arguments], input=given, capture_output=True, timeout=PATIENCE_S, cwd=folder, check=False
    )
    assert b"Traceback" not in done.stderr
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def streamer_here(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The same in this process, which has imported everything: a process of its own takes half a second to begin.

    It is for what does not depend on the process: neither on its signals and standard input, nor on when it begins.
    """
    status: int | str | None
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err, contextlib.ExitStack() as stack:
        if folder:
            stack.enter_context(pytest.MonkeyPatch.context()).chdir(folder)
        try:
            status = run(arguments)
        except SystemExit as end:
            status = end.code
    assert isinstance(status, int)
    assert "Traceback" not in err.getvalue()
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


def finals(service: Service, recording: str) -> list[str]:
    """The right lines for a recording, as the service gives them."""
    return _finals(service.url, recording, Path(recording).stat().st_mtime_ns)


@cache
def _finals(url: str, recording: str, _changed_ns: int) -> list[str]:
    lines = streamer_here(recording, "--server", url, "--format", "jsonl").stdout.splitlines()
    return [event["text"] for event in map(json.loads, lines) if event["type"] == "final"]
