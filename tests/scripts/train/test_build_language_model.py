"""The script that builds the language model."""

from __future__ import annotations

from pathlib import Path

from streamer.engine.language.language_model import LanguageModel
from tests.scripts.program import run_here
from tests.workshop.language.text_folder import make_texts

SCRIPT = "train/build_language_model.py"


def test_a_model_is_built(tmp_path: Path) -> None:
    """The script writes a file for the engine, and prints a report."""
    make_texts(tmp_path)
    given = ["old.tar.xz", "new.tar.xz", "--train", "train.tsv", "--dev", "dev.tsv", "--output", "l.safetensors"]
    done = run_here(SCRIPT, *given, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "as written, other half (all): a " in done.stdout
    assert "quokka" in LanguageModel.load(tmp_path / "l.safetensors").words
