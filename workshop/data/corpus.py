"""Speech as it is given (manifests and shards) and as it is prepared: one file of samples and one table.

`NAME.samples` holds every recording end to end at 16 kHz; `NAME.tsv` says where each one lies and what is said in it.
"""

from __future__ import annotations

import csv
import filecmp
import io
import os
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import soundfile  # type: ignore[import-untyped]
import soxr  # type: ignore[import-untyped]

from streamer.base.text import counted
from workshop.processes import Workers

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


# Reads, checks and decodes the given speech: manifests, and tar files (shards) with the recordings.

COLUMNS = ["shard", "member", "seconds", "corpus", "speaker", "text"]
TEXT = re.compile(r"[A-Z']+( [A-Z']+)*")
SECONDS_TOLERANCE = 0.15


@dataclass(frozen=True)
class Row:
    """One line of a manifest."""

    shard: str
    member: str
    seconds: float
    corpus: str
    speaker: str
    text: str


def read_manifest(path: Path) -> list[Row]:
    """Read the rows of a manifest, and check each one."""
    if not path.is_file():
        raise CorpusError(f"the manifest {path} is missing")
    rows: list[Row] = []
    seen: set[tuple[str, str]] = set()
    with path.open(newline="", encoding="utf-8") as stream:
        lines = csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
        if next(lines, None) != COLUMNS:
            raise CorpusError(f"{path}: the header must be {', '.join(COLUMNS)}, separated by tabs")
        for number, values in enumerate(lines, start=2):
            row = _parse(values, f"{path}, line {number}")
            if (row.shard, row.member) in seen:
                raise CorpusError(f"{path}, line {number}: {row.member} was listed before")
            seen.add((row.shard, row.member))
            rows.append(row)
    if not rows:
        raise CorpusError(f"{path} has no utterances")
    return rows


def decoded(workers: Workers, speech: Path, rows: list[Row]) -> Iterator[tuple[Utterance, Samples]]:
    """Decode the recordings of these rows, one shard after another. Each must have the length that its row says."""
    by_shard: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_shard.setdefault(row.shard, {})[row.member] = row
    for shard, wanted in by_shard.items():
        files = [(name, data) for name, data in _members(speech / shard) if name in wanted]
        missing = wanted.keys() - {name for name, _ in files}
        if missing:
            lacking = counted(len(missing), "recording")
            raise CorpusError(f"{speech / shard} lacks {lacking} of the manifest: {min(missing)}, …")
        names, encoded = zip(*files, strict=True)
        for name, samples in zip(names, workers.map(decode, encoded, names, chunk=32), strict=True):
            row = wanted[name]
            if abs(len(samples) / SAMPLE_RATE - row.seconds) > SECONDS_TOLERANCE:
                raise CorpusError(f"{name} lasts {len(samples) / SAMPLE_RATE:.2f} s, the manifest says {row.seconds} s")
            stem = f"{shard.removesuffix('.tar')}/{name}"
            yield Utterance(stem, 0, len(samples), row.corpus, row.speaker, row.text.lower()), samples


def unlabelled(shard: Path) -> Iterator[tuple[Utterance, Samples]]:
    """Return all recordings of a shard of noise or rooms, with empty texts."""
    for name, data in _members(shard):
        samples = decode(data, name)
        yield Utterance(name, 0, len(samples), shard.stem, "", ""), samples


