"""The script that trains the activity network for the frames of a bundle."""

from __future__ import annotations

from pathlib import Path

import pytest
from numpy.random import Generator

from streamer.engine.networks.acoustic_network import read_activity
from tests.engine.bundle_of_samples import bundle_of_samples
from tests.scripts.program import run_here
from tests.workshop.activity.prepared_tones import make_work
from workshop.activity.examples import Example, ExampleSource

SCRIPT = "train/train_activity.py"


def test_the_network_has_the_frames_of_the_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples have frames of 48 ms where those of the encoder have, and only the network is written."""
    drawn: list[Example] = []
    draw = ExampleSource.draw

    def noted(source: ExampleSource, rng: Generator) -> Example:
        drawn.append(draw(source, rng))
        return drawn[-1]

    monkeypatch.setattr(ExampleSource, "draw", noted)
    work, bundle = make_work(tmp_path), bundle_of_samples(tmp_path / "samples")
    before = {path.name: path.stat().st_mtime_ns for path in bundle.iterdir()}
    done = run_here(SCRIPT, "--work", work, "--bundle", bundle, "--minutes", 0.001, "--rows", 1)
    assert done.returncode == 0, done.stderr
    assert {len(example.samples) / len(example.speech) for example in drawn} == {768}
    changed = {path.name for path in bundle.iterdir() if before[path.name] != path.stat().st_mtime_ns}
    assert changed == {"activity.safetensors"}
    assert read_activity(bundle) is not None


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    """There, nobody knows which frames the network must have: one sentence says so, and nothing is written."""
    done = run_here(SCRIPT, "--work", make_work(tmp_path), "--bundle", tmp_path / "nothing")
    assert done.returncode == 1
    assert done.stderr.startswith(f"train_activity: {tmp_path / 'nothing' / 'model.json'} is missing")
    assert not (tmp_path / "nothing").exists()
