"""Reads, checks and decodes the given speech: manifests, and tar files (shards) with the recordings."""

from __future__ import annotations

import csv
import io
import re
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile  # type: ignore[import-untyped]
import soxr  # type: ignore[import-untyped]

from streamer.text.counts import counted
from streamer.training.data.corpus import SAMPLE_RATE, CorpusError, Samples, Utterance
from streamer.training.workers import Workers

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
