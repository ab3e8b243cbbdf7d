"""The recordings of audio_samples/ for the tests: their samples and what is said in them."""

from __future__ import annotations

import csv
import functools
from pathlib import Path

import soundfile

FOLDER = Path(__file__).parents[1] / "audio_samples"


@functools.cache
def pcm(name: str) -> bytes:
    """A recording of 16 kHz mono as int16 samples."""
    samples, rate = soundfile.read(FOLDER / name, dtype="int16")
    assert (rate, samples.ndim) == (16_000, 1)
    return samples.tobytes()


def reference(name: str) -> str:
    """What is said in a recording, in lower case."""
    with (FOLDER / "samples.tsv").open(encoding="utf-8", newline="") as file:
        return next(row["text"] for row in csv.DictReader(file, delimiter="\t") if row["file"] == name)
