"""Measures how much memory the steps of an ensemble take. Each step is a model with processes of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from streamer.capacity.model_memory import (
    MeasuringError,
    ModelMemory,
    measure,
    report,
    resident_bytes,
    sizes,
    version_folder,
)
from streamer.capacity.plan import Part, Scope
from streamer.triton.model_config import instance_kind, model_config
from streamer.triton.repository import BUNDLE

if TYPE_CHECKING:
    from tritonclient.grpc.model_config_pb2 import ModelConfig  # type: ignore[import-untyped]

_REPORT: Final = "streamer.engine.memory.step_report"
_WITHOUT_TORCH: Final = "import numpy, safetensors.numpy; print(open('/proc/self/status').read())"


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
    results: dict[Role, dict[str, Any]] = {}
    by_role = {step.role: step for step in steps if step.role is not Role.OTHER}
    if absent := [role.value for role in Role if role is not Role.OTHER and role not in by_role]:
        raise MeasuringError(f"this ensemble has no step that is the {absent[0]}: its memory is not known")
    with tempfile.TemporaryDirectory(prefix="streamer-plan-") as folder:
        passed_on = Path(folder) / "heard.npz"
        for role, step in sorted(by_role.items(), key=lambda each: list(Role).index(each[0])):  # the encoder first
            program = [_REPORT, str(step.bundle), "--part", role.value, "--heard", str(passed_on)]
            results[role] = report(program, batch(steps), step.kind)
    devices = [result["device"] for result in results.values()]
    device: dict[str, Any] = next((each for each in devices if each["kind"] == "gpu"), {})
    shared = [result["shared"] for result in results.values()]
    libraries, tables = max(each["libraries"] for each in shared), sum(each["tables"] for each in shared)
    parts = [
        Part("libraries of Python and torch, shared by all steps", Scope.SERVICE, libraries),
        Part("tables of the steps, shared by all instances", Scope.SERVICE, tables),
    ]
    for step in steps:
        parts += _parts(step, results[step.role]) if step.role in results else [_unmeasured_part(step)]
    parts.sort(key=lambda part: list(Scope).index(part.scope))
    name = results[Role.ENCODER]["name"]
    return ModelMemory(name, device.get("name"), device.get("memory"), batch(steps), parts)


def batch(steps: Sequence[Step]) -> int:
    """Return the most streams that a step computes at once."""
    return max([1, *(int(step.config.max_batch_size) for step in steps)])


def _parts(step: Step, result: dict[str, Any]) -> Iterator[Part]:
    instance, name = result["instance"], step.name
    yield Part(f"{name}: Python and torch", Scope.INSTANCE, **sizes(instance["process"]))
    yield Part(f"{name}: weights and tables of its own", Scope.INSTANCE, **sizes(instance["model"]))
    yield Part(f"{name}: while it computes a batch", Scope.INSTANCE, **sizes(instance["batch"]))
    yield Part(name, Scope.SLOT, **sizes(result["slot"]))
    if step.role is Role.ENCODER:
        yield Part(f"{name}: audio of the longest segment", Scope.STREAM, **sizes(result["audio"]))
    if step.role is Role.TRANSCRIPT:
        yield Part(f"{name}: words and their marks", Scope.STREAM, **sizes(result["stream"]))
        hotwords, most = result["hotwords"]["stream"], result["hotwords"]["streams"]
        yield Part(f"{name}: hotwords, if clients send many", Scope.STREAM, **sizes(hotwords), most=most)


def _unmeasured_part(step: Step) -> Part:
    """Return the estimate for a step that is not measured: a Python with numpy, and the files of the step."""
    files = sum(path.stat().st_size for path in version_folder(step.folder).rglob("*") if path.is_file())
    return Part(
        f"{step.name}: Python and its files", Scope.INSTANCE, resident_bytes(measure(["-c", _WITHOUT_TORCH])) + files
    )
