"""The rows of a word in the table of word vectors: a row for the word itself, and rows for its beginning and its end.

A word outside the vocabulary has only the rows for beginning and end. A checksum chooses these rows, so several
beginnings may share a row.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

AFFIXES = 3
"""The number of rows for the beginning and the end of every word."""


class WordRows:
    """The rows of each word. Row 0 means no word. An unknown word has it in place of a row of its own."""

    def __init__(self, words: Sequence[str], affix_rows: int) -> None:
        self._own = {word: number for number, word in enumerate(words, start=1)}
        self._first_affix = len(words) + 1
        self._affix_rows = affix_rows

    def __len__(self) -> int:
        return self._first_affix + self._affix_rows

    def of(self, word: str) -> tuple[int, ...]:
        """Return the numbers of the rows of a word: first its own row, then AFFIXES others."""
        affixes = (f"{word[:3]}-", f"-{word[-2:]}", f"-{word[-4:]}+")
        return self._own.get(word, 0), *map(self._affix_row, affixes)

    def _affix_row(self, affix: str) -> int:
        return self._first_affix + zlib.crc32(affix.encode()) % self._affix_rows
