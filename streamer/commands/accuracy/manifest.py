"""Reads manifests, tables of recordings with their reference texts, and normalises text before it is compared.

A manifest is a table with tabs and a header. The columns are `shard member … text` for audio in tar shards, or
`file … text` for audio files. Paths are relative to the manifest. docs/how-to/evaluation.md describes both.
"""

from __future__ import annotations

import csv
import hashlib
import re
import tarfile
import tempfile
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamer.audio.audio_file import Int16Samples, read_audio
from streamer.audio.recordings import AudioError, check_readable
from streamer.base.text import words_of

_IN_SHARDS: Final = ("shard", "member", "text")
_IN_FILES: Final = ("file", "text")
# Optional columns that name the corpus. The first of them that has a value counts.
_CORPUS: Final = ("corpus", "source")
_NO_SPEAKER: Final = ("", "-", "unknown")
HALVES: Final = ("first", "second")


class ManifestError(Exception):
    """A manifest, or a file it names, cannot be used. The message is a sentence for the user."""


@dataclass(frozen=True)
class AudioLocation:
    """Where the audio of an utterance is: a file, or a range of bytes in a file."""

    path: Path
    start: int = 0
    size: int | None = None


@dataclass(frozen=True)
class Utterance:
    """One recording of a manifest. `text` is its reference as in the manifest, and `words` has its normalised words."""

    name: str
    corpus: str
    speaker: str | None
    words: tuple[str, ...]
    location: AudioLocation
    text: str = ""

    def samples(self) -> Int16Samples:
        """Return the audio, read as `streamer FILE` reads it. AudioError if it cannot be read."""
        if self.location.size is None:
            return read_audio(self.location.path)
        with self.location.path.open("rb") as shard:
            shard.seek(self.location.start)
            content = shard.read(self.location.size)
        # Copied to a file of its own, so that shards and files go through the same reader.
        with tempfile.NamedTemporaryFile(suffix=Path(self.name).suffix) as copy:
            copy.write(content)
            copy.flush()
            try:
                return read_audio(copy.name)
            except AudioError as error:
                raise AudioError(str(error).replace(copy.name, self.name)) from error


