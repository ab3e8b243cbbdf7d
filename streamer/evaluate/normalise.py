"""What counts as the same word, for references and hypotheses alike. docs/evaluation.md says it for people. Pure."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# What is typed or printed where an apostrophe is meant.
_APOSTROPHES: Final = str.maketrans(dict.fromkeys("\u2018\u2019\u02bc\u00b4\u0060\uff07", "'"))
# Letters and digits of any script, and apostrophes; everything else parts words.
_WORD: Final = re.compile(r"[\w']+")
_UNDERSCORE: Final = "_"


def normalise(text: str) -> list[str]:
    """The words of a text: lower case, apostrophes kept, other punctuation a space, digits left as they are."""
    # Not after NFKC: that takes a lone accent apart into a space and a mark.
    text = unicodedata.normalize("NFKC", text.translate(_APOSTROPHES)).lower().replace(_UNDERSCORE, " ")
    return [word for found in _WORD.findall(text) if (word := _unquoted(found))]


def _unquoted(word: str) -> str:
    """Without apostrophes that quote the word or stand alone; those of 'tis and dogs' belong to the word."""
    if word.startswith("'") and word.endswith("'"):
        return word.strip("'")
    return word
