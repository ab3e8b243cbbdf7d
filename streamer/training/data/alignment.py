"""The times of the words and phones of the prepared speech, as scripts/data/align_speech.py writes them.

There are two kinds. `NAME.phones.jsonl` has times from an independent tool, and serves to evaluate times.
`NAME.heard.jsonl` has the pronunciations that our own model hears, with rough times. It is better for training.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from streamer.training.data.corpus import CorpusError


@dataclass(frozen=True)
class Alignment:
    """One utterance: words as (word, start ms, length ms), and phones in the same way with the number of their word."""

    name: str
    aligned: bool
    score: float
    words: list[tuple[str, int, int]]
    phones: list[tuple[str, int, int, int]]


def alignment_path(folder: Path, name: str) -> Path:
    """Return the path of the alignments of a prepared set."""
    return folder / f"{name}.phones.jsonl"


def heard_path(folder: Path, name: str) -> Path:
    """Return the path of the pronunciations that our model heard in a prepared set."""
    return folder / f"{name}.heard.jsonl"


def read_alignments(folder: Path, name: str) -> dict[str, Alignment]:
    """Read the alignments of a prepared set, by the name of the utterance."""
    path = alignment_path(folder, name)
    if not path.is_file():
        raise CorpusError(f"{path} is missing: run scripts/data/align_speech.py --work {folder} {name} first")
    return _read(path)


def read_targets(folder: Path, name: str) -> dict[str, Alignment]:
    """Read the targets for training: the pronunciations that a model heard, or else the alignments."""
    path = heard_path(folder, name)
    return _read(path) if path.is_file() else read_alignments(folder, name)


def write_resumed(path: Path, find: Callable[[set[str]], Iterable[Alignment]]) -> None:
    """Write alignments line by line, and continue after an interrupted run, or where the set has grown since.

    `find` gets the names of the utterances that were aligned before, and yields the alignments of the others.
    """
    partial = path.with_name(path.name + ".partial")
    if path.exists() and not partial.exists():
        shutil.copyfile(path, partial)
    done = set(_finished(partial))
    with partial.open("a", encoding="utf-8") as stream:
        for alignment in find(done):
            stream.write(json.dumps(vars(alignment)) + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(path)


def _read(path: Path) -> dict[str, Alignment]:
    with path.open(encoding="utf-8") as stream:
        alignments = (Alignment(**json.loads(line)) for line in stream)
        return {alignment.name: alignment for alignment in alignments}


def _finished(partial: Path) -> Iterator[str]:
    """Return the names in the file of an interrupted run, and cut off its incomplete last line."""
    if not partial.exists():
        return
    content = partial.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        partial.write_bytes(whole)
    for line in whole.splitlines():
        yield json.loads(line)["name"]
