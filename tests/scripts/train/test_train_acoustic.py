"""The training command: a run is stopped, continued, evaluated, and written as a bundle."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from streamer.engine.networks.acoustic_network import AcousticNetwork
from tests.project import SCRIPTS
from tests.scripts.program import run_here
from workshop.data.corpus import Utterance, write_corpus

SCRIPT = "train/train_acoustic.py"
PHONES = [("AH", 200, 100, 0), ("K", 300, 80, 1), ("AE", 380, 120, 1), ("T", 500, 100, 1)]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Provide prepared and aligned sets of noise in place of speech."""
    rng = np.random.default_rng(0)
    for name, number in (("train", 12), ("dev", 2), ("noise", 1), ("rooms", 1)):
        recordings = [
            (Utterance(f"{name}{i}", 0, 0, "x", "s", "a cat"), rng.integers(-900, 900, 16000).astype(np.int16))
            for i in range(number)
        ]
        write_corpus(tmp_path / "work", name, recordings)
        lines = [
            {"name": f"{name}{i}", "aligned": True, "score": -9.0, "words": [], "phones": PHONES} for i in range(number)
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / "work" / f"{name}.phones.jsonl").write_text(text, encoding="utf-8")
    return tmp_path / "work"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command, and return its output."""
    return run_here(SCRIPT, "--device", "cpu", *arguments)


def steps(run_folder: Path) -> list[int]:
    """Return the steps in the log."""
    log = run_folder / "log.jsonl"
    return [json.loads(line)["step"] for line in log.read_text().splitlines()] if log.exists() else []


def test_a_run_of_two_processes_is_stopped_gone_on_with_and_written(work: Path, tmp_path: Path) -> None:
    """A run ended by SIGTERM keeps its state, the next piece continues it, and the bundle loads."""
    folder = tmp_path / "run"
    plan = ("--size", "tiny", "--plan-minutes", 9, "--batch-seconds", 2, "--crf-from", 5, "--keep-every", 10)
    train = ("--work", work, "--run", folder, *plan, "--aligned-steps", 2, "--processes", 2)
    command = [sys.executable, str(SCRIPTS / SCRIPT), "--device", "cpu", *map(str, train)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 90
        while not steps(folder) and time.monotonic() < deadline:
            time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[0]
    assert process.returncode == 0
    assert "2 process(es) on cpu" in said
    stopped = int(said.split("stopped at step ")[1].split(",")[0])
    assert stopped >= steps(folder)[-1] >= 20
    more = run(*train[:-1], 1, "--minutes", 0.02)
    assert f"going on at step {stopped}," in more.stdout, more.stderr
    assert int(more.stdout.split("stopped at step ")[1].split(",")[0]) > stopped
    assert (folder / "curves.png").stat().st_size > 1000
    assert "phones_crf" in (folder / "log.jsonl").read_text()
    assert {path.name for path in (folder / "averaged").iterdir()} == {"model.json", "weights.safetensors"}
    assert (folder / "step-10" / "weights.safetensors").is_file()
    assert not list(folder.glob("*partial*"))
    exported = run("--run", folder, "--export", tmp_path / "bundle")
    assert exported.returncode == 0, exported.stderr
    assert "phones" in AcousticNetwork.load(tmp_path / "bundle").units
    judged = run("--work", work, "--bundle", tmp_path / "bundle", "--evaluate")
    assert judged.stdout.splitlines()[0].startswith("corpus")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--work", "nowhere", "--run", "r", "--plan-minutes", "1"), "run scripts/data/prepare_speech.py"),
        (("--run", "r", "--plan-minutes", "1"), "training needs --work"),
        (("--run", "nowhere", "--export", "b"), "there is no trained run in this folder yet"),
        (("--work", "w", "--run", "r", "--plan-minutes", "1", "--processes", "0"), "--processes must be 1 or more"),
        (("--work", "w", "--run", "r", "--plan-minutes", "1", "--grow", "2", "64"), "--grow needs --start"),
        (("--work", "w", "--run", "r", "--plan-steps", "1", "--start", "b", "--encoder-from", "m"), "not from both"),
        (("--work", "w", "--run", "r", "--plan-steps", "1", "--encoder-from", "moonshine-tyni"), "no reader moonshine"),
    ],
)
def test_what_is_missing_is_said(arguments: tuple[str, ...], complaint: str) -> None:
    """Missing data gives one sentence and status 1, without a traceback."""
    found = run(*arguments)
    assert found.returncode == 1
    assert complaint in found.stderr
