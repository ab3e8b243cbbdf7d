"""The script that degrades recordings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streamer.commands.accuracy.manifest import read_manifest
from tests.project import SAMPLES
from tests.scripts.program import run_here
from workshop.data.corpus import Utterance, write_corpus

SCRIPT = "data/degrade_speech.py"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Provide prepared noise, and a room with a reverberation of half a second."""
    noise = np.random.default_rng(0).normal(0, 900, 16000)
    falling = noise * 10 ** (-3 * np.arange(16000) / 8000)
    falling[100] = 9000
    for name, audio in {"noise": noise, "rooms": falling}.items():
        write_corpus(tmp_path / "work", name, [(Utterance(name, 0, 0, name, "", ""), audio.astype(np.int16))])
    return tmp_path / "work"


def test_a_manifest_is_degraded(work: Path, tmp_path: Path) -> None:
    """The script prints the manifests that it wrote; each has the requested number of recordings."""
    done = run_here(SCRIPT, SAMPLES / "samples.tsv", "--work", work, "--to", tmp_path, "--ways", "quiet", "--limit", 2)
    assert (done.returncode, done.stdout) == (0, f"{tmp_path / 'quiet.tsv'}\n")
    assert len(read_manifest(tmp_path / "quiet.tsv")) == 2


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [(["--ways", "drunk"], "there is no degradation 'drunk'"), (["--work", "nowhere"], "nowhere")],
)
def test_what_cannot_be_done_is_one_sentence(work: Path, tmp_path: Path, arguments: list[str], complaint: str) -> None:
    """Unknown ways and missing data are named."""
    done = run_here(SCRIPT, SAMPLES / "samples.tsv", "--work", work, "--to", tmp_path / "out", *arguments)
    assert done.returncode == 1
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
