"""The recordings of audio_samples/ for the tests: their samples and their texts."""

from __future__ import annotations

import csv
import functools
from pathlib import Path

import numpy as np
import soundfile

from streamer.audio.audio_file import SAMPLE_RATE, read_audio
from tests.project import SAMPLES

FILES = ("talk.flac", "quilter.ogg", "airplane.mp3")

# The beginning of talk.flac that has two segments: a sentence with the pause that ends it, and a part of the next one.
# Recognising all of the talk takes 4 s of processor time, so most tests use no more than this.
TWO_SEGMENTS_S = 7.3


@functools.cache
def pcm(name: str, seconds: float | None = None) -> bytes:
    """A recording, or its first seconds, as int16 samples, 16 kHz mono."""
    return read_audio(SAMPLES / name)[: None if seconds is None else round(seconds * SAMPLE_RATE)].tobytes()


def write_beginning(path: Path, name: str, seconds: float) -> Path:
    """Write the first seconds of a recording into a file of any format. Returns its path."""
    soundfile.write(path, np.frombuffer(pcm(name, seconds), "<i2"), SAMPLE_RATE)
    return path


def reference(name: str) -> str:
    """The text of a recording in lower case."""
    with (SAMPLES / "samples.tsv").open(encoding="utf-8", newline="") as file:
        return next(row["text"] for row in csv.DictReader(file, delimiter="\t") if row["file"] == name)
