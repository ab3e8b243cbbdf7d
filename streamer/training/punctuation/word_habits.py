"""Counts the habits of each word in a text: its usual capitals, and how often each mark stands beside it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from streamer.engine.punctuation.marks import Case, Mark
from streamer.training.punctuation.labelled_text import LabelledText

Floats = npt.NDArray[np.float32]

_FEWEST = 3  # a rarer word has no habits
_PRIOR = 2.0  # average words that are added to the counts of each word
_SCALE = 0.25  # the factor of the logarithms


class WordHabits:
    """Counts of words, and of the marks and capitals beside them, in all texts."""

    def __init__(self, texts: Iterable[LabelledText], words: int) -> None:
        self.counts = np.zeros(words, dtype=np.int64)
        columns: list[npt.NDArray[np.int64]] = []
        for text in texts:
            self.counts += np.bincount(text.words, minlength=words)
            before = np.roll(text.marks, 1)
            conditions = [text.marks == number for number in range(1, len(Mark))]
            conditions += [before == number for number in range(1, len(Mark))]
            conditions += [text.cases == number for number in range(1, len(Case))]
            counts = [np.bincount(text.words[places], minlength=words) for places in conditions]
            columns = [old + new for old, new in zip(columns, counts, strict=True)] if columns else counts
        self._seen = np.stack(columns, axis=1)

    def vocabulary(self, words: Sequence[str], allowed: Collection[str], most: int) -> list[int]:
        """Return the numbers of the most frequent words among the allowed ones."""
        order = np.argsort(-self.counts, kind="stable").tolist()
        return [number for number in order if self.counts[number] >= _FEWEST and words[number] in allowed][:most]

    def of(self, words: Sequence[int]) -> Floats:
        """Return the habits of these words [words, habits]: logarithms of how often, relative to the average word."""
        average = self._seen.sum(axis=0) / max(self.counts.sum(), 1) + 1e-6
        shares = (self._seen[words] + _PRIOR * average) / (self.counts[words][:, None] + _PRIOR)
        habits: Floats = (_SCALE * np.log(shares / average)).astype(np.float32)
        return habits
