"""The script that trains a keyword spotter."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from streamer.bridge.triton.repository import models_in
from streamer.engine.acoustics.bundle_files import read_description
from streamer.heads.keywords import KeywordNetwork
from tests.project import BUNDLE
from tests.samples import pcm
from tests.scripts.program import run_here
from workshop.data.corpus import Utterance, write_corpus

SCRIPT = "train/train_keywords.py"
ROOT = Path(__file__).parents[3]


def prepared(folder: Path) -> Path:
    """Two recordings for training and for the measurement, with the times of a few words."""
    for name, labels in (("train", "train.heard.jsonl"), ("dev", "dev.phones.jsonl")):
        recordings, lines = [], []
        for recording in ("quilter.ogg", "airplane.mp3"):
            samples = np.frombuffer(pcm(recording)[:96_000], np.int16)
            recordings.append((Utterance(recording, 0, len(samples), "test", "one", "is the"), samples))
            words = [["is", 1000, 130], ["the", 1400, 90]]
            lines.append(json.dumps({"name": recording, "aligned": True, "words": words}))
        write_corpus(folder, name, recordings)
        (folder / labels).write_text("\n".join(lines))
    return folder


def test_a_spotter_is_trained_and_measured(tmp_path: Path) -> None:
    """The script writes a model repository with the head and an ensemble, and prints the errors."""
    target = tmp_path / "models"
    given = ["--work", prepared(tmp_path), "--to", target, "--words", "is,the", "--steps", 10, "--save", tmp_path]
    done = run_here(SCRIPT, *given)
    assert done.returncode == 0, done.stderr
    assert "| word | said | missed | false alarms |\n" in done.stdout
    assert "the second half of dev: " in done.stdout
    assert "an hour)" in done.stdout
    assert {"asr_keywords", "keyword_head", "speech_encoder", "transcript_head"} <= set(models_in(target))
    assert KeywordNetwork.load(target / "keyword_head" / "1").words == ("is", "the")
    assert KeywordNetwork.load(tmp_path).frame_samples == read_description(BUNDLE).encoder.frame_samples


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    """One sentence names what is missing."""
    done = run_here(SCRIPT, "--work", tmp_path, "--to", tmp_path / "models")
    assert done.returncode == 1
    assert "run scripts/data/prepare_speech.py" in done.stderr


def test_a_spotter_that_was_trained_before(tmp_path: Path) -> None:
    """The shipped one needs no speech; a folder without one is named."""
    done = run_here(SCRIPT, "--trained", ROOT / "examples" / "keywords", "--to", tmp_path / "models")
    assert done.returncode == 0, done.stderr
    assert len(KeywordNetwork.load(tmp_path / "models" / "keyword_head" / "1").words) == 10
    done = run_here(SCRIPT, "--trained", tmp_path, "--to", tmp_path / "models")
    assert done.returncode == 1
    assert "keywords.safetensors is missing" in done.stderr
