"""The steps that new weights need: their order, each done once, and parts of a bundle that have changed."""

from __future__ import annotations

import filecmp
import shutil
import sys
from pathlib import Path

import pytest

from streamer.bridge.triton.repository import model_config
from streamer.engine.acoustics.bundle_files import read_description
from tests.engine.bundle_of_samples import bundle_of_samples
from tests.project import BUNDLE, ROOT
from workshop.data.alignment import heard_path
from workshop.data.corpus import CorpusError
from workshop.release.figure_tables import COMPARED, CONDITIONS
from workshop.release.release_steps import (
    ReleasePlaces,
    ReleaseStep,
    StepRunner,
    release_steps,
    take_over,
    write_frame_width,
)

STEPS = release_steps(ReleasePlaces(Path("bundle"), Path("work"), Path("speech"), Path("to"), Path("text")))


def test_what_is_fitted_comes_before_what_is_measured_with_it() -> None:
    """Documents are written after all measurements, and the tests that expect words come last."""
    names = [step.name for step in STEPS]
    assert len(names) == len(set(names))
    assert names[:4] == ["search", "hotwords", "calibration", "moonshine-base"]
    assert names.index("errors-read") > names.index("moonshine-tiny")
    assert names[-2:] == ["documents", "words"]
    assert {*COMPARED, *CONDITIONS} <= set(names)


def test_marks_are_measured_if_there_is_text() -> None:
    """Otherwise the step is left out."""
    without = release_steps(ReleasePlaces(Path("bundle"), Path("work"), Path("speech"), Path("to")))
    assert [step.name for step in STEPS if step not in without] == ["marks"]


def test_keywords_are_learnt_if_there_is_speech_to_learn_from(tmp_path: Path) -> None:
    """The example reads the frames of the encoder, so it is trained before the tests that use it."""
    places = ReleasePlaces(Path("bundle"), tmp_path, Path("speech"), Path("to"), Path("text"))
    assert "keywords" not in [step.name for step in release_steps(places)]
    heard_path(tmp_path, "train").touch()
    names = [step.name for step in release_steps(places)]
    assert names.index("calibration") < names.index("keywords") < names.index("words")


def test_the_held_out_set_is_measured_if_it_is_there() -> None:
    """It is measured as dev is, three times, before the documents are written."""
    places = ReleasePlaces(Path("bundle"), Path("work"), Path("speech"), Path("to"), Path("text"), Path("strangers"))
    steps = release_steps(places)
    measured = [step for step in steps if step not in STEPS]
    assert [step.name for step in measured] == ["heldout", "heldout-once", "heldout-read"]
    assert all("strangers/heldout.tsv" in step.command for step in measured)
    names = [step.name for step in steps]
    assert names.index("moonshine-tiny") < names.index("heldout") < names.index("documents")


def test_every_command_names_what_there_is() -> None:
    """All scripts and tests in the commands exist."""
    for step in STEPS:
        for argument in step.command:
            if argument.startswith(("scripts/", "tests/", "audio_samples/")):
                assert (ROOT / argument).exists(), argument


def step(name: str, code: str, *reads: str) -> ReleaseStep:
    """Return a step that runs some Python."""
    return ReleaseStep(name, f"the {name}", (sys.executable, "-c", code), reads, 1)


def test_a_step_is_done_again_only_for_other_files(tmp_path: Path) -> None:
    """A step is repeated only if its files changed, even if it writes a file that it reads; later steps see that."""
    bundle, folder = tmp_path / "bundle", tmp_path / "steps"
    bundle.mkdir()
    (bundle / "weights").write_text("1")
    (bundle / "search").write_text("0")
    tunes = f"from pathlib import Path; Path({str(bundle / 'search')!r}).write_text('tuned'); print('tuned it')"
    steps = [step("search", tunes, "weights", "search"), step("errors", "print(7)", "search")]
    told: list[str] = []
    runner = StepRunner(bundle, folder, told.append)
    runner.run(steps)
    assert told[0] == "2 steps, about 2 minutes on two idle cores; done before: 0"
    assert (folder / "search.txt").read_text() == "tuned it\n"
    assert (folder / "errors.txt").read_text() == "7\n"
    told.clear()
    runner.run(steps)
    assert told == ["0 steps, about 0 minutes on two idle cores; done before: 2"]
    (bundle / "weights").write_text("2")
    assert [runner.done(each) for each in steps] == [False, True]
    told.clear()
    runner.run(steps[1:], again=True)
    assert "7" in told


