"""The name that somebody probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

QUOTED: Final = "'{}'"
# Two letters in the wrong order are like it in a word of four: `prot` is `port`, but `port` is not `format`.
LIKENESS: Final = 0.75
# Of three letters one may be another: `mik` is `mic`.
SHORT: Final = 3
SHORT_LIKENESS: Final = 0.6


def did_you_mean(name: str, names: Iterable[str], form: str = "{}") -> str:
    """The end of a sentence about a name that does not exist: "; did you mean port?". Empty if none is like it."""
    known = list(names)
    # Only now: it takes longer to import than all else that a mistake needs.
    from difflib import get_close_matches

    longer = [each for each in known if each.startswith(name)]
    likely = longer if len(longer) == 1 else get_close_matches(name, known, n=1, cutoff=LIKENESS)
    if not likely and len(name) == SHORT:
        likely = get_close_matches(name, (each for each in known if len(each) == SHORT), n=1, cutoff=SHORT_LIKENESS)
    return f"; did you mean {form.format(likely[0])}?" if likely else ""
