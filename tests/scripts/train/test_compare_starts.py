"""The script that compares starts of a model: both are trained in pieces and judged, and the tables are printed."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.engine.reader.random_reader import random_weights, write_reader
from tests.scripts.program import run_here
from tests.workshop.acoustic.tiny_run import aligned
from workshop.data.corpus import Utterance, write_corpus

SCRIPT = "train/compare_starts.py"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Provide prepared and aligned sets of noise in place of speech."""
    rng = np.random.default_rng(0)
    for name, number in (("train", 6), ("dev", 4), ("noise", 1), ("rooms", 1)):
        recordings = [
            (Utterance(f"{name}{i}", 0, 0, "x", f"s{i}", "a cat"), rng.integers(-900, 900, 12_000).astype(np.int16))
            for i in range(number)
        ]
        write_corpus(tmp_path / "work", name, recordings)
    lines = [json.dumps(vars(aligned(f"train{i}"))) for i in range(6)]
    (tmp_path / "work" / "train.heard.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path / "work"


@pytest.fixture
def strangers(tmp_path: Path) -> Path:
    """Provide a manifest of two recordings of noise, in a shard beside it."""
    folder = tmp_path / "given"
    folder.mkdir()
    rows = ["shard\tmember\tseconds\tcorpus\tspeaker\ttext"]
    with tarfile.open(folder / "s.tar", "w") as shard:
        for number in range(2):
            path = folder / f"{number}.flac"
            soundfile.write(path, np.random.default_rng(number).normal(0, 0.02, 16_000), 16_000)
            shard.add(path, path.name)
            rows.append(f"s.tar\t{path.name}\t1.0\tfound\tu{number}\tTHE CAT")
    manifest = folder / "strangers.tsv"
    manifest.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return manifest


def test_both_starts_are_trained_and_judged(work: Path, strangers: Path, tmp_path: Path) -> None:
    """The first call stops after its time, the next goes on. A set that comes later is judged alone."""
    write_reader(tmp_path / "reader", random_weights(), signed=False)
    given = ("--work", work, "--to", tmp_path / "runs", "--reader", tmp_path / "reader", "--device", "cpu")
    plan = ("--steps", 3, "--processes", 1, "--batch-seconds", 3)
    first = run_here(SCRIPT, *given, *plan, "--minutes", 0)
    assert (first.returncode, first.stdout) == (2, "")
    done = run_here(SCRIPT, *given, *plan)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("dev, ")] == [
        "dev, letters",
        "dev, greedy",
        "dev, lexicon",
    ]
    runs = [tmp_path / "runs" / start for start in ("nothing", "moonshine")]
    assert [len((run / "log.jsonl").read_text().splitlines()) for run in runs] == [0, 0]  # a line every 20 steps
    again = run_here(SCRIPT, *given, *plan, "--manifest", strangers)
    assert again.returncode == 0, again.stderr
    assert "going on" not in again.stdout
    assert "strangers, lexicon" in again.stdout
    for run in runs:
        judged = json.loads((run / "starts.json").read_text(encoding="utf-8"))
        assert [len(own) for name, own in judged.items() if name.startswith("strangers")] == [2, 2, 2]
        assert sum(one["words"] for one in judged["strangers, lexicon"]) == 4
    twice = run_here(SCRIPT, *given, *plan, "--manifest", strangers, tmp_path / "other" / "strangers.tsv")
    assert twice.returncode == 1
    assert "two sets have the name strangers" in twice.stderr


def test_an_unknown_reader_is_an_error(tmp_path: Path) -> None:
    """The message says so before any work."""
    done = run_here(SCRIPT, "--work", tmp_path, "--to", tmp_path, "--reader", "moonshine-tyni")
    assert done.returncode == 1
    assert done.stderr.startswith("compare_starts: no reader moonshine-tyni is known")