def test_a_step_that_fails_is_named_and_keeps_nothing(tmp_path: Path) -> None:
    """A failed step is named and not marked as done; its output is shown."""
    told: list[str] = []
    runner = StepRunner(tmp_path, tmp_path, told.append)
    with pytest.raises(CorpusError, match="the step 'errors' failed with status 3; the next run begins with it"):
        runner.run([step("errors", "print('why'); raise SystemExit(3)")])
    assert "why" in told
    assert not list(tmp_path.iterdir())


def test_only_parts_that_are_others_are_written(tmp_path: Path) -> None:
    """Only changed parts are written, and other files stay."""
    source, bundle = tmp_path / "source", tmp_path / "bundle"
    for folder, weights in ((source, b"new"), (bundle, b"old")):
        folder.mkdir()
        (folder / "weights.safetensors").write_bytes(weights)
        shutil.copyfile(BUNDLE / "model.json", folder / "model.json")
        (folder / "notes.txt").write_bytes(weights)
    before = (bundle / "model.json").stat().st_ino
    told: list[str] = []
    assert take_over(source, bundle, told.append) == ["weights.safetensors"]
    assert (bundle / "model.json").stat().st_ino == before
    assert (bundle / "weights.safetensors").read_bytes() == b"new"
    assert (bundle / "notes.txt").read_bytes() == b"old"
    assert told == ["model.json has not changed", "weights.safetensors is new: 0.0 MB"]


def test_other_frames_need_another_activity_network(tmp_path: Path) -> None:
    """It reads the features of the encoder. One that was trained for the same frames comes with the new weights."""
    source, bundle = bundle_of_samples(tmp_path / "source"), tmp_path / "bundle"
    shutil.copytree(BUNDLE, bundle)
    (source / "activity.safetensors").rename(tmp_path / "kept")
    with pytest.raises(CorpusError, match=r"frames of 48 ms, but .* those of 40 ms: train one with .*train_activity"):
        take_over(source, bundle, print)
    assert filecmp.cmp(bundle / "weights.safetensors", BUNDLE / "weights.safetensors", shallow=False)
    (tmp_path / "kept").rename(source / "activity.safetensors")
    assert take_over(source, bundle, print) == ["model.json", "weights.safetensors"]
    (source / "activity.safetensors").unlink()
    assert take_over(source, bundle, print) == []


def test_the_configurations_know_the_width_of_frames(tmp_path: Path) -> None:
    """All steps that give or get frames have the width of the encoder's. Nothing else changes, and nothing twice."""
    for path in ROOT.glob("asr_repo/*/config.pbtxt"):
        (tmp_path / path.parent.name).mkdir()
        shutil.copyfile(path, tmp_path / path.parent.name / path.name)
    told: list[str] = []
    bundle = bundle_of_samples(tmp_path / "streaming_asr" / "1")
    write_frame_width(bundle, told.append)
    names = ("feature_router", "speech_encoder", "transcript_head")
    assert told == [f"{tmp_path / name / 'config.pbtxt'}: frames of 96 numbers" for name in names]
    for path in tmp_path.glob("*/config.pbtxt"):
        before = (ROOT / "asr_repo" / path.parent.name / path.name).read_text()
        assert path.read_text() == before.replace("dims: [ -1, 192 ]", "dims: [ -1, 96 ]")
    write_frame_width(bundle, told.append)
    assert len(told) == len(names)


def test_the_shipped_configurations_fit_the_shipped_encoder() -> None:
    """The width of frames is written where the weights are taken over, so both belong together."""
    width = read_description(BUNDLE).encoder.frame_width
    for name in ("feature_router", "speech_encoder", "transcript_head"):
        config = model_config(BUNDLE.parents[1] / name)
        ports = [port for port in (*config.input, *config.output) if port.name.startswith("FRAMES")]
        assert ports
        assert {tuple(port.dims) for port in ports} == {(-1, width)}


def test_a_folder_without_parts_is_refused(tmp_path: Path) -> None:
    """The error names the folder that was probably meant."""
    with pytest.raises(CorpusError, match="give the folder `averaged` of a run"):
        take_over(tmp_path, tmp_path, print)
