"""Makes the held-out set: recordings from public repositories on which nothing is trained, to be measured beside dev.

`held_out_files.tsv` has the files with their repository, commit, hash and licence, and `held_out.tsv` the recordings:
which part of a file, who speaks, and what is said. The repositories have the audio; this one has none of it.
"""

from __future__ import annotations

import csv
import hashlib
import io
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import soundfile  # type: ignore[import-untyped]

from streamer.audio.audio_file import AudioFile, Int16Samples
from streamer.audio.recordings import AudioError
from streamer.base.text import counted
from workshop.data.corpus import SAMPLE_RATE, TEXT, CorpusError, Row, write_given
from workshop.language.text_sources import (
    LeakGuard,
    Reference,
    members,
    paragraphs,
    read_transcripts,
    sentences,
)

NAME: Final = "heldout"
MANIFEST: Final = f"{NAME}.tsv"
TABLES: Final = Path(__file__).parent
GITHUB: Final = "https://github.com"
LABELS: Final = {
    "source": "text of the source",
    "agreed": "two readers wrote the same",
    "majority": "each word by two of three readers",
    "settled": "some words decided by comparing the three",
}
"""How the text of a recording was found."""

T = TypeVar("T")


@dataclass(frozen=True)
class SourceFile:
    """A file of a public repository, at a commit; `blob` is the hash that git gives its content."""

    file: str
    repository: str
    commit: str
    blob: str
    path: str
    licence: str


@dataclass(frozen=True)
class Cut:
    """A recording: the part of a file, in seconds of one of its channels."""

    member: str
    file: str
    channel: int
    start: float
    end: float
    corpus: str
    speaker: str
    label: str
    text: str


@dataclass(frozen=True)
class Tables:
    """The files, by name, and the recordings that are cut from them."""

    files: dict[str, SourceFile]
    cuts: Sequence[Cut]

    @classmethod
    def read(cls, folder: Path = TABLES) -> Tables:
        """Read and check both tables of a folder."""
        listed = [source for _, source in _rows(folder / "held_out_files.tsv", SourceFile)]
        files = {source.file: source for source in listed}
        if len(files) < len(listed):
            raise CorpusError(f"{folder / 'held_out_files.tsv'} has a file twice")
        cuts: dict[str, Cut] = {}
        for where, cut in _rows(folder / "held_out.tsv", Cut):
            if cut.member in cuts:
                raise CorpusError(f"{where}: {cut.member} was listed before")
            if cut.file not in files:
                raise CorpusError(f"{where}: held_out_files.tsv has no file {cut.file!r}")
            if cut.label not in LABELS:
                raise CorpusError(f"{where}: {cut.label!r} is no label; there are {', '.join(LABELS)}")
            if not 0 <= cut.start < cut.end:
                raise CorpusError(f"{where}: there is nothing between {cut.start} and {cut.end} s")
            if not TEXT.fullmatch(cut.text):
                raise CorpusError(f"{where}: {cut.text!r} is not a text in capitals with apostrophes")
            cuts[cut.member] = cut
        return cls(files, list(cuts.values()))

    def summary(self) -> list[str]:
        """Return lines about the set: recordings, speakers and minutes by corpus, and how the texts were found."""
        lines = []
        for corpus in dict.fromkeys(cut.corpus for cut in self.cuts):
            cuts = [cut for cut in self.cuts if cut.corpus == corpus]
            speakers = counted(len({cut.speaker for cut in cuts}), "speaker")
            minutes = sum(cut.end - cut.start for cut in cuts) / 60
            lines.append(f"{corpus}: {counted(len(cuts), 'recording')}, {speakers}, {minutes:.1f} min")
        found = Counter(cut.label for cut in self.cuts)
        return [*lines, *(f"{number} x {LABELS[label]}" for label, number in found.most_common())]


def make(tables: Tables, clones: Path, output: Path, origin: str = GITHUB) -> list[Row]:
    """Write the set into a folder: heldout.tsv and its shards. `clones` keeps what was fetched from `origin`."""
    return write_given(output, NAME, _recordings(tables, clones, origin), MANIFEST)


def _recordings(tables: Tables, clones: Path, origin: str) -> Iterator[tuple[Row, bytes]]:
    for name in dict.fromkeys(cut.file for cut in tables.cuts):
        source = tables.files[name]
        channels = _decode(source, content_of(source, clones, origin))
        for cut in tables.cuts:
            if cut.file == name:
                samples = _part(cut, channels)
                seconds = round(len(samples) / SAMPLE_RATE, 3)
                yield Row("", f"{cut.member}.flac", seconds, cut.corpus, cut.speaker, cut.text), _flac(samples)