def read_manifest(path: Path) -> list[Utterance]:
    """Read all utterances of a manifest and check that their audio exists."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            rows = list(csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
    except OSError as error:
        raise ManifestError(f"{path} cannot be read: {error.strerror}.") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise ManifestError(f"{path} is not a table in UTF-8: {error}.") from error
    if not rows:
        raise ManifestError(f"{path} is empty: it needs a header and a line for each recording.")
    utterances = list(_utterances(path, rows[0], rows[1:]))
    if not utterances:
        raise ManifestError(f"{path} lists no recording: there is nothing below its header.")
    return utterances


def select_utterances(
    utterances: Sequence[Utterance], corpora: Sequence[str] = (), limit: int | None = None, part: str | None = None
) -> list[Utterance]:
    """Return the utterances of these corpora (all if none is named) and this half: at most `limit`, spread evenly."""
    names = dict.fromkeys(utterance.corpus for utterance in utterances)
    for name in corpora:
        if name not in names:
            raise ManifestError(f"there is no corpus '{name}'; known are {', '.join(names)}.")
    selection = [
        utterance
        for utterance in utterances
        if (not corpora or utterance.corpus in corpora) and part in (None, half(utterance.name))
    ]
    if not selection:
        raise ManifestError(f"no recording falls into the {part} half.")
    if limit is None or limit >= len(selection):
        return selection
    by_corpus = sorted(selection, key=lambda utterance: utterance.corpus)
    return [by_corpus[(2 * number + 1) * len(by_corpus) // (2 * limit)] for number in range(limit)]


def half(name: str) -> str:
    """Return the half to which the utterance belongs. Parameters are fitted on the first, judged on the second.

    It depends on the name alone, so all tools agree on the halves, whatever part of a manifest they read.
    """
    return HALVES[hashlib.sha256(name.encode()).digest()[0] & 1]


def _utterances(path: Path, header: list[str], rows: list[list[str]]) -> Iterator[Utterance]:
    twice = {column for column in header if header.count(column) > 1}
    if twice:
        raise ManifestError(f"{path}: the header has {min(twice)} twice.")
    if not set(_IN_SHARDS) <= set(header) and not set(_IN_FILES) <= set(header):
        raise ManifestError(
            f"{path}: the first line must name the columns, with tabs between them: {' and '.join(_IN_FILES)}, "
            f"or {', '.join(_IN_SHARDS[:-1])} and {_IN_SHARDS[-1]}."
        )
    shards: dict[Path, dict[str, AudioLocation]] = {}
    seen: set[str] = set()
    for number, values in enumerate(rows, start=2):
        where = f"{path}, line {number}"
        if not values:
            raise ManifestError(f"{where} is empty.")
        if len(values) != len(header):
            raise ManifestError(f"{where} has {len(values)} columns, the header has {len(header)}.")
        row = dict(zip(header, values, strict=True))
        name = _name(row)
        if name in seen:
            raise ManifestError(f"{where}: {name} was listed before.")
        seen.add(name)
        words = tuple(normalise(row["text"]))
        if not words:
            raise ManifestError(f"{where}: the reference of {name} has no words.")
        corpus = next((row[column] for column in _CORPUS if row.get(column)), path.stem)
        speaker = row.get("speaker", "")
        location = _location(path.parent, row, where, shards)
        yield Utterance(name, corpus, None if speaker in _NO_SPEAKER else speaker, words, location, row["text"])


def _name(row: dict[str, str]) -> str:
    if "shard" in row:
        return f"{Path(row['shard']).stem}/{row['member']}"
    return row["file"]


def _location(
    folder: Path, row: dict[str, str], where: str, shards: dict[Path, dict[str, AudioLocation]]
) -> AudioLocation:
    if "shard" not in row:
        try:
            check_readable(str(folder / row["file"]))
        except AudioError as error:
            raise ManifestError(f"{where}: {error}") from error
        return AudioLocation(folder / row["file"])
    path = folder / row["shard"]
    if path not in shards:
        shards[path] = _members(path, where)
    location = shards[path].get(row["member"])
    if location is None:
        raise ManifestError(f"{where}: {path} holds no {row['member']}.")
    return location


def _members(path: Path, where: str) -> dict[str, AudioLocation]:
    """Return the location of each file in a shard, read once, so that recordings can be read in any order."""
    try:
        with tarfile.open(path, "r:") as shard:
            return {
                member.name: AudioLocation(path, member.offset_data, member.size)
                for member in shard.getmembers()
                if member.isreg() and not member.issparse()
            }
    except OSError as error:
        raise ManifestError(f"{where}: the shard {path} cannot be read: {error.strerror or error}.") from error
    except tarfile.TarError as error:
        raise ManifestError(f"{where}: {path} is not a plain tar file: {error}.") from error


# Normalises text before words are compared, the same for references and hypotheses.

# Characters that are used for an apostrophe.
_APOSTROPHES: Final = str.maketrans(dict.fromkeys("\u2018\u2019\u02bc\u00b4\u0060\uff07", "'"))
# Letters and digits of any script, and apostrophes. Everything else separates words.
_WORD: Final = re.compile(r"[\w']+")
_UNDERSCORE: Final = "_"


def normalise(text: str) -> list[str]:
    """Return the words of a text: lower case, apostrophes kept, other punctuation a space, digits left as they are.

    In scripts without spaces, each character is a word.
    """
    # Apostrophes first: NFKC would split a lone accent into a space and a mark.
    text = unicodedata.normalize("NFKC", text.translate(_APOSTROPHES)).lower().replace(_UNDERSCORE, " ")
    runs = (word for run in _WORD.findall(text) for word in words_of(run))
    return [word for raw in runs if (word := _unquote(raw))]


def _unquote(word: str) -> str:
    """Return the word without apostrophes that quote it or stand alone. Those of 'tis and dogs' belong to the word."""
    if word.startswith("'") and word.endswith("'"):
        return word.strip("'")
    return word
