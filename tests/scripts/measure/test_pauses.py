"""The script that measures whether pauses cause errors, with a model of each kind."""

from __future__ import annotations

from pathlib import Path

from tests.engine.bundle_of_samples import bundle_of_samples
from tests.project import BUNDLE
from tests.scripts.program import run_here
from tests.workshop.prepared_speech import prepare_speech


def test_a_model_of_each_kind(tmp_path: Path) -> None:
    """Utterances are recognised alone and joined, in the usual steps of the model."""
    work = prepare_speech(tmp_path / "work")
    for bundle in (BUNDLE, bundle_of_samples(tmp_path / "samples")):
        done = run_here("measure/pauses.py", "--work", work, "--bundle", bundle, "--utterances", 2)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("2 utterances, ")
        assert "| pause | words at its edges | wrong alone | wrong joined |" in done.stdout
