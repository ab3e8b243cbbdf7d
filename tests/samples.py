"""The recordings of audio_samples/ for the tests: their samples and their texts."""

from __future__ import annotations

import csv
import functools

from streamer.audio.audio_file import read_audio
from tests.project import SAMPLES

FILES = ("talk.flac", "quilter.ogg", "airplane.mp3")


@functools.cache
def pcm(name: str) -> bytes:
    """A recording as int16 samples, 16 kHz mono."""
    return read_audio(SAMPLES / name).tobytes()


def reference(name: str) -> str:
    """The text of a recording in lower case."""
    with (SAMPLES / "samples.tsv").open(encoding="utf-8", newline="") as file:
        return next(row["text"] for row in csv.DictReader(file, delimiter="\t") if row["file"] == name)
