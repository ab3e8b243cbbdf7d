"""Normalises text before words are compared, the same for references and hypotheses.

Pure. docs/how-to/evaluation.md says what counts as the same word.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from streamer.text.joining import words_of

# Characters that are used for an apostrophe.
_APOSTROPHES: Final = str.maketrans(dict.fromkeys("\u2018\u2019\u02bc\u00b4\u0060\uff07", "'"))
# Letters and digits of any script, and apostrophes. Everything else separates words.
_WORD: Final = re.compile(r"[\w']+")
_UNDERSCORE: Final = "_"


def normalise(text: str) -> list[str]:
    """Return the words of a text: lower case, apostrophes kept, other punctuation a space, digits left as they are.

    In scripts without spaces, each character is a word.
    """
    # Apostrophes first: NFKC would split a lone accent into a space and a mark.
    text = unicodedata.normalize("NFKC", text.translate(_APOSTROPHES)).lower().replace(_UNDERSCORE, " ")
    runs = (word for run in _WORD.findall(text) for word in words_of(run))
    return [word for raw in runs if (word := _unquote(raw))]


def _unquote(word: str) -> str:
    """Return the word without apostrophes that quote it or stand alone. Those of 'tis and dogs' belong to the word."""
    if word.startswith("'") and word.endswith("'"):
        return word.strip("'")
    return word
