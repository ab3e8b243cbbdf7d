"""What a text tells about each word by counting: its usual capitals, and how often each mark stands beside it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from streamer.engine.punctuation.marks import Case, Mark
from streamer.training.punctuation.labelled_text import LabelledText

Floats = npt.NDArray[np.float32]

_FEWEST = 3  # a rarer word has no habits
_PRIOR = 2.0  # as many times has every word been seen as words are on average
_SCALE = 0.25  # of the log of the ratio to the average


class WordHabits:
    """Counts of all texts."""

    def __init__(self, texts: Iterable[LabelledText], words: int) -> None:
        self.counts = np.zeros(words, dtype=np.int64)
        columns: list[npt.NDArray[np.int64]] = []
        for text in texts:
            self.counts += np.bincount(text.words, minlength=words)
            before = np.roll(text.marks, 1)
            seen = [text.marks == number for number in range(1, len(Mark))]
            seen += [before == number for number in range(1, len(Mark))]
            seen += [text.cases == number for number in range(1, len(Case))]
            found = [np.bincount(text.words[places], minlength=words) for places in seen]
            columns = [old + new for old, new in zip(columns, found, strict=True)] if columns else found
        self._seen = np.stack(columns, axis=1)

    def vocabulary(self, words: Sequence[str], allowed: Collection[str], most: int) -> list[int]:
        """The numbers of the most frequent words among those that the recogniser can write."""
        order = np.argsort(-self.counts, kind="stable").tolist()
        return [number for number in order if self.counts[number] >= _FEWEST and words[number] in allowed][:most]

    def of(self, words: Sequence[int]) -> Floats:
        """The habits of these words [words, habits]: how much more or less often than on average, as logarithms."""
        average = self._seen.sum(axis=0) / max(self.counts.sum(), 1) + 1e-6
        shares = (self._seen[words] + _PRIOR * average) / (self.counts[words][:, None] + _PRIOR)
        found: Floats = (_SCALE * np.log(shares / average)).astype(np.float32)
        return found
