"""The client on a machine without Linux, as far as this can be simulated on Linux."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable

import pytest

from streamer.bridge.service import Service
from tests.command_run import PHRASE, finals
from tests.project import ROOT
from tests.pseudo_terminal import PATIENCE_S

# Python modules that Linux has and macOS and Windows do not have.
NOT_ON_MACOS = ("spwd",)
NOT_ON_WINDOWS = (
    "fcntl",
    "termios",
    "tty",
    "pty",
    "pwd",
    "grp",
    "resource",
    "syslog",
    "readline",
    "nis",
    "crypt",
    "spwd",
)
# Packages that the light client does not install.
NOT_INSTALLED = ("torch", "torchaudio", "grpc", "tritonclient", "prometheus_client", "h11", "google", "safetensors")
# Some of Python's own modules also check the platform when they are imported, so these are imported first.
ANOTHER_MACHINE = """
import argparse, asyncio, ctypes, difflib, http.client, http.server, json, logging, multiprocessing, platform, shutil
import signal, socket, ssl, subprocess, sys, sysconfig, tempfile, threading, urllib.request, uuid
import argcomplete, numpy, soundfile, soxr, websockets.asyncio.client, websockets.asyncio.server
absent = {absent!r}
for name in list(sys.modules):
    if name.split(".")[0] in absent:
        del sys.modules[name]
sys.modules.update(dict.fromkeys(absent))
sysconfig.get_config_vars()
shutil._win_path_needs_curdir = lambda *given: False  # from Python 3.12 on, it asks Windows itself
sys.platform = {platform!r}
"""
MACHINES = {"win32": NOT_ON_WINDOWS, "darwin": NOT_ON_MACOS}
# These can be run with only the client installed.
PARTS = (
    "streamer.client",
    "streamer.commands.cli",
    "streamer.commands.service",
    "streamer.commands.transcribe",
    "streamer.commands.batch",
    "streamer.commands.mic",
    "streamer.commands.dictation",
    "streamer.commands.doctor",
    "streamer.commands.doctor",
    "streamer.commands.completion",
    "streamer.commands.models",
    "streamer.models.installation",
    "streamer.commands.plan",
    "streamer.base.machine",
    "streamer.commands.capacity.plan",
    "streamer.commands.evaluate",
    "streamer.commands.terminal.live_transcript",
    "streamer.commands.dictation",
    "streamer.audio.microphone",
    "streamer.audio.sound_server",
    "streamer.audio.ffmpeg",
    "streamer.audio.incoming",
)


def on(platform: str, code: str) -> subprocess.CompletedProcess[str]:
    """Run this code as on another machine."""
    before = ANOTHER_MACHINE.format(absent=(*MACHINES[platform], *NOT_INSTALLED), platform=platform)
    return subprocess.run(
        [sys.executable, "-c", before + code],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        cwd=ROOT,
    )


def command(arguments: Iterable[str]) -> str:
    """The code that runs a command line."""
    return f"from streamer.commands.cli import run; sys.exit(run({list(arguments)!r}))"


@pytest.mark.parametrize("platform", MACHINES)
def test_nothing_of_linux_is_imported(platform: str) -> None:
    """No module of Linux is imported, and no package that the light client does not install."""
    done = on(platform, "".join(f"import {part}\n" for part in PARTS))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("platform", MACHINES)
def test_a_service_elsewhere_does_the_work(service: Service, platform: str) -> None:
    """A service elsewhere transcribes a recording, as on Linux."""
    done = on(platform, command([PHRASE, "--format", "json", "--server", service.url]))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["text"] == " ".join(finals(service, PHRASE))


@pytest.mark.parametrize("platform", MACHINES)
def test_without_a_service_a_sentence_says_what_to_do(platform: str) -> None:
    """Without a service the message says what to do, because Triton runs only on Linux."""
    code = "import streamer.base.address; streamer.base.address.is_ready = lambda *_: False\n"
    done = on(platform, code + command([PHRASE]))
    assert (done.returncode, done.stdout) == (1, "")
    assert "which runs only on Linux: name a service with --server." in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("platform", MACHINES)
def test_the_doctor_knows_such_machines(platform: str) -> None:
    """`doctor` does not look for things that only Linux has."""
    done = on(platform, command(["doctor", "--quick", "--json"]))
    assert done.stderr == ""
    subjects = {finding["subject"] for finding in json.loads(done.stdout)["findings"]}
    assert "shared memory" not in subjects
    assert "temporary files" in subjects
    assert ("open files" in subjects) is (platform == "darwin")
