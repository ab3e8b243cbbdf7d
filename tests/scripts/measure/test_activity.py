"""The script that measures the events of speech, with the frames and steps of the bundle."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.bundle_of_samples import bundle_of_samples
from tests.scripts.program import run_here
from tests.workshop.activity.prepared_tones import make_work
from workshop.activity import measurement

SCRIPT = "measure/activity.py"


def test_an_encoder_with_other_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recogniser takes the step of the model that is nearest, and its times are those of its frames."""
    monkeypatch.setattr(measurement, "STREAM_SECONDS", 6)
    work, bundle = make_work(tmp_path), bundle_of_samples(tmp_path / "samples", pooled=1)
    figures = tmp_path / "figures.json"
    done = run_here(SCRIPT, "--work", work, "--bundle", bundle, "--minutes", 0.1, "--json", figures)
    assert done.returncode == 0, done.stderr
    content = json.loads(figures.read_text())
    assert content["openings"][0]["kind"] == "digital silence"
    assert [row["condition"] for row in content["starts"]] == list(measurement.CONDITIONS)
    wrong = run_here(SCRIPT, "--work", work, "--bundle", bundle, "--step-ms", 336)
    assert wrong.returncode == 1
    assert "no step of 336 ms, but those of 168, 312, 648 ms" in wrong.stderr
