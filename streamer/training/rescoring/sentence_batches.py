"""Draws batches of sentences for the neural language model from all sources, by the share of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from streamer.training.data.corpus import CorpusError
from streamer.training.language.ngram_counts import END_ID, UNKNOWN_ID
from streamer.training.language.text_sources import SENTENCE_END, Ids

# These are near the weights of the n-gram mixture. Small sources have less, so that they are not learnt by heart.
SHARES = {
    "books": 0.2,
    "fiction": 0.12,
    "examples": 0.11,
    "novels": 0.05,
    "transcripts": 0.03,
    "prompts": 0.05,
    "readings": 0.05,
    "dictated": 0.02,
}
EVERYTHING_SHARE = 0.5  # the share of all text, in which each source counts by its length
LARGEST = 14_000_000  # the most words of a source that count there, so that no source crowds out all others
LONGEST = 40  # words of a sentence that are read
BATCH_WORDS = 2048
POOLED_BATCHES = 300  # batches that are drawn at a time, so that there are enough sentences of each length


@dataclass
class _Source:
    """The sentences of one source in random order, again and again."""

    ids: Ids
    starts: Ids
    ends: Ids
    order: Ids
    drawn: int = 0

    @classmethod
    def split(cls, ids: Ids) -> _Source:
        ends = np.flatnonzero(ids == END_ID).astype(np.int32)
        starts = np.concatenate([[0], ends[:-1] + 1]).astype(np.int32)
        filled = ends > starts
        return cls(ids, starts[filled], ends[filled], np.zeros(0, np.int32))

    def draw(self, dice: np.random.Generator) -> Ids:
        if self.drawn == len(self.order):
            self.order, self.drawn = dice.permutation(len(self.ends)).astype(np.int32), 0
        number = self.order[self.drawn]
        self.drawn += 1
        return self.ids[self.starts[number] : self.ends[number] + 1][:LONGEST]


class SentenceBatches:
    """Endless batches [sentences, words]. Sentences of a batch have the same length, so they need no padding."""

    def __init__(self, sources: Mapping[str, Ids], words: int, seed: int, batch_words: int = BATCH_WORDS) -> None:
        """`sources` are in the numbers of the n-gram model; those from `words` on become the unknown word."""
        self._batch_words = batch_words
        self._dice = np.random.default_rng(seed)
        lengths = {name: int(np.count_nonzero(ids != END_ID)) for name, ids in sources.items()}
        counted = {name: min(length, LARGEST) for name, length in lengths.items() if length}
        if not counted:
            raise CorpusError("there is no text to learn from")
        total = sum(counted.values())
        self.shares = {
            name: EVERYTHING_SHARE * length / total + SHARES.get(name, 0.0) for name, length in counted.items()
        }
        self._sources = {
            name: _Source.split(np.where(sources[name] < words, sources[name], UNKNOWN_ID).astype(np.int32))
            for name in self.shares
        }
        self._waiting: dict[int, list[Ids]] = {}

    def chances(self, words: int) -> Tensor:
        """Return how likely each word is in these batches, the ends of sentences included."""
        total = sum(self.shares.values())
        chances = np.zeros(words)
        for name, share in self.shares.items():
            ids = self._sources[name].ids
            chances += share / total * np.bincount(ids, minlength=words) / len(ids)
        return torch.from_numpy(chances)

    def __iter__(self) -> Iterator[Tensor]:
        while True:
            self._fill()
            batches = []
            for length, waiting in self._waiting.items():
                size = max(self._batch_words // length, 1)
                self._dice.shuffle(waiting)
                while len(waiting) >= size:
                    batches.append(np.stack(waiting[-size:]))
                    del waiting[-size:]
            for number in self._dice.permutation(len(batches)):
                yield torch.from_numpy(batches[number].astype(np.int64))

    def _fill(self) -> None:
        total = sum(self.shares.values())
        for name, share in self.shares.items():
            missing = POOLED_BATCHES * self._batch_words * share / total
            while missing > 0:
                sentence = self._sources[name].draw(self._dice)
                missing -= len(sentence)
                self._waiting.setdefault(len(sentence), []).append(sentence)


def renumbered(sources: Mapping[str, Ids], words: list[str], vocabulary: list[str]) -> dict[str, Ids]:
    """Turn texts in numbers of `words` into texts in numbers of `known`. An end mark follows each sentence."""
    numbers = {word: number for number, word in enumerate(vocabulary)}
    table = np.array([numbers.get(word, UNKNOWN_ID) for word in words] + [END_ID], dtype=np.int32)
    assert SENTENCE_END == -1  # reads the last number of the table
    return {name: table[ids] for name, ids in sources.items()}
