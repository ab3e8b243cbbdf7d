"""The words of a language model.

They stay in the bytes of its file, which all processes share: as texts, they would take much more memory in each.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from streamer.engine.array_memory import Arrays
from streamer.engine.file_cache import cached_arrays, fingerprint

_BETWEEN = "\n"


class WordList(Sequence[str]):
    """Words by number. A word has no line break."""

    def __init__(self, text: NDArray[np.uint8]) -> None:
        """`text`: the words in UTF-8, with a line break between two."""
        self.text = text
        key = fingerprint(text)
        arrays = cached_arrays("words", key, text.nbytes, lambda: _places(text)).arrays
        # Python reads single numbers from views faster than from arrays.
        self._bytes, self._starts, self._order = text.data, arrays["starts"].data, arrays["order"].data

    @classmethod
    def of(cls, words: Sequence[str]) -> WordList:
        """Return the list of these words."""
        return cls(np.frombuffer(_BETWEEN.join(words).encode(), np.uint8))

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, number: int) -> str: ...

    @overload
    def __getitem__(self, number: slice) -> list[str]: ...

    def __getitem__(self, number: int | slice) -> str | list[str]:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        if not -len(self) <= number < len(self):
            raise IndexError(f"there is no word with the number {number}")
        place = number % len(self)
        return str(self._bytes[self._starts[place] : self._starts[place + 1] - 1], "utf-8")

    def __iter__(self) -> Iterator[str]:
        return iter(bytes(self._bytes).decode().split(_BETWEEN))

    def number_of(self, word: str) -> int | None:
        """Return the number of a word; None if it is not in the list."""
        place = bisect_left(self._order, word, key=self.__getitem__)
        found = place < len(self) and self[self._order[place]] == word
        return self._order[place] if found else None

    @property
    def fingerprint(self) -> str:
        """A checksum of the words and their numbers."""
        return hashlib.sha256(self._bytes).hexdigest()


def _places(text: NDArray[np.uint8]) -> Arrays:
    """Return where each word starts, as if another one came after the last, and the words in the order of texts."""
    words = bytes(text).decode().split(_BETWEEN)
    starts = np.concatenate(([0], np.flatnonzero(text == ord(_BETWEEN)) + 1, [len(text) + 1]))
    order = sorted(range(len(words)), key=words.__getitem__)
    return {"starts": starts.astype(np.int32), "order": np.array(order, np.int32)}
