"""Text in the columns of a terminal: how wide it is, how much of it fits, and where a line breaks. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable


def printable(text: str) -> str:
    """Return the text without characters that would move the cursor or change colours."""
    return "".join(" " if unicodedata.category(character) in ("Cc", "Cf") else character for character in text)


def columns(text: str) -> int:
    """Return how many columns of a terminal the text takes at most.

    Terminals disagree about joined characters, such as an emoji with a skin tone. The largest width is counted, because
    a line that is cut a little early is better than one that wraps.
    """
    return sum(_columns(character) for character in text)


def beginning(text: str, room: int) -> str:
    """Return the text, or the part of its beginning that fits, with an ellipsis."""
    if columns(text) <= room:
        return text
    return text[: _length_that_fits(text, room - 1)] + "…"


def ending(text: str, room: int) -> str:
    """Return the text, or the part of its end that fits, with an ellipsis."""
    cut = ending_at(text, room)
    return "…" + text[cut:] if cut else text


def ending_at(text: str, room: int) -> int:
    """Return where the end that fits begins in the text. If the text is cut, a column is left for the ellipsis."""
    if columns(text) <= room:
        return 0
    return len(text) - _length_that_fits(text[::-1], room - 1)


def first_that_fits(choices: Iterable[str], room: int) -> str:
    """Return the first of these texts that fits. If none fits, the beginning of the last one."""
    text = ""
    for text in choices:
        if columns(text) <= room:
            return text
    return beginning(text, room)


def wrap(text: str, room: int) -> list[str]:
    """Return the text in lines that fit. They break between words; only a word that is wider than a line is divided."""
    lines, line, width_so_far = [], "", 0
    for word in text.split():
        gap = 1 if line else 0
        while columns(word) > room:
            # Text without spaces, such as Chinese, continues in the line that was begun.
            length = _length_that_fits(word, room - width_so_far - gap) or (0 if line else 1)
            lines.append(f"{line}{' ' * gap if length else ''}{word[:length]}")
            word, line, width_so_far, gap = word[length:], "", 0, 0
        width = columns(word)
        if line and width_so_far + gap + width > room:
            lines.append(line)
            line, width_so_far, gap = "", 0, 0
        line, width_so_far = f"{line}{' ' * gap}{word}", width_so_far + gap + width
    return [*lines, line] if line or not lines else lines


def _length_that_fits(text: str, room: int) -> int:
    """Return how many characters at the beginning fit."""
    for index, character in enumerate(text):
        room -= _columns(character)
        if room < 0:
            return index
    return len(text)


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
