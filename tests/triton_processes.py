"""A Triton seen from outside: its streams, the processes of its models, and their shared memory."""

from __future__ import annotations

import asyncio
import re
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from streamer.base.limits import SPEAKERS
from streamer.bridge.triton.server import TritonServer


def soon_forgetting(repository: Path, seconds: int = 2) -> None:
    """Change a repository: its Triton drops an idle sequence after so many seconds instead of fifteen."""
    config = repository / "streaming_asr" / "config.pbtxt"
    text, replaced = re.subn(r"(max_sequence_idle_microseconds:) \d+", rf"\1 {seconds}000000", config.read_text())
    assert replaced == 1
    config.write_text(text)


def metric(triton: TritonServer, name: str) -> float:
    """The sum of one of its metrics over models and instances."""
    with urllib.request.urlopen(f"http://{triton.metrics_address}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name + "{"))


def reported(triton: TritonServer, label: str, value: str) -> dict[str, float]:
    """The samples that have this label, by name."""
    with urllib.request.urlopen(f"http://{triton.metrics_address}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return {line.partition("{")[0]: float(line.split()[-1]) for line in lines if f'{label}="{value}"' in line}


def live_streams(triton: TritonServer) -> float:
    """How many streams are open, according to the model."""
    return metric(triton, "streamer_slots_live")


def expired_streams(triton: TritonServer) -> float:
    """How many streams expired because nobody ended them."""
    return metric(triton, "streamer_streams_expired_total")


def recognisers(server: int) -> list[psutil.Process]:
    """The processes of Triton's models, without the one that tells voices apart."""
    return [process for process in stubs(server) if f"/{SPEAKERS}/" not in " ".join(process.cmdline())]


def stubs(server: int) -> Iterator[psutil.Process]:
    """The Python processes of a tritonserver: one for each instance of a model."""
    for process in psutil.Process(server).children(recursive=True):
        with suppress(psutil.Error):  # it has ended
            if "triton_python_backend_stub" in " ".join(process.cmdline()):
                yield process


def asleep(process: psutil.Process) -> bool:
    """Whether a process does nothing. One that is killed while it answers can take its tritonserver with it."""
    used = process.cpu_times()
    time.sleep(0.1)
    return process.cpu_times() == used


async def no_streams(triton: TritonServer) -> None:
    """Wait until the model has no stream. All must have been ended: none expires, as a forgotten one does."""
    expired = await asyncio.to_thread(expired_streams, triton)
    await streams_gone(triton)
    assert await asyncio.to_thread(expired_streams, triton) == expired


async def streams_gone(triton: TritonServer) -> None:
    """Wait until the model has no stream. One that nobody ends expires after 15 s or more."""
    for _ in range(600):
        if await asyncio.to_thread(live_streams, triton) == 0:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{live_streams(triton)} streams are still open")


def shared_memory(prefixes: set[str]) -> list[str]:
    return [path.name for path in Path("/dev/shm").iterdir() if path.name.startswith(tuple(prefixes))]


def shared_memory_names(server: int) -> set[str]:
    """The names of the shared memory of a tritonserver."""
    options = [word for word in psutil.Process(server).cmdline() if "shm-region-prefix-name=" in word]
    return {option.rpartition("=")[2] for option in options}


def mapped(triton: TritonServer, library: str) -> list[str]:
    """Return the lines about files with this in their name, from the maps of memory of all processes of models."""
    processes = list(stubs(triton.pid))
    assert processes
    maps = [Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8", errors="replace") for process in processes]
    return [line for each in maps for line in each.splitlines() if library in line]
