"""The memory of the steps of an ensemble, from what is measured of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamer.commands.capacity.memory as measuring
from streamer.bridge.triton import MODEL
from streamer.bridge.triton.repository import asr_repository, model_config
from streamer.commands.capacity.memory import MeasuringError, Role, steps_memory, steps_of
from streamer.commands.capacity.plan import Scope, Size
from streamer.heads.keywords import KeywordNetwork
from workshop.keywords.measurement import keyword_repository

# What each part would be told to take. Every number occurs once.
TOLD = {"encoder": 1_000, "activity": 10_000, "transcript": 100_000}
PLAIN = 7_000_000


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Nothing is measured; what would be, is noted."""
    programs: list[list[str]] = []

    def report(program: list[str], batch: int, kind: str) -> dict[str, Any]:
        programs.append([*program, str(batch), kind])
        size = TOLD[program[program.index("--part") + 1]]
        sizes = [{"main": size * number, "gpu": 0} for number in range(1, 6)]
        return {
            "name": "tiny",
            "device": {"kind": "cpu"},
            "shared": {"libraries": size, "tables": size},
            "instance": dict(zip(("process", "model", "batch"), sizes, strict=False)),
            "slot": sizes[3],
            "stream": sizes[4],
            "audio": sizes[1],
            "hotwords": {"stream": sizes[0], "streams": 3},
        }

    monkeypatch.setattr(measuring, "report", report)
    monkeypatch.setattr(measuring, "measure", lambda *_: f"RssAnon: {PLAIN // 1000} kB\n")
    monkeypatch.setattr(measuring, "resident_bytes", lambda _: PLAIN)
    return programs


def test_every_step_counts(asked: list[list[str]]) -> None:
    """Processes, slots and streams of all steps add up; libraries are shared."""
    repository = asr_repository()
    steps = steps_of(model_config(repository / "asr_heads"), repository)
    found = steps_memory(steps)
    assert [program[3] for program in asked] == ["encoder", "activity", "transcript"]
    assert [program[-1] for program in asked] == ["KIND_AUTO", "KIND_CPU", "KIND_AUTO"]
    assert {program[1] for program in asked} == {str(repository / MODEL / "1")}
    assert (found.name, found.gpu, found.batch) == ("tiny", None, 32)

    def main(scope: Scope) -> int:
        return sum(part.main for part in found.parts if part.scope is scope)

    every = sum(TOLD.values())
    router = [part.main for part in found.parts if "feature_router" in part.name]
    assert main(Scope.SERVICE) == TOLD["transcript"] + every
    assert main(Scope.INSTANCE) == (1 + 2 + 3) * every + router[0]
    assert PLAIN < router[0] < PLAIN + 100_000
    assert main(Scope.SLOT) == 4 * every
    assert Size(2, 5, 8).needed(found.parts).main > Size(1, 5, 4).needed(found.parts).main


def test_a_head_of_ones_own(asked: list[list[str]], tmp_path: Path) -> None:
    """A head of the operator's own is not measured, and counts with its files."""
    weights = {"silence": np.zeros(192, np.float32), "output": np.zeros(50_000, np.float32)}
    network = KeywordNetwork(("word",), ((0, (2,)),), np.ones(1, np.float32), weights, 640)
    repository = keyword_repository(tmp_path, network)
    steps = steps_of(model_config(repository / "asr_keywords"), repository)
    assert [step.role for step in steps if step.name == "keyword_head"] == [Role.OTHER]
    [head] = [part for part in steps_memory(steps).parts if "keyword_head" in part.name]
    assert head.main > PLAIN + 2 * 50_000


def test_an_ensemble_of_something_else(asked: list[list[str]]) -> None:
    """The memory of an ensemble of other steps is not known, and a sentence says why."""
    repository = asr_repository()
    steps = [step for step in steps_of(model_config(repository / "asr_heads"), repository) if step.role is Role.ENCODER]
    with pytest.raises(MeasuringError, match="no step that is the activity"):
        steps_memory(steps)
    assert steps_of(model_config(repository / MODEL), repository) == []
