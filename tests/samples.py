"""The recordings of audio_samples/ for the tests: their samples and what is said in them."""

from __future__ import annotations

import csv
import functools
from pathlib import Path

from streamer.audio.files import read_audio

FILES = ("talk.flac", "quilter.ogg", "airplane.mp3")
FOLDER = Path(__file__).parents[1] / "audio_samples"


@functools.cache
def pcm(name: str) -> bytes:
    """A recording as int16 samples, 16 kHz mono."""
    return read_audio(FOLDER / name).tobytes()


def reference(name: str) -> str:
    """What is said in a recording, in lower case."""
    with (FOLDER / "samples.tsv").open(encoding="utf-8", newline="") as file:
        return next(row["text"] for row in csv.DictReader(file, delimiter="\t") if row["file"] == name)
