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
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from streamer.audio.audio_file import read_audio
from streamer.base.json_types import JsonObject
from streamer.base.memory_report import Device, ModelReport, Sizes, StepReport
from streamer.base.package import PACKAGE, install_command, shipped
from streamer.bridge.session.backlog import HIGH_MARK
from streamer.bridge.session.messages import MOST_KEPT as MOST_MESSAGES
from streamer.bridge.session.stream import MOST_KEPT as MOST_AUDIO
from streamer.bridge.triton.repository import BUNDLE, instance_kind, is_public, model_config, version_folder
from streamer.bridge.triton.server import REGION_BYTES, TritonServer
from streamer.commands.capacity.plan import BRIDGE, Part, Scope
from streamer.commands.capacity.session_limit import SPEECH
from streamer.models.speaker_networks import find_speaker_networks

if TYPE_CHECKING:
    from tritonclient.grpc.model_config_pb2 import ModelConfig


_REPORT: Final = "streamer.engine.memory.report"
_GRAPH_REPORT: Final = "streamer.engine.memory.graph_report"  # of a public model
_PATIENCE_S: Final = 300.0  # for one measurement; a busy machine with a slow disk needs a minute to load the libraries
# It reads ten seconds, because the memory grows with the length of a segment.
_READING: Final = """
import sys
from pathlib import Path

import numpy

from streamer.engine.reader.reader import load_reader

load_reader(Path(sys.argv[1])).read(numpy.zeros(160_000, numpy.int16))
print(open("/proc/self/status").read())
"""
# It hears speech, because the network of prints takes memory only then. The second window is one of a live session.
_TELLING: Final = """
import json
import sys
import time
from pathlib import Path

import numpy

from streamer.engine.speakers.networks import RATE, WINDOW, VoiceNetworks
from streamer.models.speaker_networks import read_speaker_networks

STEP_S = 2.5
networks = VoiceNetworks(read_speaker_networks(Path(sys.argv[1])))
speech = numpy.frombuffer(sys.stdin.buffer.read(), "<i2")
window = numpy.resize(speech, WINDOW)
networks.hear(window)
began = time.process_time()
networks.hear(window, WINDOW - int(STEP_S * RATE))
share = (time.process_time() - began) / STEP_S
print(json.dumps({"share": share, "status": open("/proc/self/status").read()}))
"""
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
    program = [_GRAPH_REPORT if is_public(folder) else _REPORT, str(folder)]
    result = cast(ModelReport, report(program, batch, kind))
    return ModelMemory(
        result["name"], result["device"].get("name"), result["device"].get("memory"), batch, _parts(result, batch)
    )


def report(program: Sequence[str], batch: int, kind: str) -> JsonObject:
    """Return the measurements of a program of `streamer.engine.memory`. MeasuringError if it fails."""
    where = {"KIND_CPU": "cpu", "KIND_GPU": "gpu"}.get(kind, "auto")
    if importlib.util.find_spec("onnxruntime") is None:
        raise MeasuringError(f"the memory of a model cannot be measured here: {install_command('embedded')}")
    speech = read_audio(shipped(SPEECH)).tobytes()
    output = measure(["-m", *program, "--batch", str(batch), "--kind", where], speech)
    result: JsonObject = json.loads(output or "{}")
    if "error" in result:
        raise MeasuringError(f"the memory of this model cannot be measured: {result['error']}")
    return result


def server_parts(repository: Path, steps: int = 1, reader: Path | None = None) -> list[Part]:
    """Measure Triton without models, and the bridge without sessions. TritonError if there is no server.

    `steps`: how many models belong to one instance of the recogniser. `reader`: the folder of the reader, if any.
    """
    with TritonServer(repository, models=(), private=True) as server:
        status = Path(f"/proc/{server.pid}/status").read_text(encoding="utf-8")
    among = "an instance" if steps == 1 else f"an instance of each of {steps} steps"
    return [
        Part(BRIDGE, Scope.SERVICE, resident_bytes(measure(["-c", _BRIDGE]))),
        Part("Triton", Scope.SERVICE, resident_bytes(status)),
        *([] if reader is None else [reader_part(reader)]),
        Part(f"shared memory between Triton and {among}", Scope.INSTANCE, REGION_BYTES * steps),
        Part("audio for a replay, and messages, in the bridge", Scope.STREAM, MOST_AUDIO + HIGH_MARK + MOST_MESSAGES),
    ]


def reader_part(folder: Path) -> Part:
    """Measure a process that reads segments with the reader in this folder. MeasuringError if it cannot be loaded."""
    return Part("reader of ended segments", Scope.SERVICE, resident_bytes(measure(["-c", _READING, str(folder)])))


@dataclass(frozen=True)
class SpeakersCost:
    """What telling speakers apart costs. `share`: of a processor, for a live session in which somebody speaks."""

    part: Part
    share: float


def speakers_cost() -> SpeakersCost | None:
    """Measure the process that tells speakers apart. None without its networks; MeasuringError if it cannot run."""
    library = find_speaker_networks()
    if library is None:
        return None
    report = json.loads(measure(["-c", _TELLING, str(library)], read_audio(shipped(SPEECH)).tobytes()))
    part = Part("voices, if sessions tell speakers apart", Scope.SERVICE, resident_bytes(report["status"]))
    return SpeakersCost(part, report["share"])


def _parts(result: ModelReport, batch: int) -> list[Part]:
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


