"""Checks the machine: Python, processors, shared memory, open files, environment variables and ffmpeg."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from streamer.base.machine import (
    REMEDY,
    free_bytes,
    machine_memory,
    preferred_folder,
    processors,
    temporary_folder,
)
from streamer.base.text import counted
from streamer.commands.checks.finding import FINE, WARNING, WRONG, Finding
from streamer.commands.keyboard import DesktopError, find_keyboard

GOOD_TEMPORARY: Final = 64 << 20
PYTHONS: Final = ((3, 10), (3, 12))
SHARED_MEMORY: Final = Path("/dev/shm")
# Each process of the model needs 4 MiB, and more for long requests.
LEAST_SHARED_MEMORY: Final = 8 << 20
GOOD_SHARED_MEMORY: Final = 48 << 20
GOOD_DESCRIPTORS: Final = 1024  # each session takes one, and Triton about a hundred
GOOD_MEMORY: Final = 2 << 30  # a process of the model takes 0.4 GB, the bridge and Triton together 0.1 GB

SHOWN_VARIABLES: Final = (
    "LANG",
    "LC_ALL",
    "TERM",
    "NO_COLOR",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
    "SSL_CERT_FILE",
    "TMPDIR",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "PULSE_SERVER",
    "ALSA_CONFIG_PATH",
)
PRIVATE_VARIABLES: Final = (
    "STREAMER_KEY",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
)

_PATIENCE_S: Final = 10


def python() -> Iterator[Finding]:
    """Check the version of Python."""
    least, most = PYTHONS
    version = f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}"
    if least <= sys.version_info[:2] <= most:
        yield Finding("Python", FINE, version)
    else:
        tested = f"Streamer is tested with Python {least[0]}.{least[1]} to {most[0]}.{most[1]}"
        yield Finding(
            "Python",
            WARNING,
            f"{version}. {tested}",
            "python3.12 -m venv .venv, and install Streamer there; in a clone: make install PYTHON=python3.12",
        )


def system() -> Iterator[Finding]:
    """Check the operating system and the memory."""
    cores = processors()
    text = f"{platform.system()} {platform.release()}, {platform.machine()}, {_distribution()}"
    text += f", {cores} core{'s' * (cores > 1)}"
    memory = GOOD_MEMORY
    if hasattr(os, "sysconf"):
        found = machine_memory()
        memory = found.size
        text += f", {memory / (1 << 30):.1f} GiB of memory{' for this container or service' * found.limited}"
    if platform.system() != "Linux":
        yield Finding("system", WARNING, text, "Triton runs on Linux only: use --server, or a container")
    elif memory < GOOD_MEMORY:
        yield Finding("system", WARNING, f"{text}: the model and its server need at least 1 GB")
    else:
        yield Finding("system", FINE, text)


def shared_memory() -> Iterator[Finding]:
    """Check the shared memory, through which Triton and the processes of the model exchange audio and words."""
    if sys.platform != "linux":
        return
    remedy = "in a container: docker run --shm-size=1g; else: mount -o remount,size=1g /dev/shm"
    try:
        status = os.statvfs(SHARED_MEMORY)
    except OSError as error:
        yield Finding("shared memory", WRONG, f"{SHARED_MEMORY} cannot be used: {error.strerror}", remedy)
        return
    free, size = status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize
    text = f"{_mebibytes(free)} of {_mebibytes(size)} free in {SHARED_MEMORY}"
    if not os.access(SHARED_MEMORY, os.W_OK):
        yield Finding("shared memory", WRONG, f"{SHARED_MEMORY} is not writable", f"chmod 1777 {SHARED_MEMORY}")
    elif free < LEAST_SHARED_MEMORY:
        yield Finding("shared memory", WRONG, f"{text}, but Triton needs {_mebibytes(LEAST_SHARED_MEMORY)}", remedy)
    elif free < GOOD_SHARED_MEMORY:
        yield Finding("shared memory", WARNING, f"{text}: enough for a few instances only", remedy)
    else:
        yield Finding("shared memory", FINE, text)


def temporary_files() -> Iterator[Finding]:
    """Check the folder for temporary files: Triton's log, and recordings from a pipe or an address."""
    folder = preferred_folder()
    free = free_bytes(folder)
    text = f"{_mebibytes(free)} free in {folder}"
    if free >= GOOD_TEMPORARY:
        yield Finding("temporary files", FINE, text)
        return
    try:
        temporary_folder()
    except OSError as error:
        reason, _, remedy = str(error.strerror).partition(": ")
        yield Finding("temporary files", WRONG, reason, remedy)
    else:
        yield Finding("temporary files", WARNING, text, REMEDY)


