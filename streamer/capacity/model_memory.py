"""Measures how much memory each part of a service takes: the model, Triton, and the bridge, each in its own process.

A program of `streamer.engine.memory` measures the model, because this package does not import the engine.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from streamer.audio.audio_file import read_audio
from streamer.bridge.session.backlog import HIGH_MARK
from streamer.bridge.session.outbox import MOST_KEPT as MOST_MESSAGES
from streamer.bridge.session.stream import MOST_KEPT as MOST_AUDIO
from streamer.capacity.plan import Part, Scope
from streamer.capacity.session_limit import SPEECH
from streamer.distribution import install_command
from streamer.shipped import PACKAGE, shipped
from streamer.triton.repository import is_public
from streamer.triton.server import REGION_BYTES, TritonServer

_REPORT: Final = "streamer.engine.memory.report"
_GRAPH_REPORT: Final = "streamer.engine.memory.graph_report"  # of a public model, which needs no torch
_PATIENCE_S: Final = 300.0  # for one measurement; a busy machine with a slow disk needs a minute to load torch
_BRIDGE: Final = "import streamer.bridge.service, time; print(open('/proc/self/status').read())"


class MeasuringError(Exception):
    """The memory cannot be measured. The message says why."""


@dataclass(frozen=True)
class ModelMemory:
    """The memory of the parts of a model, and the device where it computes."""

    name: str  # of the bundle
    gpu: str | None  # the name of the GPU; None on a CPU
    gpu_memory: int | None  # of the whole GPU, in bytes
    batch: int
    parts: Sequence[Part]


def model_memory(folder: Path, batch: int, kind: str) -> ModelMemory:
    """Measure a model in the folder of its newest version. `kind` is that of its instances, in Triton's words.

    MeasuringError if the folder is not a bundle, or a part of Streamer is not installed.
    """
    result = report([_GRAPH_REPORT if is_public(folder) else _REPORT, str(folder)], batch, kind)
    return ModelMemory(
        result["name"], result["device"].get("name"), result["device"].get("memory"), batch, _parts(result, batch)
    )


def report(program: Sequence[str], batch: int, kind: str) -> dict[str, Any]:
    """Return the measurements of a program of `streamer.engine.memory`. MeasuringError if it fails."""
    where = {"KIND_CPU": "cpu", "KIND_GPU": "gpu"}.get(kind, "auto")
    if program[0] != _GRAPH_REPORT and importlib.util.find_spec("torch") is None:
        raise MeasuringError(f"the memory of a model cannot be measured without torch: {install_command('embedded')}")
    speech = read_audio(shipped(SPEECH)).tobytes()
    output = measure(["-m", *program, "--batch", str(batch), "--kind", where], speech)
    result: dict[str, Any] = json.loads(output or "{}")
    if "error" in result:
        raise MeasuringError(f"the memory of this model cannot be measured: {result['error']}")
    return result


def server_parts(repository: Path, steps: int = 1) -> list[Part]:
    """Measure Triton without models, and the bridge without sessions. TritonError if there is no server.

    `steps`: how many models belong to one instance of the recogniser.
    """
    with TritonServer(repository, models=(), private=True) as server:
        status = Path(f"/proc/{server.pid}/status").read_text(encoding="utf-8")
    among = "an instance" if steps == 1 else f"an instance of each of {steps} steps"
    return [
        Part("bridge: Python and its libraries", Scope.SERVICE, resident_bytes(measure(["-c", _BRIDGE]))),
        Part("Triton", Scope.SERVICE, resident_bytes(status)),
        Part(f"shared memory between Triton and {among}", Scope.INSTANCE, REGION_BYTES * steps),
        Part("audio for a replay, and messages, in the bridge", Scope.STREAM, MOST_AUDIO + HIGH_MARK + MOST_MESSAGES),
    ]


def version_folder(model: Path) -> Path:
    """Return the folder of the newest version of a model, which is the one that Triton loads.

    A public model has no versions.
    """
    if is_public(model):
        return model
    versions = [path for path in model.iterdir() if path.is_dir() and path.name.isdecimal()]
    if not versions:
        raise MeasuringError(f"{model} has no folder of a version, such as {model / '1'}")
    return max(versions, key=lambda path: int(path.name))


def _parts(result: dict[str, Any], batch: int) -> list[Part]:
    shared, instance, slot, stream = result["shared"], result["instance"], result["slot"], result["stream"]
    hotwords, most = result["hotwords"]["stream"], result["hotwords"]["streams"]
    return [
        Part("libraries of Python and of the engine, shared by all instances", Scope.SERVICE, shared["libraries"]),
        Part("tables of the model, shared by all instances", Scope.SERVICE, shared["tables"]),
        Part("Python and the libraries of the engine", Scope.INSTANCE, **sizes(instance["process"])),
        Part("weights and tables of its own", Scope.INSTANCE, **sizes(instance["model"])),
        Part(f"while it computes a batch of {batch}", Scope.INSTANCE, **sizes(instance["batch"])),
        Part("encoder", Scope.SLOT, **sizes(slot["encoder"])),
        Part("activity", Scope.SLOT, **sizes(slot["activity"])),
        Part("search", Scope.SLOT, **sizes(slot["search"])),
        Part("words and their marks", Scope.STREAM, **sizes(stream["words"])),
        Part("audio of the longest segment", Scope.STREAM, **sizes(stream["audio"])),
        *([Part("hotwords, if clients send many", Scope.STREAM, **sizes(hotwords), most=most)] if most else []),
    ]


def sizes(entry: dict[str, int]) -> dict[str, int]:
    """Return the sizes of a measurement, as arguments of Part."""
    return {"main": entry["main"], "gpu": entry["gpu"]}


def measure(arguments: Sequence[str], stdin: bytes = b"") -> str:
    """Run a program of ours in another Python, and return its output. MeasuringError has its last line if it fails."""
    path = os.pathsep.join(filter(None, (str(PACKAGE.parent), os.environ.get("PYTHONPATH", ""))))
    try:
        process = subprocess.run(
            [sys.executable, *arguments],
            input=stdin,
            capture_output=True,
            env={**os.environ, "PYTHONPATH": path},
            timeout=_PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise MeasuringError(f"measuring the memory took longer than {_PATIENCE_S:g} s") from error
    output = process.stdout.decode(errors="replace").strip()
    if process.returncode < 0:
        raise MeasuringError(f"the process that measures the memory was killed by signal {-process.returncode}")
    if process.returncode and not output:
        last = (process.stderr.decode(errors="replace").strip().splitlines() or ["it printed nothing"])[-1]
        raise MeasuringError(f"the memory cannot be measured: {last}")
    return output


def resident_bytes(status: str) -> int:
    """Return the resident memory of a process in bytes, from the text of its /proc/PID/status."""
    return 1024 * sum(int(size) for size in re.findall(r"^Rss\w+:\s*(\d+) kB$", status, re.MULTILINE))
