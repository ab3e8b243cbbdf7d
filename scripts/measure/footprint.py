"""Measures what the service takes on this machine: the disk, the time to the first partial, and the memory of a model.

    .venv/bin/python scripts/measure/footprint.py
    .venv/bin/python scripts/measure/footprint.py --environment /tmp/other --rounds 0 --instances 1 3

It prints the size of an environment by package; the time from the typed command to its first partial, and what its
model process does until it is ready; and the memory of the model processes after a minute of speech. That memory is
proportional (PSS): pages that several processes share are divided among them.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamer.audio.audio_file import SAMPLE_RATE, read_audio
from streamer.base.machine import command, descendants
from streamer.bridge.service import Service
from streamer.bridge.triton import MODEL
from streamer.bridge.triton.repository import asr_repository
from streamer.bridge.triton.server import TritonServer
from streamer.client import transcribe

RECORDING: Final = Path("audio_samples/talk.flac")
SPOKEN_S: Final = 60  # how much speech each model process gets before its memory is measured
SESSIONS: Final = 2  # for each instance, so that each one gets some
LARGEST: Final = 15
STUB: Final = "triton_python_backend_stub"

Speech = NDArray[np.int16]


def main() -> None:
    """Measure, and print three tables."""
    parser = argparse.ArgumentParser(description="Measures disk, start and memory of the service.")
    add = parser.add_argument
    add("--environment", type=Path, default=Path(sys.prefix), help="whose packages are counted (the one that runs)")
    add(
        "--rounds",
        type=int,
        default=5,
        metavar="N",
        help="how often the command is typed, of which the median counts (5)",
    )
    add("--instances", type=int, nargs="*", default=[1, 2], metavar="N", help="how many processes of the model (1 2)")
    add("--recording", type=Path, default=RECORDING, help=f"speech ({RECORDING})")
    options = parser.parse_args()
    print_packages(options.environment)
    if options.rounds:
        print_start(options.recording, options.rounds)
    if options.instances:
        print_memory(np.resize(read_audio(options.recording), SPOKEN_S * SAMPLE_RATE), options.instances)


def print_packages(environment: Path) -> None:
    """Print how much of the disk an environment takes, and its largest packages."""
    folders = [str(folder) for folder in environment.glob("lib/python*/site-packages")]
    sizes = {found.name: size_of(found) for found in distributions(path=folders)}
    whole = sum(path.lstat().st_size for path in environment.rglob("*") if not path.is_dir())
    print(f"{environment}: {whole / 1e6:.0f} MB in {len(sizes)} packages\n\n| package | MB |\n|---|---|")
    for name in sorted(sizes, key=lambda each: -sizes[each])[:LARGEST]:
        print(f"| {name} | {sizes[name] / 1e6:.1f} |")


def size_of(package: Distribution) -> int:
    """Return the bytes of the files of a package, with what Python compiled of them."""
    paths = {Path(str(package.locate_file(file))) for file in package.files or ()}
    return sum(path.stat().st_size for path in paths if path.is_file())


def print_start(recording: Path, rounds: int) -> None:
    """Print when the typed command has come how far."""
    tables = [typed(recording) for _ in range(rounds)]
    print(f"\nSeconds from the typed command, median of {rounds}:\n\n| | s |\n|---|---|")
    for moment in tables[0][0]:
        print(f"| {moment} | {statistics.median(moments[moment] for moments, _ in tables):.2f} |")
    print(f"\n{tables[-1][1]}")


def typed(recording: Path) -> tuple[dict[str, float], str]:
    """Transcribe with the command line. Return its moments, and the line of the model process."""
    arguments = [sys.executable, "-m", "streamer", "--server", "embedded", "--timing", str(recording)]
    told = subprocess.run(arguments, capture_output=True, text=True, check=True).stderr
    rows = re.findall(r"^ +([\d.]+) +\+[\d.]+  (.*)$", told, re.MULTILINE)
    [load] = re.findall(r"\S+ took .* s to load: .*", told)
    return {name: float(at) for at, name in rows}, load


def print_memory(speech: Speech, numbers: Sequence[int]) -> None:
    """Print the memory of the model processes by their number, and what each further one adds."""
    print(f"\nProportional memory after {SPOKEN_S} s of speech:\n")
    print("| instances | model processes, MB | each further one, MB | Triton, MB |\n|---|---|---|---|")
    measured: list[tuple[int, int]] = []
    for number in numbers:
        models, server = memory_of(speech, number)
        measured.append((number, models))
        least, more = measured[0][1], number - measured[0][0]
        added = f"{(models - least) / more / 1e6:.0f}" if more else "-"
        print(f"| {number} | {models / 1e6:.0f} | {added} | {server / 1e6:.0f} |", flush=True)


def memory_of(speech: Speech, instances: int) -> tuple[int, int]:
    """Return the memory of all processes of the shipped model after some speech, and that of the server."""
    server = TritonServer(asr_repository(), models=[MODEL], instances=instances, private=True)
    with server:
        return asyncio.run(_memory_after_speech(server, speech, SESSIONS * instances))


async def _memory_after_speech(server: TritonServer, speech: Speech, sessions: int) -> tuple[int, int]:
    async with Service(server, port=0) as service:
        await asyncio.gather(*(_session(service.url, speech) for _ in range(sessions)))
        models = [each.pid for each in descendants(server.pid) if STUB in " ".join(command(each.pid))]
        return sum(map(proportional_bytes, models)), proportional_bytes(server.pid)


async def _session(url: str, speech: Speech) -> None:
    async for _ in transcribe(np.array_split(speech, SPOKEN_S), url):
        pass


def proportional_bytes(pid: int) -> int:
    """Return the proportional memory of a process."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    [size] = re.findall(r"^Pss: +(\d+) kB$", text, re.MULTILINE)
    return 1024 * int(size)


if __name__ == "__main__":
    main()
