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
        self._bytes = text.data
        self._starts, self._hashes, self._order = (arrays[name].data for name in ("starts", "hashes", "order"))
        self._numbers = range(len(self._order))

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
            return [self[each] for each in self._numbers[number]]
        place = self._numbers[number]
        return str(self._bytes[self._starts[place] : self._starts[place + 1] - 1], "utf-8")

    def __iter__(self) -> Iterator[str]:
        return iter(bytes(self._bytes).decode().split(_BETWEEN))

    def number_of(self, word: str) -> int | None:
        """Return the number of a word; None if it is not in the list."""
        wanted = _hash(word.encode())
        for place in range(bisect_left(self._hashes, wanted), len(self)):
            if self._hashes[place] != wanted:
                break
            if self[self._order[place]] == word:
                return self._order[place]
        return None

    @property
    def fingerprint(self) -> str:
        """A checksum of the words and their numbers."""
        return hashlib.sha256(self._bytes).hexdigest()


def _places(text: NDArray[np.uint8]) -> Arrays:
    """Return where each word starts, as if another one came after the last, and the hashes of the words in order."""
    starts = np.concatenate(([0], np.flatnonzero(text == ord(_BETWEEN)) + 1, [len(text) + 1]))
    hashes = np.array([_hash(word) for word in bytes(text).split(_BETWEEN.encode())], np.int64)
    order = hashes.argsort(kind="stable")
    return {"starts": starts.astype(np.int32), "hashes": hashes[order], "order": order.astype(np.int32)}


def _hash(word: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(word, digest_size=8).digest(), "little", signed=True)
