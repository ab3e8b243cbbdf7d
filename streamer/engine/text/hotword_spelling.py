"""The spellings of hotwords: the spoken forms of a hotword such as K8s, and the way back from words to spelling.

The search looks for the spoken words, "k eight s". Where they occur, results have K8s. In the written form, names such
as Quilter get the capitals that the client gave them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from streamer.engine.search.search import Hotword
from streamer.engine.text.figures import TrackedWords

VARIANTS = 4  # the most spoken forms of a hotword

_POSSESSIVE = "'s"
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_RUN = re.compile(r"\d+|\D+")
_DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
_TEENS = ["ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]
_TENS = [".", ".", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_VOWELS = frozenset("aeiouy")
_LONGEST_SPELLED = 3  # more letters than this are a word, unless they have no vowel


class Spellings:
    """The spellings that replace spoken words in the written form."""

    def __init__(self, written: Mapping[tuple[str, ...], str] | None = None) -> None:
        """`written` has the spelling of each sequence of spoken words."""
        self._by_first: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        for words in sorted(written or {}, key=len, reverse=True):
            self._by_first.setdefault(words[0], []).append((words, (written or {})[words]))

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> Spellings:
        """Make spellings from pairs of spoken text and spelling. The first spelling that is not empty counts."""
        spellings: dict[tuple[str, ...], str] = {}
        for spoken, written in pairs:
            if written:
                spellings.setdefault(tuple(spoken.split()), written)
        return cls(spellings)

    def __bool__(self) -> bool:
        return bool(self._by_first)

    def at(self, words: TrackedWords, position: int) -> tuple[str, int] | None:
        """Return the spelling of the words that begin here, and the position after the last one; None without one."""
        first = words.at(position)
        stem = first.removesuffix(_POSSESSIVE)
        own = self._by_first.get(first, ())
        for phrase, written in own if stem == first else (*own, *self._by_first.get(stem, ())):
            end = position + len(phrase)
            if any(words.at(place) != word for place, word in enumerate(phrase[:-1], position)):
                continue
            last = words.at(end - 1)
            if last == phrase[-1]:
                return written, end
            if last == phrase[-1] + _POSSESSIVE:
                return written + _POSSESSIVE, end
        return None


NO_SPELLINGS = Spellings()


def spellings_of(hotwords: Iterable[Hotword], *, capitals: bool) -> Spellings:
    """Return the spellings of hotwords with figures, and with `capitals` also of hotwords with capitals."""
    pairs = [(hotword.text, hotword.written) for hotword in hotwords]
    if capitals:
        named = [text for text, written in pairs if not written and text != text.lower()]
        pairs += [(" ".join(_WORD.findall(text.lower())), text.strip()) for text in named]
    return Spellings.of(pair for pair in pairs if pair[0])


def has_figures(text: str) -> bool:
    """Return whether a hotword has figures, so that its spoken form differs from its spelling."""
    return any(character.isdecimal() for character in text)


def spoken_forms(text: str, most: int = VARIANTS) -> list[str]:
    """Return the spoken forms of a hotword with figures, likeliest first."""
    parts = [
        _letter_forms(run) if not run[0].isdecimal() else _number_forms("".join(str(int(digit)) for digit in run))
        for word in _WORD.findall(text)
        for run in _RUN.findall(word)
    ]
    # Each other form differs from the likeliest in one part.
    usual = [part[0] for part in parts]
    others = ([*usual[:place], other, *usual[place + 1 :]] for place, part in enumerate(parts) for other in part[1:])
    forms = [" ".join(form) for form in (usual, *others)]
    if re.search(r"\d[sS]$", text):  # K8s: kay eights
        forms.insert(1, f"{forms[0].rpartition(' ')[0]}{'es' if forms[0].endswith('six s') else 's'}")
    return list(dict.fromkeys(forms))[:most]


def _letter_forms(run: str) -> list[str]:
    """Return the spoken forms of letters: one by one, or as a word."""
    word, spelled = run.lower(), " ".join(run.lower())
    vowel = not _VOWELS.isdisjoint(word)
    if len(run) == 1 or not vowel:
        return [spelled]
    if len(run) <= _LONGEST_SPELLED:
        return [spelled, word] if run.isupper() else [word, spelled]
    return [word]


def _number_forms(figures: str) -> list[str]:
    """Return the spoken forms of figures: as a number, in pairs, or one by one."""
    single = " ".join(_DIGITS[int(digit)] for digit in figures)
    if len(figures) == 1:
        return [single, "oh"] if figures == "0" else [single]
    if figures[0] == "0" or len(figures) > 4:
        return [single, single.replace("zero", "oh")] if "0" in figures else [single]
    if len(figures) == 2:
        return [_below_hundred(int(figures)), single]
    first, last = int(figures[:-2]), int(figures[-2:])
    if last == 0:
        thousand = first % 10 == 0
        return [f"{_below_hundred(first // 10)} thousand" if thousand else f"{_below_hundred(first)} hundred", single]
    pairs = f"{_below_hundred(first)} {'oh ' if last < 10 else ''}{_below_hundred(last)}"
    if len(figures) == 3:
        return [pairs, single, f"{_DIGITS[first]} hundred {_below_hundred(last)}"]
    return [pairs, single]


def _below_hundred(value: int) -> str:
    if value < 10:
        return _DIGITS[value]
    if value < 20:
        return _TEENS[value - 10]
    return _TENS[value // 10] + (f" {_DIGITS[value % 10]}" if value % 10 else "")