def sizes(entry: Sizes) -> dict[str, int]:
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


# Measures how much memory the steps of an ensemble take. Each step is a model with processes of its own.

_STEP_REPORT: Final = "streamer.heads.step_report"
_WITHOUT_ENGINE: Final = "import numpy, safetensors.numpy; print(open('/proc/self/status').read())"


class Role(Enum):
    """The roles of steps that a plan distinguishes. The values are those of `step_report`."""

    ENCODER = "encoder"
    ACTIVITY = "activity"
    TRANSCRIPT = "transcript"
    OTHER = "other"  # a router, or a head of the operator's own


@dataclass(frozen=True)
class Step:
    """A step of an ensemble."""

    name: str
    folder: Path
    config: ModelConfig

    @property
    def role(self) -> Role:
        """The role of the step, which its inputs and outputs show."""
        outputs = {each.name for each in self.config.output}
        if "AUDIO" in {each.name for each in self.config.input}:
            return Role.ENCODER
        roles = {"EVENTS": Role.TRANSCRIPT, "ACTIVITY": Role.ACTIVITY}
        return next((role for name, role in roles.items() if name in outputs), Role.OTHER)

    @property
    def has_slots(self) -> bool:
        """Whether it keeps a state for each stream."""
        return bool(self.config.HasField("sequence_batching"))

    @property
    def kind(self) -> str:
        """The kind of its instances, in Triton's words: where they compute."""
        return instance_kind(self.config)

    @property
    def bundle(self) -> Path:
        """The folder with its weights."""
        relative = self.config.parameters[BUNDLE].string_value if BUNDLE in self.config.parameters else ""
        return (self.folder / relative).resolve() if relative else version_folder(self.folder)


def steps_of(config: ModelConfig, repository: Path) -> list[Step]:
    """Return the steps of an ensemble, in its order, each once; none for another model. TritonError if one is missing.

    The steps lie in the repository, even if the ensemble does not.
    """
    names = dict.fromkeys(step.model_name for step in config.ensemble_scheduling.step)
    return [Step(name, repository / name, model_config(repository / name)) for name in names]


def steps_memory(steps: Sequence[Step]) -> ModelMemory:
    """Measure all steps. MeasuringError if one of them cannot be measured."""
    results: dict[Role, StepReport] = {}
    by_role = {step.role: step for step in steps if step.role is not Role.OTHER}
    if absent := [role.value for role in Role if role is not Role.OTHER and role not in by_role]:
        raise MeasuringError(f"this ensemble has no step that is the {absent[0]}: its memory is not known")
    with tempfile.TemporaryDirectory(prefix="streamer-plan-") as folder:
        passed_on = Path(folder) / "heard.npz"
        for role, step in sorted(by_role.items(), key=lambda each: list(Role).index(each[0])):  # the encoder first
            program = [_STEP_REPORT, str(step.bundle), "--part", role.value, "--heard", str(passed_on)]
            results[role] = cast(StepReport, report(program, batch(steps), step.kind))
    devices = [result["device"] for result in results.values()]
    device = next((each for each in devices if each["kind"] == "gpu"), Device(kind="cpu"))
    shared = [result["shared"] for result in results.values()]
    libraries, tables = max(each["libraries"] for each in shared), sum(each["tables"] for each in shared)
    parts = [
        Part("libraries of Python and of the engine, shared by all steps", Scope.SERVICE, libraries),
        Part("tables of the steps, shared by all instances", Scope.SERVICE, tables),
    ]
    for step in steps:
        parts += _parts_of_step_memory(step, results[step.role]) if step.role in results else [_unmeasured_part(step)]
    parts.sort(key=lambda part: list(Scope).index(part.scope))
    name = results[Role.ENCODER]["name"]
    return ModelMemory(name, device.get("name"), device.get("memory"), batch(steps), parts)


def batch(steps: Sequence[Step]) -> int:
    """Return the most streams that a step computes at once."""
    return max([1, *(int(step.config.max_batch_size) for step in steps)])


def _parts_of_step_memory(step: Step, result: StepReport) -> Iterator[Part]:
    instance, name = result["instance"], step.name
    yield Part(f"{name}: Python and the libraries of the engine", Scope.INSTANCE, **sizes(instance["process"]))
    yield Part(f"{name}: weights and tables of its own", Scope.INSTANCE, **sizes(instance["model"]))
    yield Part(f"{name}: while it computes a batch", Scope.INSTANCE, **sizes(instance["batch"]))
    yield Part(name, Scope.SLOT, **sizes(result["slot"]))
    if step.role is Role.ENCODER:
        yield Part(f"{name}: audio of the longest segment", Scope.STREAM, **sizes(result["audio"]))
    if step.role is Role.TRANSCRIPT and (hotwords := result["hotwords"]) is not None:
        yield Part(f"{name}: words and their marks", Scope.STREAM, **sizes(result["stream"]))
        most = hotwords["streams"]
        yield Part(f"{name}: hotwords, if clients send many", Scope.STREAM, **sizes(hotwords["stream"]), most=most)


def _unmeasured_part(step: Step) -> Part:
    """Return the estimate for a step that is not measured: a Python with numpy, and the files of the step."""
    files = sum(path.stat().st_size for path in version_folder(step.folder).rglob("*") if path.is_file())
    return Part(
        f"{step.name}: Python and its files", Scope.INSTANCE, resident_bytes(measure(["-c", _WITHOUT_ENGINE])) + files
    )
