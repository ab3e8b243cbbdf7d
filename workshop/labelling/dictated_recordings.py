"""Reads a collection of people who spell names and say telephone numbers: half of them to train on, half to evaluate.

The table of the collection has what each person was asked to dictate: a number in figures, or a name with capitals.
"""

from __future__ import annotations

import csv
import io
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from string import ascii_lowercase, digits

import soundfile  # type: ignore[import-untyped]

from workshop.data.corpus import CorpusError, Row, replacing, write_given
from workshop.data.synthetic_speech import cardinal

TABLE = "metadata.csv"
MANIFEST = "dictated.tsv"
CORPUS = "dictated"  # the corpus of the recordings to train on
KINDS = {"Names": "spelled names", "Numbers": "telephone numbers"}
"""The folders that are read. A third one has addresses, but not the words in which they were said."""

SHORTEST_S, LONGEST_S = 0.4, 2.5
"""The time for each letter or digit. In less, a name was said as a word; in more, there is more than the table says."""


@dataclass(frozen=True)
class Dictation:
    """One recording. The names of the fields are the columns of a manifest."""

    file: str  # relative to the folder of the collection
    corpus: str
    speaker: str
    text: str


def read_dictations(folder: Path) -> list[Dictation]:
    """Read the table of a collection. Recordings that are not there are left out."""
    path = folder / TABLE
    if not path.is_file():
        raise CorpusError(f"{path} is missing: give a clone of the collection")
    with path.open(newline="", encoding="utf-8-sig") as table:
        reader = csv.DictReader(table)
        if not {"Response_ID", "file_name", "Name", "Number"} <= set(reader.fieldnames or ()):
            raise CorpusError(f"{path} is another table: it has no columns Response_ID, file_name, Name and Number")
        dictations = [
            Dictation(row["file_name"], KINDS[kind], row["Response_ID"], _words(kind, row))
            for row in reader
            if (kind := Path(row["file_name"]).parent.name) in KINDS and (folder / row["file_name"]).is_file()
        ]
    if not dictations:
        raise CorpusError(f"{path} names no recording of a name or a number that is there")
    return dictations


def divided(dictations: Sequence[Dictation]) -> tuple[list[Dictation], list[Dictation]]:
    """Divide the recordings: those of every second person to evaluate, the others to train on."""
    people = list(dict.fromkeys(one.speaker for one in dictations))
    evaluated = set(people[::2])
    return (
        [one for one in dictations if one.speaker in evaluated],
        [one for one in dictations if one.speaker not in evaluated],
    )


def without_mistakes(folder: Path, dictations: Sequence[Dictation]) -> list[Dictation]:
    """Leave out recordings whose text in the table cannot be right.

    They are too short or too long for their text, or the same as another recording. No recogniser decides this, so the
    evaluation does not depend on what can be recognised.
    """
    contents = {one.file: (folder / one.file).read_bytes() for one in dictations}
    number = Counter(contents.values())
    return [
        one
        for one in dictations
        if number[contents[one.file]] == 1
        and SHORTEST_S <= _seconds(contents[one.file]) / len(one.text.split()) <= LONGEST_S
    ]


def write_manifest(folder: Path, dictations: Sequence[Dictation]) -> Path:
    """Write a manifest for `streamer evaluate` into the folder of the collection."""
    with replacing(folder / MANIFEST, "w") as table:
        writer = csv.writer(table, delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_NONE)
        writer.writerows([[field.name for field in fields(Dictation)], *map(astuple, dictations)])
    return folder / MANIFEST


def write_training(folder: Path, dictations: Sequence[Dictation], output: Path) -> list[Row]:
    """Write recordings as a folder of given speech."""
    return write_given(output, CORPUS, _rows(folder, dictations))


def _rows(folder: Path, dictations: Sequence[Dictation]) -> Iterator[tuple[Row, bytes]]:
    for one in dictations:
        content = (folder / one.file).read_bytes()
        seconds = round(_seconds(content), 3)
        member = "-".join(Path(one.file).parts[-2:])
        yield Row("", member, seconds, CORPUS, one.speaker, one.text.upper()), content


def _seconds(content: bytes) -> float:
    duration: float = soundfile.info(io.BytesIO(content)).duration
    return duration


def _words(kind: str, row: dict[str, str]) -> str:
    if kind == "Names":
        plain = unicodedata.normalize("NFKD", row["Name"]).lower()
        return " ".join(letter for letter in plain if letter in ascii_lowercase)
    return " ".join(cardinal(int(digit)) for digit in row["Number"] if digit in digits)