def descriptors() -> Iterator[Finding]:
    """Check how many files and connections a process may have open."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed, most = ("no limit" if limit == resource.RLIM_INFINITY else limit for limit in (soft, hard))
    text = f"{allowed} per process (at most {most}); each session takes one"
    if soft != resource.RLIM_INFINITY and soft < GOOD_DESCRIPTORS:
        yield Finding("open files", WARNING, text, "ulimit -n 4096, before you start the service")
    else:
        yield Finding("open files", FINE, text)


def environment() -> Iterator[Finding]:
    """List the variables that change how Streamer works. Those that may contain secrets are listed without values."""
    texts = [f"{name}={os.environ[name]}" for name in SHOWN_VARIABLES if os.environ.get(name)]
    texts += [f"{name} is set (not shown)" for name in PRIVATE_VARIABLES if os.environ.get(name)]
    yield Finding("environment", FINE, ", ".join(texts) or "none of the variables that matter is set")


def ffmpeg() -> Iterator[Finding]:
    """Check ffmpeg, which reads the audio of videos and of formats that libsndfile does not know."""
    program = shutil.which("ffmpeg")
    if program is None:
        yield Finding("ffmpeg", WARNING, "not found: videos and M4A cannot be read", "apt install ffmpeg")
        return
    try:
        command = [program, "-version"]
        process = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=True)
        yield Finding("ffmpeg", FINE, f"{process.stdout.split(' Copyright')[0].splitlines()[0]}, {program}")
    except (OSError, IndexError, subprocess.SubprocessError) as error:
        yield Finding("ffmpeg", WARNING, f"{program} does not run: {error}", "apt install --reinstall ffmpeg")


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return "no os-release"


def _mebibytes(size: int) -> str:
    return f"{size / (1 << 20):.0f} MiB"


# Checks the microphones. A separate process lists them, because audio libraries can crash their process.

_LISTING_S: Final = 20


def typing() -> Iterator[Finding]:
    """Report whether words can be typed into other windows. Nothing else needs that, so it is never a problem."""
    try:
        find_keyboard()
    except DesktopError as error:
        yield Finding("typing", FINE, f"not possible: {error}")
        return
    tried = "" if sys.platform == "linux" else "; on this system, it was not tried"
    yield Finding("typing", FINE, f"words can be typed into windows{tried}")


def microphones() -> Iterator[Finding]:
    """Report what `streamer mic --devices` lists."""
    command = [sys.executable, "-m", "streamer", "mic", "--devices"]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=_LISTING_S, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        yield Finding("microphone", WARNING, f"the audio system does not answer: {error}")
        return
    lines = process.stdout.splitlines()
    if process.returncode == 0 and lines:
        own = [line for line in lines if line[2:4].strip()]  # the sources of a sound server have no number
        others = len(lines) - len(own)
        served = f"; PulseAudio or PipeWire has {counted(others, 'source')}" if others else ""
        # A star marks the default.
        default = next((line for line in own if line.startswith("*")), own[0] if own else " none")[1:].strip()
        yield Finding("microphone", FINE, f"PortAudio finds {len(own)}; the default is {default}{served}")
        return
    last = (process.stderr.strip().splitlines() or [f"exit status {process.returncode}"])[-1].removeprefix("streamer: ")
    reason, _, remedy = last.partition(": ")
    yield Finding("microphone", WARNING, reason, remedy)
