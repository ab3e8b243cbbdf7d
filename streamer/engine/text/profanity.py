"""Swear words in results: masked, or left out. The list of them is `swear_words.txt`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from functools import cache
from pathlib import Path

from streamer.base.events import Word

_LIST = Path(__file__).with_name("swear_words.txt")
_WORD = re.compile(r"[^\W\d_]+")
_SENTENCE_ENDS = (".", "?", "!")


class Profanity(Enum):
    """What happens to swear words: the values of the option."""

    KEEP = "keep"
    MASK = "mask"
    REMOVE = "remove"


def clean_words(words: Sequence[Word], how: Profanity) -> list[Word]:
    """Return the words without what the option excludes. The times and confidences of the others stay.

    The first words of a text have the same form whatever follows, except that a mark may be added to the last one. So
    stable text stays stable.
    """
    if how is Profanity.MASK:
        return [
            replace(word, word=_masked(word.word), spoken=None if word.spoken is None else _masked(word.spoken))
            for word in words
        ]
    return _decent(words) if how is Profanity.REMOVE else list(words)


@cache
def swear_words() -> frozenset[str]:
    """Return the words of the list."""
    lines = _LIST.read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def _decent(words: Sequence[Word]) -> list[Word]:
    """Return the other words. A capital and the end of a sentence go from a swear word to the word beside it."""
    result: list[Word] = []
    begins = False  # the next word begins a sentence, because the word that did is left out
    for word in words:
        text = _without(word.word)
        if not text:
            begins = begins or word.word[:1].isupper()
            mark = word.word[-1:]
            if mark in _SENTENCE_ENDS and result and result[-1].word[-1:].isalnum():
                result[-1] = replace(result[-1], word=result[-1].word + mark)
            continue
        if begins and text[:1].isalpha():
            text, begins = text[:1].title() + text[1:], False
        result.append(replace(word, word=text, spoken=None if word.spoken is None else _without(word.spoken)))
    return result


def _masked(text: str) -> str:
    return _WORD.sub(lambda found: found[0][0] + "*" * (len(found[0]) - 1) if _swears(found[0]) else found[0], text)


def _without(text: str) -> str:
    """Return the parts of a text that do not swear; one word of a result may have several."""
    if not any(map(_swears, _WORD.findall(text))):
        return text
    return " ".join(part for part in text.split() if not any(map(_swears, _WORD.findall(part))))


def _swears(word: str) -> bool:
    return word.lower() in swear_words()
