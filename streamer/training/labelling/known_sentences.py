"""Finds the sentences that may have been read aloud: those nearest to the recognised words."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamer.training.data.corpus import CorpusError
from streamer.training.language.spoken_text import UNKNOWN, sentences

# A word or pair that is in more sentences than this does not help to find the one that was read, and would cost time.
MOST_SENTENCES = 20_000
# Shorter sentences would match by chance. Longer ones are not given to people to read.
FEWEST_WORDS, MOST_WORDS = 3, 20


def read_sentences(paths: Iterable[Path], avoided: Collection[str] = ()) -> Iterator[str]:
    """Read the sentences of text files, in lower case and as they are spoken, without those to be avoided."""
    for path in paths:
        if not path.is_file():
            raise CorpusError(f"{path} is missing: give a text file of sentences")
        with path.open(encoding="utf-8", errors="replace") as stream:
            for line in stream:
                for words in sentences(line):
                    sentence = " ".join(words)
                    if FEWEST_WORDS <= len(words) <= MOST_WORDS and UNKNOWN not in words and sentence not in avoided:
                        yield sentence


class KnownSentences:
    """An index from words, and from pairs of neighbouring words, to the sentences that have them. Rare ones count most.

    The pairs find a sentence whose words are all frequent. Of two equal matches, the shorter sentence is nearer.
    """

    def __init__(self, sentences: Iterable[str], most_sentences: int = MOST_SENTENCES) -> None:
        self._sentences = list(dict.fromkeys(sentences))
        self._numbers: dict[str, int] = {}
        self._most = most_sentences
        numbers, lengths = array("i"), array("i")
        for sentence in self._sentences:
            words = sentence.split()
            lengths.append(len(words))
            numbers.extend(self._numbers.setdefault(word, len(self._numbers)) for word in words)
        words_said = np.array(numbers, dtype=np.int64)
        said_in = np.repeat(np.arange(len(lengths), dtype=np.int32), np.array(lengths, dtype=np.int64))
        neighbours = np.flatnonzero(said_in[1:] == said_in[:-1])
        pairs_said = words_said[neighbours] * len(self._numbers) + words_said[neighbours + 1]
        self._words = _Postings(words_said, said_in, len(lengths))
        self._pairs = _Postings(pairs_said, said_in[neighbours], len(lengths))
        # A long sentence has more words that may match by chance, so the total weight of each sentence is needed.
        self._sizes = np.sqrt(self._words.totals + self._pairs.totals + 1e-9)
        self._scores = np.zeros(len(lengths))  # all zero between two calls

    def __len__(self) -> int:
        return len(self._sentences)

    def nearest(self, words: Sequence[str], number: int) -> list[str]:
        """Return up to this many sentences that share words with the recognised ones, the nearest first."""
        numbers = [self._numbers.get(word, -1) for word in words]
        pairs = [one * len(self._numbers) + other for one, other in pairwise(numbers) if min(one, other) >= 0]
        matches = [
            (matching, weight)
            for postings, keys in ((self._words, numbers), (self._pairs, pairs))
            for matching, weight in map(postings.find, dict.fromkeys(keys))
            if 0 < len(matching) <= self._most
        ]
        if not matches:
            return []
        for matching, weight in matches:
            self._scores[matching] += weight
        candidates = np.concatenate([matching for matching, _ in matches])
        scores = self._scores[candidates] / self._sizes[candidates]
        self._scores[candidates] = 0
        # Every candidate is there at most once for each word and pair.
        best = np.argsort(-scores, kind="stable")[: number * len(matches)]
        return [self._sentences[candidate] for candidate in dict.fromkeys(candidates[best].tolist())][:number]


class _Postings:
    """An index from keys to the numbers of the sentences that have them."""

    def __init__(self, keys: npt.NDArray[np.int64], said_in: npt.NDArray[np.int32], sentences: int) -> None:
        order = np.argsort(keys, kind="stable")
        keys, said_in = keys[order], said_in[order]
        first = np.ones(len(keys), dtype=bool)  # of a key in a sentence, which may have it several times
        first[1:] = (keys[1:] != keys[:-1]) | (said_in[1:] != said_in[:-1])
        keys, self._said_in = keys[first], said_in[first]
        self._keys, starts, occurrences = np.unique(keys, return_index=True, return_counts=True)
        self._ends = np.append(starts, len(keys))
        self._weights = np.log((sentences + 1) / occurrences) ** 2
        self.totals = np.bincount(self._said_in, np.repeat(self._weights, occurrences), minlength=sentences)

    def find(self, key: int) -> tuple[npt.NDArray[np.int32], float]:
        """Return the sentences that have a key, and the key's weight."""
        place = int(np.searchsorted(self._keys, key))
        if place == len(self._keys) or self._keys[place] != key:
            return self._said_in[:0], 0.0
        return self._said_in[self._ends[place] : self._ends[place + 1]], float(self._weights[place])
