"""A run in its folder: from a bundle, with a number of steps, in pieces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from streamer.engine.acoustics.bundle_files import ModelDescription
from streamer.engine.networks.acoustic_network import AcousticNetwork
from tests.workshop.acoustic.tiny_run import ENCODER, NAMES, aligned
from workshop.acoustic.growth import Growth
from workshop.acoustic.losses import GOING_ON, Schedule
from workshop.acoustic.training_run import LOG_STEPS, PhoneModel, Run
from workshop.data.alignment import alignment_path, heard_path
from workshop.data.corpus import CorpusError

STEPS = 4


@pytest.fixture
def start(tmp_path: Path) -> Path:
    """Provide a bundle to start from."""
    torch.manual_seed(0)
    AcousticNetwork(ModelDescription("test", ENCODER, NAMES, (320,))).save(tmp_path / "start")
    return tmp_path / "start"


def make_run(work: Path, start: Path, schedule: Schedule, **others: Any) -> Run:
    """Make a run of one process, which learns with CTC-CRF from the start."""
    names = [f"train{number}" for number in range(12)]
    lines = [json.dumps(vars(aligned(name))) for name in names]
    heard_path(work, "train").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return Run(
        work,
        start.parent / "run",
        schedule,
        start=start,
        processes=1,
        batch_seconds=4.0,
        phone_model=PhoneModel(free_boundary=True, middle=True),
        conditions="hard",
        **others,
    )


def first_line(run: Path) -> dict[str, float]:
    """Return the first line of the log."""
    line: dict[str, float] = json.loads((run / "log.jsonl").read_text(encoding="utf-8").splitlines()[0])
    return line


def test_a_run_by_steps_starts_from_a_bundle_and_goes_on_when_more_is_planned(work: Path, start: Path) -> None:
    """A run starts from a bundle, needs only heard pronunciations, and continues if the plan becomes longer."""
    assert not alignment_path(work, "train").exists()
    told: list[str] = []
    schedule = Schedule(**{**vars(GOING_ON), "steps": STEPS, "crf_from": 0, "consistency": 0.2})
    make_run(work, start, schedule, keep_every=2).train(lambda: False, told.append)
    assert told[-1] == f"stopped at step {STEPS}, 100 % of the plan"
    run = start.parent / "run"
    assert sorted(path.name for path in run.iterdir() if path.is_dir()) == ["averaged", "step-2", "step-4"]
    before, after = (AcousticNetwork.load(folder).state_dict() for folder in (start, run / "averaged"))
    assert any(not torch.equal(before[name], after[name]) for name in before)
    torch.testing.assert_close(before["features.mean"], after["features.mean"])
    more = Schedule(**{**vars(schedule), "steps": 2 * STEPS})
    make_run(work, start, more).train(lambda: False, told.append)
    assert told[-3].startswith(f"going on at step {STEPS}, ")
    assert told[-1] == f"stopped at step {2 * STEPS}, 100 % of the plan"


def test_a_run_is_stopped_after_its_first_step(work: Path, start: Path) -> None:
    """However early a stop is requested, one step is done, and its result is kept."""
    told: list[str] = []
    make_run(work, start, Schedule(**{**vars(GOING_ON), "steps": STEPS, "crf_from": 0})).train(
        lambda: True, told.append
    )
    assert told[-1] == "stopped at step 1, 25 % of the plan"
    assert (start.parent / "run" / "checkpoint.pt").is_file()


def test_the_first_line_of_a_run_that_goes_on_has_the_mean_of_its_steps(work: Path, start: Path) -> None:
    """Steps before it went on are not in its first line, and do not count as steps without a loss."""
    schedule = Schedule(**{**vars(GOING_ON), "steps": LOG_STEPS, "crf_from": 0})
    make_run(work, start, schedule).train(lambda: False, print)
    whole = first_line(start.parent / "run")["loss"]
    (start.parent / "run").rename(start.parent / "whole")
    stops = iter([False] * (LOG_STEPS - 2) + [True])
    make_run(work, start, schedule).train(stops.__next__, print)
    make_run(work, start, schedule).train(lambda: False, print)
    assert 0.5 * whole < first_line(start.parent / "run")["loss"] < 1.5 * whole


def test_a_run_saves_itself_while_it_goes_on(work: Path, start: Path) -> None:
    """A run writes its averaged weights while it continues, so that another run can learn from them."""
    saved: list[bool] = []

    def stopped() -> bool:
        saved.append((start.parent / "run" / "averaged" / "weights.safetensors").is_file())
        return False

    schedule = Schedule(**{**vars(GOING_ON), "steps": STEPS, "crf_from": 0})
    make_run(work, start, schedule, save_seconds=0.0).train(stopped, print)
    assert saved
    assert all(saved)


def test_a_grown_model_teaches_the_small_one(work: Path, start: Path) -> None:
    """The first run makes a larger model of the bundle. In the second one the small model learns from it too."""
    schedule = Schedule(**{**vars(GOING_ON), "steps": STEPS, "crf_from": 0})
    make_run(work, start, schedule, growth=Growth(2, 24)).train(lambda: False, print)
    (start.parent / "run").rename(start.parent / "larger")
    teacher = start.parent / "larger" / "averaged"
    assert AcousticNetwork.load(teacher).description.encoder.layers == 2 * ENCODER.layers
    taught = Schedule(**{**vars(schedule), "steps": LOG_STEPS, "consistency": 0.2})
    make_run(work, start, taught, teacher=teacher).train(lambda: False, print)
    assert AcousticNetwork.load(start.parent / "run" / "averaged").description.encoder == ENCODER
    assert first_line(start.parent / "run")["taught"] > 0


def test_what_is_missing_is_said(work: Path, start: Path) -> None:
    """A run with no processes is refused."""
    run = Run(work, start.parent / "run", GOING_ON, start=start, processes=0)
    with pytest.raises(CorpusError, match="--processes must be 1 or more"):
        run.train(lambda: False, print)
