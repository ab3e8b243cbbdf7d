"""Where the words and phones of the prepared speech lie: what scripts/data/align_speech.py writes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from streamer.training.data.corpus import CorpusError


@dataclass(frozen=True)
class Alignment:
    """One utterance: words as (word, start ms, length ms), phones the same with the number of their word."""

    name: str
    aligned: bool
    score: float
    words: list[tuple[str, int, int]]
    phones: list[tuple[str, int, int, int]]


def alignment_path(folder: Path, name: str) -> Path:
    """The file that holds the alignments of a prepared set."""
    return folder / f"{name}.phones.jsonl"


def read_alignments(folder: Path, name: str) -> dict[str, Alignment]:
    """The alignments of a prepared set by the utterance's name."""
    path = alignment_path(folder, name)
    if not path.is_file():
        raise CorpusError(f"{path} is missing: run scripts/data/align_speech.py --work {folder} {name} first")
    with path.open(encoding="utf-8") as stream:
        found = (Alignment(**json.loads(line)) for line in stream)
        return {alignment.name: alignment for alignment in found}
