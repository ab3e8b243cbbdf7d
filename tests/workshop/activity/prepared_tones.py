"""Prepared sets for the tests of activity: loud tones in place of speech, and noise."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from workshop.activity.examples import AlignedSpeech, ExampleSource
from workshop.activity.sounds import BackgroundSounds
from workshop.data.corpus import Corpus, Utterance, write_corpus

SECONDS = 2.56
FRAME = 640
SAMPLES = int(SECONDS * 16000)


def make_work(folder: Path) -> Path:
    """Write recordings of 2 s with a tone between 400 and 1600 ms."""
    rng = np.random.default_rng(0)
    tone = np.zeros(32000)
    tone[6400:25600] = 8000 * np.sin(np.arange(19200) * 0.3)
    spoken = [(Utterance(f"u{i}", 0, 0, "x", "s", "a"), (tone / (i + 1)).astype(np.int16)) for i in range(3)]
    noise = [
        (Utterance(f"{kind}.wav", 0, 0, "noise", "", ""), rng.integers(-99, 99, 16000).astype(np.int16))
        for kind in ("rain", "fire", "sea", "wind", "clock", "dog", "saw", "tap")
    ]
    write_corpus(folder, "noise", noise)
    for name in ("train", "dev"):
        write_corpus(folder, name, spoken)
        line = {"aligned": True, "score": 0, "words": [], "phones": [("AH", 400, 500, 0), ("K", 900, 700, 0)]}
        text = "".join(json.dumps({"name": f"u{i}", **line}) + "\n" for i in range(3))
        (folder / f"{name}.phones.jsonl").write_text(text, encoding="utf-8")
    return folder


def example_source(work: Path, frame_samples: int = FRAME) -> ExampleSource:
    """Return a source of short examples of tones and noise."""
    background = BackgroundSounds(Corpus(work, "noise"), 1, 1, SAMPLES)
    return ExampleSource(AlignedSpeech.read(work, "train"), background, SAMPLES, frame_samples)