def _decode(source: SourceFile, content: bytes) -> Int16Samples:
    """Return [samples, channels] at 16 kHz, as the product reads recordings."""
    where = f"{source.repository}, {source.path}"
    with tempfile.NamedTemporaryFile(suffix=Path(source.path).suffix) as copy:
        copy.write(content)
        copy.flush()
        try:
            with AudioFile(copy.name, separate=True, display_name=where) as recording:
                return np.concatenate(list(recording.chunks()))
        except AudioError as error:
            raise CorpusError(str(error)) from error


def _part(cut: Cut, channels: Int16Samples) -> Int16Samples:
    start, end = round(cut.start * SAMPLE_RATE), round(cut.end * SAMPLE_RATE)
    if end > len(channels) or cut.channel >= channels.shape[1]:
        seconds, number = len(channels) / SAMPLE_RATE, counted(channels.shape[1], "channel")
        raise CorpusError(
            f"{cut.member} ends at {cut.end} s of channel {cut.channel}: its file has {seconds:.2f} s and {number}"
        )
    return channels[start:end, cut.channel]


def _flac(samples: Int16Samples) -> bytes:
    stream = io.BytesIO()
    soundfile.write(stream, samples, SAMPLE_RATE, format="FLAC", subtype="PCM_16")
    return stream.getvalue()


# Reads files out of repositories. Each must have the content that the table says.


def content_of(source: SourceFile, clones: Path, origin: str = GITHUB) -> bytes:
    """Return the content of a file. CLONES/OWNER+NAME is the clone of its repository, and is made if it is missing."""
    clone = clones / source.repository.replace("/", "+")
    if not clone.is_dir():
        _git(clones, "init", "--quiet", clone.name)
        _git(clone, "remote", "add", "origin", f"{origin}/{source.repository}")
    if _git(clone, "cat-file", "-e", f"{source.commit}^{{commit}}", may_fail=True) is None:
        # Only what is asked for is fetched: this commit, and of its files those that are read.
        fetch = ("fetch", "--quiet", "--depth", "1", "--filter", "blob:none", "origin", source.commit)
        if _git(clone, *fetch, may_fail=True) is None:
            raise CorpusError(
                f"{source.repository} has no commit {source.commit}, or it cannot be fetched into {clone}"
            )
    content = _git(clone, "cat-file", "blob", f"{source.commit}:{source.path}", may_fail=True)
    if content is None:
        raise CorpusError(f"{source.repository} has no file {source.path} at commit {source.commit}")
    if hash_of(content) != source.blob:
        raise CorpusError(
            f"{source.repository}: {source.path} has the hash {hash_of(content)}, the table {source.blob}"
        )
    return content


def hash_of(content: bytes) -> str:
    """Return the hash that git gives a file with this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _git(folder: Path, *arguments: str, may_fail: bool = False) -> bytes | None:
    """Return what git prints in this folder. None if it fails and may; otherwise, CorpusError says why it failed."""
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=False)
    if done.returncode and not may_fail:
        raise CorpusError(f"git {arguments[0]} failed in {folder}: {done.stderr.decode(errors='replace').strip()}")
    return None if done.returncode else done.stdout


# Looks for the sentences of the set in other speech and text.


def leaks(cuts: Sequence[Cut], others: Iterable[Path], tell: Callable[[str], None]) -> int:
    """Report the sentences of manifests (.tsv) and archives of text that are in the set; return their number.

    A sentence is in the set if it is the text of a recording, or shares eight words in a row with one.
    """
    guard = LeakGuard([Reference(cut.corpus, cut.text.lower().split()) for cut in cuts])
    found = 0
    for path in others:
        for source, words in _sentences(path):
            if guard.holds(words):
                tell(f"{path.name}, {source}: {' '.join(words)}")
                found += 1
    return found


def _sentences(path: Path) -> Iterator[tuple[str, list[str]]]:
    if path.suffix == ".tsv":
        yield from ((transcript.corpus, transcript.words) for transcript in read_transcripts(path))
        return
    for name, content in members(path):
        for paragraph in paragraphs(name, content):
            yield from ((name, sentence) for sentence in sentences(paragraph))


def _rows(path: Path, kind: type[T]) -> Iterator[tuple[str, T]]:
    """Yield the rows of a table whose columns are the fields of this class, each with its place."""
    columns = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            lines = list(csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror}") from error
    if not lines or lines[0] != columns:
        raise CorpusError(f"{path}: the header must be {', '.join(columns)}, separated by tabs")
    if len(lines) == 1:
        raise CorpusError(f"{path} has no rows")
    for number, values in enumerate(lines[1:], start=2):
        where = f"{path}, line {number}"
        if len(values) != len(columns):
            raise CorpusError(f"{where}: {len(values)} columns instead of {len(columns)}")
        typed: dict[str, Any] = dict(zip(columns, values, strict=True))
        try:
            for name, convert in (("channel", int), ("start", float), ("end", float)):
                if name in typed:
                    typed[name] = convert(typed[name])
        except ValueError as error:
            raise CorpusError(f"{where}: {error}") from error
        yield where, kind(**typed)
