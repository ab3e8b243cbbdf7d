"""Finds the sentences that may have been read aloud: those nearest to the recognised words."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamer.training.data.corpus import CorpusError
from streamer.training.language.spoken_text import UNKNOWN, sentences

# A word that is in more sentences than this does not help to find the one that was read, and would cost time.
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
    """An index from words to sentences. Rare words count most. Of two equal matches, the shorter sentence is nearer."""

    def __init__(self, sentences: Iterable[str], most_sentences: int = MOST_SENTENCES) -> None:
        self._sentences = list(dict.fromkeys(sentences))
        split = [sentence.split() for sentence in self._sentences]
        lengths = np.array([len(words) for words in split], dtype=np.int64)
        self._numbers: dict[str, int] = {}
        tokens = np.fromiter(
            (self._numbers.setdefault(word, len(self._numbers)) for word in chain.from_iterable(split)),
            dtype=np.int32,
            count=int(lengths.sum()),
        )
        of_sentence = np.repeat(np.arange(len(split), dtype=np.int32), lengths)
        occurrences = np.bincount(tokens, minlength=len(self._numbers))
        self._weights = np.log((len(split) + 1) / np.maximum(occurrences, 1))
        # A long sentence has more words that may match by chance, so the total weight of each sentence is needed.
        self._sizes = np.sqrt(np.bincount(of_sentence, self._weights[tokens] ** 2, minlength=len(split)) + 1e-9)
        order = np.argsort(tokens, kind="stable")
        self._postings = of_sentence[order]
        self._starts = np.concatenate([[0], np.cumsum(occurrences)])
        self._most = most_sentences

    def __len__(self) -> int:
        return len(self._sentences)

    def nearest(self, heard: Sequence[str], number: int) -> list[str]:
        """Return up to this many sentences that share words with the recognised ones, the nearest first."""
        found: list[npt.NDArray[np.int32]] = []
        weights: list[npt.NDArray[np.float64]] = []
        for word in dict.fromkeys(heard):
            known = self._numbers.get(word)
            if known is None or self._starts[known + 1] - self._starts[known] > self._most:
                continue
            sentences = np.unique(self._postings[self._starts[known] : self._starts[known + 1]])
            found.append(sentences)
            weights.append(np.full(len(sentences), self._weights[known] ** 2))
        if not found:
            return []
        candidates, places = np.unique(np.concatenate(found), return_inverse=True)
        scores = np.bincount(places, np.concatenate(weights)) / self._sizes[candidates]
        best = np.argsort(-scores, kind="stable")[:number]
        return [self._sentences[candidate] for candidate in candidates[best]]
