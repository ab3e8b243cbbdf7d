"""Which rows of the table of word vectors belong to a word: its own, and those of how it begins and ends. Pure.

A word outside the vocabulary has only the latter. They are found by a checksum, and several beginnings may share a row.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

AFFIXES = 3
"""The number of rows that every word has besides its own."""


class WordRows:
    """The rows of each word. Row 0 stands for no word, and takes the place of the own row of an unknown one."""

    def __init__(self, words: Sequence[str], affix_rows: int) -> None:
        self._own = {word: number for number, word in enumerate(words, start=1)}
        self._first_affix = len(words) + 1
        self._affix_rows = affix_rows

    def __len__(self) -> int:
        return self._first_affix + self._affix_rows

    def of(self, word: str) -> tuple[int, ...]:
        """The numbers of its rows: its own one first, then AFFIXES others."""
        affixes = (f"{word[:3]}-", f"-{word[-2:]}", f"-{word[-4:]}+")
        return self._own.get(word, 0), *map(self._affix_row, affixes)

    def _affix_row(self, affix: str) -> int:
        return self._first_affix + zlib.crc32(affix.encode()) % self._affix_rows
