"""Finds the times of every word and phone of prepared speech by PocketSphinx's forced alignment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pocketsphinx  # type: ignore[import-untyped]

from streamer.training.data.alignment import Alignment, alignment_path, write_resumed
from streamer.training.data.corpus import Corpus, Utterance
from streamer.training.language.pronunciation import PHONES, Phones, Pronunciations
from streamer.training.workers import Workers

FRAME_MS = 10
CHUNK = 16


def align(work: Path, name: str, processes: int, tell: Callable[[str], None]) -> None:
    """Align one prepared set, and report progress. Aligns only what was not aligned before."""
    corpus, target = Corpus(work, name), alignment_path(work, name)

    def find(done: set[str]) -> Iterator[Alignment]:
        waiting = [utterance for utterance in corpus.utterances if utterance.name not in done]
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
