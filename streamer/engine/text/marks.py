"""The input and output of the punctuation model: words with pauses, and the mark and the capitals of each word."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

# In names, the letter after these beginnings is also a capital: O'Brien, McCarthy.
_INNER_CAPITAL = re.compile(r"^(o'|mc)(?=[a-z]{3})")


class Mark(Enum):
    """A mark directly after a word."""

    NONE = ""
    COMMA = ","
    FULL_STOP = "."
    QUESTION = "?"

    @property
    def ends_sentence(self) -> bool:
        """Whether the next word begins a sentence."""
        return self in (Mark.FULL_STOP, Mark.QUESTION)


class Case(Enum):
    """The capitals of a word within a sentence. The first word of a sentence always has a capital."""

    LOWER = "lower"
    FIRST = "first"
    ALL = "all"

    def written(self, word: str, begins: bool = False) -> str:
        """Return a word in lower case with its capitals. `begins`: it is the first word of a sentence."""
        if self is Case.ALL:
            stem = word.removesuffix("'s")
            return stem.upper() + word[len(stem) :]
        if self is Case.FIRST:
            inner = _INNER_CAPITAL.match(word)
            start = inner[1] if inner else ""
            return _capital(start) + _capital(word[len(start) :])
        return _capital(word) if begins else word


@dataclass(frozen=True)
class HeardWord:
    """A word as it was recognised, in lower case, and the silence from its end to the start of the next word.

    `pause_ms` is None if it is not known. For the last word of a window, None means that more words may follow, and a
    number means that the segment ended there, with at least this much silence.
    """

    word: str
    pause_ms: int | None = None


@dataclass(frozen=True)
class MarkedWord:
    """The mark after a word, and its capitals within a sentence.

    `case` does not depend on the mark before the word. A word after a mark that ends a sentence gets its capital from
    that mark, so both always agree, although they are decided at different times.
    """

    mark: Mark
    case: Case

    @classmethod
    def plain(cls) -> MarkedWord:
        """Return what a word without a mark and in lower case has."""
        return cls(Mark.NONE, Case.LOWER)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
