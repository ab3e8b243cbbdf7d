"""A run in its folder: from a bundle, with a number of steps, in pieces."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from streamer.engine.acoustics.bundle_files import ModelDescription
from streamer.engine.networks.acoustic_network import AcousticNetwork
from tests.engine.reader.random_reader import random_weights, write_reader
from tests.workshop.acoustic.tiny_run import ENCODER, NAMES, aligned
from workshop.acoustic.growth import Growth
from workshop.acoustic.losses import GOING_ON, NEW_HEADS, Schedule
from workshop.acoustic.moonshine_start import start_from
from workshop.acoustic.training_run import LOG_STEPS, PhoneModel, Run, averaged_model, evaluate, steps_of
from workshop.data.alignment import alignment_path, heard_path
from workshop.data.corpus import Corpus, CorpusError

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


def test_speech_without_phones_is_named(work: Path, start: Path) -> None:
    """If only a share was aligned, a sentence says how much is missing and what to run."""
    run = make_run(work, start, Schedule(**{**vars(GOING_ON), "steps": STEPS}))
    path = heard_path(work, "train")
    path.write_text("\n".join(path.read_text(encoding="utf-8").splitlines()[:10]) + "\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"2 utterances of train have no phones: run scripts/data/align_speech\.py"):
        run.train(lambda: False, print)


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


def test_errors_at_the_steps_of_the_model(work: Path, start: Path, tmp_path: Path) -> None:
    """A usual step becomes that of a model with other frames; one that it does not have is refused."""
    write_reader(tmp_path, random_weights(), signed=False)
    corpus = Corpus(work, "train")
    alignments = {one.name: aligned(one.name) for one in corpus.utterances}
    for model, usual, own in ((AcousticNetwork.load(start), 320, 320), (start_from(tmp_path).eval(), 160, 144)):
        rates = evaluate(model, corpus, alignments, usual)
        assert rates == evaluate(model, corpus, alignments, own)
        assert rates["all"]["phones"] > 0
    with pytest.raises(CorpusError, match="no step of 200 ms, but those of 144, 336, 624 ms"):
        evaluate(model, corpus, alignments, 200)


def test_a_run_with_the_encoder_of_a_reader(work: Path, start: Path, tmp_path: Path) -> None:
    """Its encoder begins from the reader, its convolutions stay as they are, and a further piece goes on with it."""
    write_reader(tmp_path, random_weights(), signed=False)
    schedule = replace(NEW_HEADS, steps=STEPS, aligned_steps=1, crossfade_steps=1, crf_from=2, short_steps=0)
    run = replace(make_run(work, start, schedule), start=None, encoder_from=tmp_path, frozen_stem=True, dropout=0.1)
    run.train(lambda: False, lambda _: None)
    assert steps_of(run.folder) == STEPS
    begun, trained = start_from(tmp_path), averaged_model(run.folder)
    assert trained.description == begun.description
    before, after = begun.state_dict(), trained.state_dict()
    changed = {name.split(".")[1] for name, values in before.items() if not torch.equal(values, after[name])}
    assert changed == {"blocks", "norms", "outputs", "stem"}
    assert [name for name in before if "stem" in name and not torch.equal(before[name], after[name])] == [
        "encoder.stem.level"  # measured on the training data
    ]
    more = replace(run, schedule=replace(schedule, steps=STEPS + 2, consistency=0.2))
    more.train(lambda: False, lambda _: None)
    assert steps_of(run.folder) == STEPS + 2
    corpus = Corpus(work, "train")
    rates = evaluate(averaged_model(run.folder), corpus, {u.name: aligned(u.name) for u in corpus.utterances}, 320)
    assert rates["all"].keys() == {"phones", "characters", "words"}


def test_what_does_not_fit_the_encoder_is_refused(work: Path, start: Path, tmp_path: Path) -> None:
    """Frozen convolutions, a larger model and a teacher need encoders that fit."""
    write_reader(tmp_path, random_weights(), signed=False)
    start_from(tmp_path).save(tmp_path / "other")
    usual = make_run(work, start, replace(GOING_ON, steps=STEPS))
    for run, message in (
        (replace(usual, frozen_stem=True), "only an encoder that reads samples"),
        (replace(usual, start=tmp_path / "other", growth=Growth(2, 64)), "only a conformer can grow"),
        (replace(usual, teacher=tmp_path / "other"), "its frames have 768 samples, not 640"),
    ):
        with pytest.raises(CorpusError, match=message):
            run.train(lambda: False, lambda _: None)


def test_what_is_missing_is_said(work: Path, start: Path) -> None:
    """A run with no processes is refused."""
    run = Run(work, start.parent / "run", GOING_ON, start=start, processes=0)
    with pytest.raises(CorpusError, match="--processes must be 1 or more"):
        run.train(lambda: False, print)
