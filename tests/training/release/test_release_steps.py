"""The steps that new weights need, and their order."""

from __future__ import annotations

from pathlib import Path

from streamer.training.release.figure_tables import COMPARED, CONDITIONS
from streamer.training.release.release_steps import ReleasePlaces, release_steps
from tests.project import ROOT

STEPS = release_steps(ReleasePlaces(Path("bundle"), Path("work"), Path("speech"), Path("to"), Path("text")))


def test_what_is_fitted_comes_before_what_is_measured_with_it() -> None:
    """Documents are written after all measurements, and the tests that expect words come last."""
    names = [step.name for step in STEPS]
    assert len(names) == len(set(names))
    assert names[:4] == ["search", "hotwords", "calibration", "errors"]
    assert names[-2:] == ["documents", "words"]
    assert {*COMPARED, *CONDITIONS} <= set(names)


def test_marks_are_measured_if_there_is_text() -> None:
    """Otherwise the step is left out."""
    without = release_steps(ReleasePlaces(Path("bundle"), Path("work"), Path("speech"), Path("to")))
    assert [step.name for step in STEPS if step not in without] == ["marks"]


def test_every_command_names_what_there_is() -> None:
    """All scripts and tests in the commands exist."""
    for step in STEPS:
        for argument in step.command:
            if argument.startswith(("scripts/", "tests/", "audio_samples/")):
                assert (ROOT / argument).exists(), argument
