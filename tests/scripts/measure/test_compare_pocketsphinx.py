"""The comparison with PocketSphinx: paired figures, and a cache that is the audio's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.measure.compare_pocketsphinx import comparison, heard_by_pocketsphinx, relative
from streamer.evaluate.manifest import AudioLocation, Utterance, read_manifest
from streamer.evaluate.measures.error_rates import ScoredUtterance, score_utterance
from tests.project import SAMPLES, SCRIPTS
from tests.samples import FILES

SCRIPT = SCRIPTS / "measure" / "compare_pocketsphinx.py"


def results(corpus: str, *hypotheses: str) -> list[ScoredUtterance]:
    """Utterances of ten words each."""
    words = tuple("abcdefghij")
    return [
        score_utterance(
            Utterance(f"{corpus}/{number}", corpus, None, words, AudioLocation(Path("unused"))), hypothesis.split()
        )
        for number, hypothesis in enumerate(hypotheses)
    ]


def test_relative_errors_are_paired() -> None:
    """Half of the errors in every utterance is half of them however they are drawn, though both rates are uncertain."""
    theirs = results("x", *["a b c d e f g h"] * 20, *["a b c d e f"] * 20)
    ours = results("x", *["a b c d e f g h i"] * 20, *["a b c d e f g h"] * 20)
    assert relative(theirs, ours) == (-0.5, -0.5, -0.5)
    shown = comparison([*theirs, *results("y", "a", "b")], [*ours, *results("y", "a", "b")]).splitlines()
    assert [line.split()[0] for line in shown] == ["corpus", "x", "y", "all"]
    assert shown[1].endswith("-50.0 [-50.0, -50.0]")
    assert shown[2].endswith(" 0.0 [0.0, 0.0]")


def test_where_nothing_is_wrong_there_is_no_division_by_it() -> None:
    """One error against none is many times as many, but a number."""
    right, wrong = results("x", "a b c d e f g h i j"), results("x", "a b c d e f g h i")
    assert relative(right, wrong).value == 1.0
    assert relative(right, right).value == -1.0


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that does not exist yet."""
    return tmp_path_factory.mktemp("cache") / "pocketsphinx"


def test_it_hears_what_pocketsphinx_hears(cache: Path) -> None:
    """Clear speech mostly rightly; asked again, it answers from the cache, whatever the recording is called."""
    utterances = read_manifest(SAMPLES / "samples.tsv")[2:]
    first = list(heard_by_pocketsphinx(utterances, cache, 1))
    assert "gracefully into the sky" in first[0].text
    assert first[0].seconds == pytest.approx(3.1, abs=0.1)
    assert first[0].cpu_s > 0
    assert len(list(cache.iterdir())) == 1
    assert list(heard_by_pocketsphinx(utterances, cache, 1)) == first


@pytest.mark.timeout(300)
def test_the_command(cache: Path, tmp_path: Path) -> None:
    """Both rates, their relation and what they cost, from one command."""
    (tmp_path / "a.tsv").write_text(f"file\ttext\n{SAMPLES / FILES[2]}\tthe airplane rose gracefully into the sky\n")
    command = [sys.executable, str(SCRIPT), "a.tsv", "--engine", "--cache", str(cache)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=200, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    header, line = done.stdout.splitlines()[:2]
    assert header.split()[:3] == ["corpus", "utterances", "words"]
    assert line.split()[:3] == ["a", "1", "7"]
    assert "CPU seconds for a second of audio: PocketSphinx 0." in done.stdout
    assert ", engine " in done.stdout


def test_a_manifest_that_is_not_there(tmp_path: Path) -> None:
    """One sentence."""
    command = [sys.executable, str(SCRIPT), "missing.tsv"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr == "compare_pocketsphinx: missing.tsv cannot be read: No such file or directory.\n"
