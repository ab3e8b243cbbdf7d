"""What the punctuation model reads and says: words with pauses, the mark after each word, and its capitals. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

# In names, the letter after these is a capital too: O'Brien, McCarthy.
_INNER_CAPITAL = re.compile(r"^(o'|mc)(?=[a-z]{3})")


class Mark(Enum):
    """What is written directly after a word."""

    NONE = ""
    COMMA = ","
    FULL_STOP = "."
    QUESTION = "?"

    @property
    def ends_sentence(self) -> bool:
        """Whether the next word begins a sentence."""
        return self in (Mark.FULL_STOP, Mark.QUESTION)


class Case(Enum):
    """How a word is written within a sentence. The first word of a sentence has a capital in any case."""

    LOWER = "lower"
    FIRST = "first"
    ALL = "all"

    def written(self, word: str, begins: bool = False) -> str:
        """The word, given in lower case, with its capitals. `begins`: it is the first word of a sentence."""
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

    `pause_ms` is None if it is unknown. For the last word of a window, None means that more may follow. A number means
    that the segment ended there, with at least so much silence.
    """

    word: str
    pause_ms: int | None = None


@dataclass(frozen=True)
class MarkedWord:
    """The mark after a word, and its capitals within a sentence.

    A word whose predecessor has a mark that ends a sentence begins the next one, which `case` does not say. So a
    capital and the mark before it always agree, although they were decided at different times.
    """

    mark: Mark
    case: Case


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
