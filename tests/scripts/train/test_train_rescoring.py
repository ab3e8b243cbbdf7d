"""The script that trains the neural language model."""

from __future__ import annotations

from pathlib import Path

from streamer.engine.language.neural_model import NEURAL_FILE
from streamer.engine.networks.neural_network import NeuralNetwork
from tests.scripts.program import run_here
from tests.workshop.language.text_folder import make_texts

TEXT = ["old.tar.xz", "new.tar.xz", "--train", "train.tsv", "--dev", "dev.tsv"]


def test_a_model_is_trained_for_a_bundle(tmp_path: Path) -> None:
    """A file for the engine, with a report. Without a language model it says what to do."""
    make_texts(tmp_path)
    given = [*TEXT, "--bundle", ".", "--batches", "3", "--vector", "8", "--memory", "8"]
    done = run_here("train/train_rescoring.py", *given, folder=tmp_path)
    assert done.returncode == 1
    assert "make it with scripts/train/build_language_model.py" in done.stderr
    built = run_here("train/build_language_model.py", *TEXT, "--output", "language.safetensors", folder=tmp_path)
    assert built.returncode == 0, built.stderr
    done = run_here("train/train_rescoring.py", *given, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "perplexity, mixed" in done.stdout
    assert NeuralNetwork.load(tmp_path / NEURAL_FILE).recall.hidden_size == 8
