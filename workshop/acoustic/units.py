"""The units of the CTC heads, and how texts and pronunciations become numbers of units."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from workshop.data.alignment import Alignment
from workshop.language.pronunciation import PHONES

BLANK = 0
BOUNDARY = "|"
CHARACTERS = ["<blank>", " ", "'", *"abcdefghijklmnopqrstuvwxyz"]
PHONE_UNITS = ["<blank>", BOUNDARY, *PHONES]

_CHARACTER = {unit: number for number, unit in enumerate(CHARACTERS)}
PHONE_NUMBER = {unit: number for number, unit in enumerate(PHONE_UNITS)}


def characters(text: str) -> list[int]:
    """Return the units of a text in lower case."""
    return [_CHARACTER[letter] for letter in text]


def phones(alignment: Alignment) -> list[int]:
    """Return the phones of an utterance as units, with a boundary after every word."""
    units: list[int] = []
    for _, word in groupby(alignment.phones, key=lambda phone: phone[3]):
        units += [PHONE_NUMBER[phone[0]] for phone in word]
        units.append(PHONE_NUMBER[BOUNDARY])
    return units


def collapse(best: Iterable[int]) -> list[int]:
    """Return the units that a path through a CTC head stands for: repetitions are merged, and blanks dropped."""
    return [unit for unit, _ in groupby(best) if unit != BLANK]


def errors(reference: Sequence[object], hypothesis: Sequence[object]) -> int:
    """Return the smallest number of insertions, deletions and substitutions that turn one sequence into the other."""
    row = list(range(len(hypothesis) + 1))
    for number, expected in enumerate(reference, start=1):
        diagonal, row[0] = row[0], number
        for index, actual in enumerate(hypothesis, start=1):
            diagonal, row[index] = (
                row[index],
                min(row[index] + 1, row[index - 1] + 1, diagonal + (expected != actual)),
            )
    return row[-1]
