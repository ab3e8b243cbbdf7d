"""The times of the words and phones of the prepared speech: finds them with PocketSphinx, and reads them.

There are two kinds. `NAME.phones.jsonl` has times from an independent tool, and serves to evaluate times.
`NAME.heard.jsonl` has the pronunciations that our own model hears, with rough times. It is better for training.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import pocketsphinx  # type: ignore[import-untyped]

from workshop.data.corpus import Corpus, CorpusError, Utterance
from workshop.language.pronunciation import PHONES, Phones, Pronunciations
from workshop.processes import Workers


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


# Finds the times of every word and phone of prepared speech by PocketSphinx's forced alignment.

FRAME_MS = 10
CHUNK = 16


def align(work: Path, name: str, processes: int, tell: Callable[[str], None], hours: float | None = None) -> None:
    """Align one prepared set, and report progress. Aligns only what was not aligned before.

    `hours`: only so much of it, always the same utterances.
    """
    corpus, target = Corpus(work, name), alignment_path(work, name)

    def find(done: set[str]) -> Iterator[Alignment]:
        waiting = [utterance for utterance in _share(corpus, hours) if utterance.name not in done]
        tell(f"{name}: {len(done)} aligned before, {len(waiting)} to do")
        aligned = 0
        with Workers(processes, _open, work, name) as workers:
            for number, alignment in enumerate(workers.map(_align, waiting, chunk=CHUNK), start=1):
                aligned += alignment.aligned
                yield alignment
                if number % 1000 == 0:
                    tell(f"{name}: {number} of {len(waiting)}, {number - aligned} not aligned")
        tell(f"{name}: {aligned} of {len(waiting)} aligned")

    write_resumed(target, find)


def _share(corpus: Corpus, hours: float | None) -> list[Utterance]:
    """Return utterances that take so many hours, spread over the whole set; all of them if there are not more."""
    if hours is None:
        return list(corpus.utterances)
    drawn = random.Random(0).sample(corpus.utterances, len(corpus.utterances))
    ends = accumulate(utterance.seconds for utterance in drawn)
    return [utterance for utterance, end in zip(drawn, ends, strict=True) if end <= 3600 * hours]


class Aligner:
    """Aligns with PocketSphinx. Words that its dictionary lacks are added to it."""

    def __init__(self) -> None:
        # The second pass fails if the best path through the lattice gives a phone less time than its states need.
        self._decoder = pocketsphinx.Decoder(lm=None, bestpath=False, loglevel="FATAL")
        self._pronunciations = Pronunciations.load()
        self._phones_by_word: dict[str, Phones] = {}

    def align(self, utterance: Utterance, audio: bytes) -> Alignment:
        """Return the times of the words and phones of one utterance."""
        words = utterance.text.split()
        phones = [self._pronounced(word) for word in words]
        for word, word_phones in zip(words, phones, strict=True):
            if word_phones and self._decoder.lookup_word(word) is None:
                self._decoder.add_word(word, " ".join(word_phones))
        try:
            times = self._times(utterance.text, audio)
        except RuntimeError:  # the aligner raises this if the text does not fit the audio
            times = None
        if times is None or [word for word, _, _ in times[0]] != words:
            unplaced = [(phone, 0, 0, number) for number, word_phones in enumerate(phones) for phone in word_phones]
            return Alignment(utterance.name, False, 0.0, [(word, 0, 0) for word in words], unplaced)
        return Alignment(utterance.name, True, times[2], times[0], times[1])

    def _times(self, text: str, audio: bytes) -> tuple[list[Any], list[Any], float] | None:
        decoder = self._decoder
        decoder.set_align_text(text)
        self._decode(audio)
        if decoder.hyp() is None:
            return None
        decoder.set_alignment()
        self._decode(audio)
        words: list[Any] = []
        phones: list[Any] = []
        score = frames = 0
        for word in decoder.get_alignment():
            if word.name.startswith(("<", "+", "[")):
                continue
            for phone in word:
                if phone.name in PHONES:
                    phones.append((phone.name, phone.start * FRAME_MS, phone.duration * FRAME_MS, len(words)))
                    score += phone.score
                    frames += phone.duration
            words.append((word.name.split("(")[0], word.start * FRAME_MS, word.duration * FRAME_MS))
        return words, phones, score / max(frames, 1)

    def _decode(self, audio: bytes) -> None:
        self._decoder.start_utt()
        self._decoder.process_raw(audio, full_utt=True)
        self._decoder.end_utt()

    def _pronounced(self, word: str) -> Phones:
        """Return the aligner's own pronunciation of a word if it has one, or else the first one that we know."""
        if word not in self._phones_by_word:
            entry = self._decoder.lookup_word(word)
            own = tuple(phone for phone in (entry or "").split() if phone in PHONES)
            self._phones_by_word[word] = own or next(iter(self._pronunciations.variants(word)), ())
        return self._phones_by_word[word]


_worker: tuple[Corpus, Aligner]


def _open(work: Path, name: str) -> None:
    global _worker
    _worker = Corpus(work, name), Aligner()


def _align(utterance: Utterance) -> Alignment:
    corpus, aligner = _worker
    return aligner.align(utterance, corpus.samples(utterance).tobytes())
