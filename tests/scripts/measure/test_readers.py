"""The script that compares readers with our passes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.engine.reader.random_reader import random_weights, write_reader
from tests.engine.reader.scripted_whisper import write_whisper
from tests.project import SAMPLES
from tests.samples import FILES
from tests.scripts.program import run_here

SCRIPT = "measure/readers.py"


@pytest.mark.timeout(600)
def test_readers_stand_beside_our_passes(tmp_path: Path) -> None:
    """One command prints a line for each, with the errors by corpus and the CPU time."""
    (tmp_path / "a.tsv").write_text(f"file\ttext\n{SAMPLES / FILES[2]}\tthe airplane rose gracefully into the sky\n")
    write_reader(tmp_path / "random", random_weights(), signed=False)
    arguments = ("a.tsv", "--reader", "random=random", "--cache", "cache")
    done = run_here(SCRIPT, *arguments, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    header, *lines = done.stdout.splitlines()
    assert header.split()[:4] == ["a", "(7", "words)", "%"]
    assert [line.split("  ")[0] for line in lines] == ["our live pass", "our second pass", "random"]
    [kept] = (tmp_path / "cache").iterdir()
    before = kept.stat().st_mtime_ns
    again = run_here(SCRIPT, *arguments, "--readers-only", folder=tmp_path)
    assert again.stdout.splitlines()[-1].split() == lines[-1].split()
    assert kept.stat().st_mtime_ns == before


def test_a_folder_without_a_reader_is_named(tmp_path: Path) -> None:
    """The message says which file is missing."""
    (tmp_path / "a.tsv").write_text(f"file\ttext\n{SAMPLES / FILES[2]}\tthe airplane rose gracefully into the sky\n")
    done = run_here(SCRIPT, "a.tsv", "--reader", "none=none", "--readers-only", folder=tmp_path)
    assert done.returncode == 1
    assert "none/encoder_model.ort cannot be read" in done.stderr


# What the process of Whisper needs of its package, which is no dependency of the tests.
FASTER_WHISPER = """
class Segment:
    text = " The airplane rose gracefully "


class WhisperModel:
    def __init__(self, folder, device, compute_type, cpu_threads, num_workers):
        assert (device, compute_type, cpu_threads) == ("cpu", "int8", 1)

    def transcribe(self, audio, language, beam_size, **options):
        assert beam_size == 1
        assert 0.01 < abs(audio).max() <= 1
        end = Segment()
        end.text = f" into the sky {len(audio)}."
        return [Segment(), end], None
"""


def test_whisper_stands_beside_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another Python recognises the same samples, and is scored in the same way; its texts are kept."""
    (tmp_path / "a.tsv").write_text(f"file\ttext\n{SAMPLES / FILES[2]}\tthe airplane rose gracefully into the sky\n")
    (tmp_path / "faster_whisper.py").write_text(FASTER_WHISPER)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.bin").write_bytes(b"weights")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    write_reader(tmp_path / "random", random_weights(), signed=False)
    arguments = ("a.tsv", "--reader", "random=random", "--readers-only", "--cache", "cache")
    whisper = ("--whisper", "Whisper=model", "--whisper-python", sys.executable)
    done = run_here(SCRIPT, *arguments, *whisper, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    # The number of samples is said in five words, which the reference does not have.
    *_, last, same = done.stdout.splitlines()
    assert same == "random has 0 of 1 texts of Whisper"
    name, errors, *_ = last.split()
    assert name == "Whisper"
    assert float(errors) > 50
    (tmp_path / "faster_whisper.py").unlink()  # what is kept needs no Whisper
    again = run_here(SCRIPT, *arguments, *whisper, folder=tmp_path)
    assert again.stdout == done.stdout


def test_a_whisper_that_does_not_start(tmp_path: Path) -> None:
    """The message says what the environment must have; half of the arguments are refused."""
    (tmp_path / "a.tsv").write_text(f"file\ttext\n{SAMPLES / FILES[2]}\tthe airplane rose gracefully into the sky\n")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.bin").write_bytes(b"weights")
    write_reader(tmp_path / "random", random_weights(), signed=False)
    arguments = ("a.tsv", "--reader", "random=random", "--readers-only", "--whisper", "Whisper=model")
    done = run_here(SCRIPT, *arguments, "--whisper-python", sys.executable, folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.endswith("its Python needs faster-whisper, and its folder a model\n")
    assert run_here(SCRIPT, *arguments, folder=tmp_path).returncode == 2


def test_whisper_may_be_the_reader(tmp_path: Path) -> None:
    """It hears each recording with a little silence, or 30 s with --whole, which is kept apart."""
    (tmp_path / "a.tsv").write_text(f"file\ttext\n{SAMPLES / FILES[2]}\tgood day\n")
    write_whisper(tmp_path / "model", ("ĠGood", "Ġday", "."))
    arguments = ("a.tsv", "--reader", "Whisper=model", "--readers-only", "--cache", "cache")
    for more in ((), ("--whole",)):
        done = run_here(SCRIPT, *arguments, *more, folder=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines()[-1].split()[:2] == ["Whisper", "0.0"]
    assert len(list((tmp_path / "cache").iterdir())) == 2
    (tmp_path / "model" / "vocabulary.json").unlink()
    assert "vocabulary.json" in run_here(SCRIPT, *arguments, folder=tmp_path).stderr
