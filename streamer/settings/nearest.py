"""Finds the name that a user probably meant, and writes it at the end of a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

QUOTED: Final = "'{}'"
# With this value, two swapped letters in a word of four are still similar: `prot` finds `port`, not `format`.
LIKENESS: Final = 0.75
# In a word of three letters, one may be wrong: `mik` finds `mic`.
SHORT: Final = 3
SHORT_LIKENESS: Final = 0.6
# The largest number of names that are suggested.
MOST: Final = 3


def as_sentence(message: object) -> str:
    """Return the message with a full stop at its end, unless it ends with a suggestion, which is a question."""
    text = str(message)
    return text if text.endswith((".", "?")) else f"{text}."


def did_you_mean_one_of(name: str, names: Iterable[str]) -> str:
    """Write the end of a sentence about an unknown name such as `zipformer-en`: names with all its parts."""
    candidates = list(names)
    parts = set(name.lower().split("-"))
    whole = [each for each in candidates if parts <= set(each.lower().split("-"))][:MOST]
    return f"; did you mean {' or '.join(whole)}?" if whole else did_you_mean(name, candidates)


def did_you_mean(name: str, names: Iterable[str], form: str = "{}") -> str:
    """Write the end of a sentence about an unknown name: "; did you mean port?". Empty if no name is similar."""
    candidates = list(names)
    # Imported only when it is needed, because the import is slow.
    from difflib import get_close_matches

    longer = [each for each in candidates if each.startswith(name)]
    similar = longer if len(longer) == 1 else get_close_matches(name, candidates, n=1, cutoff=LIKENESS)
    if not similar and len(name) == SHORT:
        short = [each for each in candidates if len(each) == SHORT]
        similar = get_close_matches(name, short, n=1, cutoff=SHORT_LIKENESS)
    return f"; did you mean {form.format(similar[0])}?" if similar else ""
