"""All tests under every supported Python that is on PATH or known to pyenv; says which ones are not at hand.

`nox --session rooms` runs the tests of each room that needs only a part of the packages, with nothing but these.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import nox

SUPPORTED = ("3.10", "3.11", "3.12")
# What the tests of a room, or of a folder in it, need besides pytest: an extra of ours, and packages of others. Other
# rooms need `.[test]`.
ROOMS = {
    "audio": ("", ("psutil", "pytest-asyncio", "trustme")),
    "base": ("", ()),
    "bridge/access": ("bridge", ("psutil", "pytest-asyncio", "trustme")),
    "bridge/http": ("bridge", ("hypothesis", "psutil", "pytest-asyncio", "trustme")),
    "bridge/session": ("bridge", ("hypothesis",)),
    "bridge/telemetry": ("traces", ("psutil", "pytest-asyncio")),
    "client": ("", ("mypy", "psutil", "pytest-asyncio")),
    "commands/accuracy": ("evaluate", ("pytest-asyncio",)),
    "commands/settings": ("", ("hypothesis", "onnx")),
    "commands/terminal": ("", ("psutil",)),
    "engine": ("gpu,reader,whisper", ("hypothesis", "ml-dtypes", "num2words", "onnx")),
    "heads": ("train", ()),
    "models": ("engine,reader", ("ml-dtypes", "onnx", "trustme")),
    "wire": ("", ()),
}
IN_PARALLEL = ("--numprocesses", "auto", "--dist", "loadfile", "--no-loadscope-reorder")  # as in the Makefile

nox.needs_version = ">=2024.4.15"
nox.options.reuse_existing_virtualenvs = True
nox.options.default_venv_backend = "uv|virtualenv"


def candidates(version: str) -> Iterator[str]:
    """Where an interpreter of this version may be."""
    if on_path := shutil.which(f"python{version}"):
        yield on_path
    if pyenv := shutil.which("pyenv"):
        root = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=False).stdout.strip()
        yield from map(str, sorted(Path(root, "versions").glob(f"{version}.*/bin/python{version}"), reverse=True))


def interpreter(version: str) -> str | None:
    """The first one that starts: pyenv puts commands on PATH that may have nothing behind them."""
    for candidate in candidates(version):
        if subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0:
            return candidate
    return None


def tests(session: nox.Session) -> None:
    """All tests, in an environment of their own."""
    # The tests of the wheel install it with pip, which an environment made by uv lacks.
    session.install("--constraint", "requirements.lock", "--editable", ".[docs,test]", "pip")
    session.run("python", "-m", "pytest", *IN_PARALLEL, *session.posargs)


@nox.session(default=False)
@nox.parametrize("room", [nox.param(room, id=room) for room in ROOMS])
def rooms(session: nox.Session, room: str) -> None:
    """The tests of a room, with the packages of its part alone."""
    extra, packages = ROOMS[room]
    session.install("--constraint", "requirements.lock", f".[{extra}]" if extra else ".", "pytest", *packages)
    session.run("python", "-m", "pytest", f"tests/{room}", *session.posargs)


def missing(session: nox.Session) -> None:
    """Says that this Python is not at hand."""
    session.skip("this Python is not at hand")


for supported in SUPPORTED:
    found = interpreter(supported)
    if found:
        nox.session(python=os.path.realpath(found), name=f"tests-{supported}")(tests)
    else:
        nox.session(python=False, name=f"missing-{supported}")(missing)
