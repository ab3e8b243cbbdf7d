"""The script that trains the punctuation model."""

from __future__ import annotations

from pathlib import Path

from streamer.engine.text.marks import HeardWord
from streamer.engine.text.punctuation_model import PUNCTUATION_FILE, PunctuationModel
from tests.project import ROOT
from tests.scripts.program import run_here

SCRIPT = "train/train_punctuation.py"
BUNDLE = ROOT / "asr_repo" / "streaming_asr" / "1"


def test_a_model_is_trained(tmp_path: Path) -> None:
    """A file for the engine, from text and the lexicon of a bundle."""
    text = tmp_path / "text"
    text.mkdir()
    (text / "stories.txt").write_text("The cat saw Ann, and Ann saw the cat. Is it home?\n" * 50, encoding="utf-8")
    target = tmp_path / PUNCTUATION_FILE
    given = ["--text", text, "--bundle", BUNDLE, "--to", target, "--minutes", 0.02]
    done = run_here(SCRIPT, *given)
    assert done.returncode == 0, done.stderr
    assert "web: 600 words to learn from" in done.stdout
    assert len(PunctuationModel.load(tmp_path).read([[HeardWord("ann"), HeardWord("saw", 900)]])[0]) == 2
    assert target.stat().st_size < 8_000_000


def test_a_folder_without_text_is_named(tmp_path: Path) -> None:
    """One sentence names a folder without text."""
    done = run_here(SCRIPT, "--text", tmp_path, "--bundle", BUNDLE, "--to", tmp_path / "p.safetensors")
    assert done.returncode == 1
    assert "contains no text files" in done.stderr
