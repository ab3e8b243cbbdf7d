"""A prepared set of real speech, with times that divide each recording evenly among its words."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tests.samples import pcm, reference
from workshop.data.corpus import Utterance, write_corpus

RECORDINGS = ("quilter.ogg", "airplane.mp3")
SECONDS = 5


def prepare_speech(folder: Path, name: str = "dev") -> Path:
    """Write the beginnings of recordings as a prepared and aligned set."""
    recordings, lines = [], []
    for number in range(8):  # so many that both halves of the set have some
        recording = RECORDINGS[number % len(RECORDINGS)]
        samples = np.frombuffer(pcm(recording), np.int16)[number * 400 :][: 16_000 * SECONDS]
        text = reference(recording).split()[:12]
        each = 1000 * SECONDS // len(text)
        words = [[word, place * each, each] for place, word in enumerate(text)]
        phones = [["AH", start, length, place] for place, (_, start, length) in enumerate(words)]
        utterance = f"{number}-{recording}"
        recordings.append((Utterance(utterance, 0, 0, "some", f"s{number}", " ".join(text)), samples))
        lines.append({"name": utterance, "aligned": True, "score": 0.0, "words": words, "phones": phones})
    write_corpus(folder, name, recordings)
    (folder / f"{name}.phones.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return folder