def decode(encoded: bytes, name: str) -> Samples:
    """Return the first channel of any audio file as int16 at 16 kHz."""
    try:
        audio, rate = soundfile.read(io.BytesIO(encoded), dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise CorpusError(f"{name} cannot be decoded: {error}") from error
    mono = audio[:, 0]
    if rate != SAMPLE_RATE:
        mono = soxr.resample(mono, rate, SAMPLE_RATE)
    if not len(mono):
        raise CorpusError(f"{name} contains no audio")
    rounded: Samples = np.clip(np.rint(mono * 32768.0), -32768, 32767).astype(np.int16)
    return rounded


def _parse(values: list[str], where: str) -> Row:
    if len(values) != len(COLUMNS):
        raise CorpusError(f"{where}: {len(values)} columns instead of {len(COLUMNS)}")
    shard, member, seconds, corpus, speaker, text = values
    try:
        length = float(seconds)
    except ValueError:
        length = 0.0
    if not length > 0:
        raise CorpusError(f"{where}: {seconds!r} is not a length in seconds")
    if not TEXT.fullmatch(text):
        raise CorpusError(f"{where}: {text!r} is not a text in capitals with apostrophes")
    return Row(shard, member, length, corpus, speaker, text)


def _members(shard: Path) -> Iterable[tuple[str, bytes]]:
    if not shard.is_file():
        raise CorpusError(f"the shard {shard} is missing")
    with tarfile.open(shard) as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.isfile() else None
            if stream is not None:
                yield member.name, stream.read()


# Writes recordings as given speech: their unchanged files in tar shards, and a manifest.

SHARD_BYTES = 45_000_000


def write_given(
    folder: Path, name: str, recordings: Iterable[tuple[Row, bytes]], manifest: str = "train.tsv"
) -> list[Row]:
    """Write the shards NAME-000.tar, … and the manifest, and set `shard` of the rows. Files are never incomplete."""
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Row] = []
    waiting = iter(recordings)
    following = next(waiting, None)
    number = 0
    while following is not None:
        shard = f"{name}-{number:03d}.tar"
        with replacing(folder / shard, "wb") as stream, tarfile.open(fileobj=stream, mode="w") as archive:
            while following is not None and stream.tell() < SHARD_BYTES:
                row, content = following
                entry = tarfile.TarInfo(row.member)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
                written.append(replace(row, shard=shard))
                following = next(waiting, None)
        number += 1
    with replacing(folder / manifest, "w") as table:
        for values in (COLUMNS, *map(astuple, written)):
            table.write("\t".join(map(str, values)) + "\n")
    while (left_over := folder / f"{name}-{number:03d}.tar").exists():  # an earlier run wrote more
        left_over.unlink()
        number += 1
    return written


# Prepares the given speech, noise and rooms: checks and decodes them, and removes from train what is in dev.


def prepare(speech: Path, work: Path, processes: int, tell: Callable[[str], None]) -> None:
    """Write all four prepared sets to `work`, and report one line about each."""
    dev = read_manifest(speech / "dev.tsv")
    train = read_manifest(speech / "train.tsv")
    kept = without(train, dev)
    left_out = f"{len(train) - len(kept)} left out because dev holds them"
    tell(f"train: {counted(len(train), 'row')}, {left_out}; dev: {counted(len(dev), 'row')}")
    with Workers(processes) as workers:
        for name, rows in (("dev", dev), ("train", kept)):
            tell(amount(name, write_corpus(work, name, decoded(workers, speech, rows))))
        for name in ("noise", "rooms"):
            tell(amount(name, write_corpus(work, name, unlabelled(speech / f"{name}.tar"))))


def without(train: list[Row], dev: list[Row]) -> list[Row]:
    """Return the rows of train that are not also in dev, neither as a recording nor as a text of the same speaker."""
    members = {(row.corpus, row.member) for row in dev}
    spoken = {(row.corpus, row.speaker, row.text) for row in dev}
    return [
        row
        for row in train
        if (row.corpus, row.member) not in members and (row.corpus, row.speaker, row.text) not in spoken
    ]


def amount(name: str, utterances: list[Utterance]) -> str:
    """Return a line with the size of a set."""
    hours = sum(utterance.seconds for utterance in utterances) / 3600
    return f"{name}: {counted(len(utterances), 'recording')}, {hours:.2f} h"


@contextmanager
def replacing(path: Path, mode: str) -> Iterator[IO[Any]]:
    """Open a temporary file. It replaces `path` when everything is written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open(mode) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if not (path.is_file() and filecmp.cmp(partial, path, shallow=False)):
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
