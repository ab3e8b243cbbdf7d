"""Finds where a reading differs from the words of the recogniser, and writes these words as the reader would.

A difference covers whole written words. So each side of it can be taken without the other, and the reader can say how
likely it finds the other one at this place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from streamer.engine.reader.reading_words import WrittenWord

_TAIL: Final = ".,!?;:\u2026"


@dataclass(frozen=True)
class OtherWords:
    """Words that would stand in the place of the written words from `first` on, and before `last`."""

    first: int
    last: int
    words: tuple[str, ...]


def other_words(written: Sequence[WrittenWord], words: Sequence[str]) -> list[OtherWords]:
    """Return how a reading becomes these words, in order. Figures that may be said like this are no difference."""
    line = [word.text for one in written for word in one.phrase[0]]
    owners = [place for place, one in enumerate(written) for _ in one.phrase[0]]
    bounds = [0, *accumulate(len(one.phrase[0]) for one in written)]  # where the words of each written word begin
    merged: list[tuple[int, int, int, int]] = []
    for block in _blocks(line, words):
        if merged and _last_owner(owners, merged[-1]) >= _first_owner(owners, block):
            block = (merged[-1][0], block[1], merged.pop()[2], block[3])
        merged.append(block)
    found = []
    for block in merged:
        first, last = _first_owner(owners, block), _last_owner(owners, block) + 1
        # The words of a written word that are the same belong to both sides.
        start = block[2] - (block[0] - bounds[first])
        end = block[3] + (bounds[last] - block[1])
        found.append(OtherWords(first, last, tuple(words[start:end])))
    return [one for one in found if not _may_be_said(written[one.first : one.last], one.words)]


def _first_owner(owners: Sequence[int], block: tuple[int, int, int, int]) -> int:
    """Return the first written word of which a block has a part, or before which it inserts words."""
    return owners[block[0]] if block[0] < len(owners) else (owners[-1] + 1 if owners else 0)


def _last_owner(owners: Sequence[int], block: tuple[int, int, int, int]) -> int:
    """Return the last written word of which a block has a part, or after which it inserts words."""
    return owners[block[1] - 1] if block[1] else -1


def _may_be_said(written: Sequence[WrittenWord], words: Sequence[str]) -> bool:
    """Return whether these words are a way to say what was written."""
    left = {0}
    for one in written:
        ways = [[word.text for word in way] for way in one.phrase]
        left = {at + len(way) for at in left for way in ways if list(words[at : at + len(way)]) == way}
    return len(words) in left


def as_written(other: OtherWords) -> str:
    """Return the other words as a reader would write them there, without a mark at the end."""
    text = " ".join(_with_capital(word) for word in other.words)
    return text[:1].upper() + text[1:] if other.first == 0 else text


def characters(written: Sequence[WrittenWord], other: OtherWords) -> tuple[int, int]:
    """Return the characters of a reading that the other words replace. The mark after them stays."""
    start = written[other.first].start if other.first < len(written) else _bare_end(written[-1]) if written else 0
    return start, start if other.first == other.last else _bare_end(written[other.last - 1])


def at_characters(written: Sequence[WrittenWord], start: int, end: int, words: tuple[str, ...]) -> OtherWords | None:
    """Return the other words for these characters; None if they are not those of whole written words."""
    first = sum(_bare_end(one) <= start for one in written)
    other = OtherWords(first, first if start == end else sum(one.start < end for one in written), words)
    return other if characters(written, other) == (start, end) else None


def _bare_end(written: WrittenWord) -> int:
    return written.end - len(written.text) + len(written.text.rstrip(_TAIL))


def _with_capital(word: str) -> str:
    return "I" + word[1:] if word == "i" or word.startswith("i'") else word


def _blocks(one: Sequence[str], other: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """Return the parts in which two texts differ, as places in both: the fewest words to insert, remove or replace."""
    rows = [list(range(len(other) + 1))]
    for place, word in enumerate(one, 1):
        before, row = rows[-1], [place]
        for column, other_word in enumerate(other, 1):
            row.append(min(before[column] + 1, row[-1] + 1, before[column - 1] + (word != other_word)))
        rows.append(row)
    blocks: list[tuple[int, int, int, int]] = []
    place, column, apart = len(one), len(other), True
    while place or column:
        first, start = place, column
        if (
            place
            and column
            and rows[place][column] == rows[place - 1][column - 1] + (one[place - 1] != other[column - 1])
        ):
            first, start = place - 1, column - 1
        elif place and rows[place][column] == rows[place - 1][column] + 1:
            first = place - 1
        else:
            start = column - 1
        same = one[first:place] == other[start:column]
        if not same:
            if apart:
                blocks.append((first, place, start, column))
            else:
                blocks[-1] = (first, blocks[-1][1], start, blocks[-1][3])
        apart = same
        place, column = first, start
    return blocks[::-1]
