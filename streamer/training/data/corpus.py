"""Prepared audio: one file of int16 samples and one table of utterances, read through a memory map.

`NAME.samples` holds every recording end to end at 16 kHz; `NAME.tsv` says where each one lies and what is said in it.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamer.training.data.replaced_file import replacing

SAMPLE_RATE = 16000
Samples = npt.NDArray[np.int16]


class CorpusError(Exception):
    """Prepared or given data cannot be used. The message says what to do."""


@dataclass(frozen=True)
class Utterance:
    """One recording: where its samples lie, who speaks, and the words (lower case, empty for noise)."""

    name: str
    start: int
    samples: int
    corpus: str
    speaker: str
    text: str

    @property
    def seconds(self) -> float:
        """The length of the recording."""
        return self.samples / SAMPLE_RATE


class Corpus:
    """A prepared set of recordings."""

    def __init__(self, folder: Path, name: str) -> None:
        table, audio = folder / f"{name}.tsv", folder / f"{name}.samples"
        for path in (table, audio):
            if not path.is_file():
                raise CorpusError(f"{path} is missing: run scripts/data/prepare_speech.py --work {folder} first")
        self.utterances = list(_read_table(table))
        if not self.utterances:
            raise CorpusError(f"{table} has no recordings: run scripts/data/prepare_speech.py again")
        self._samples: Samples = np.memmap(audio, dtype=np.int16, mode="c")
        end = max(utterance.start + utterance.samples for utterance in self.utterances)
        if end > len(self._samples):
            raise CorpusError(f"{audio} is shorter than {table} says: run scripts/data/prepare_speech.py again")

    def samples(self, utterance: Utterance) -> Samples:
        """Return the samples of one recording, without copying them."""
        return self._samples[utterance.start : utterance.start + utterance.samples]

    def everything(self) -> Samples:
        """Return all samples end to end, as in the file."""
        return self._samples


def write_corpus(folder: Path, name: str, recordings: Iterable[tuple[Utterance, Samples]]) -> list[Utterance]:
    """Write recordings as a prepared set, and fill in their `start`. After an error there are no incomplete files."""
    written: list[Utterance] = []
    with replacing(folder / f"{name}.samples", "wb") as audio:
        position = 0
        for utterance, samples in recordings:
            audio.write(samples.astype("<i2").tobytes())
            values = {**vars(utterance), "start": position, "samples": len(samples)}
            written.append(Utterance(**values))
            position += len(samples)
    with replacing(folder / f"{name}.tsv", "w") as table:
        writer = csv.writer(table, delimiter="\t", lineterminator="\n")
        writer.writerow([field.name for field in fields(Utterance)])
        writer.writerows(astuple(utterance) for utterance in written)
    return written


def _read_table(path: Path) -> Iterator[Utterance]:
    with path.open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE):
            yield Utterance(
                row["name"], int(row["start"]), int(row["samples"]), row["corpus"], row["speaker"], row["text"]
            )
