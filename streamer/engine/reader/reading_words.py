"""The spoken words of a reading, each with the mark and the capitals that the reader wrote.

A reader writes as people do: with marks, capitals, figures and abbreviations. All other stages expect spoken words in
lower case, as the recogniser has them.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from streamer.engine.reader.reading import Token
from streamer.engine.text.marks import Case, Mark, MarkedWord

_MARKS: Final = {".": Mark.FULL_STOP, "!": Mark.FULL_STOP, "…": Mark.FULL_STOP, "?": Mark.QUESTION}
_MARKS_WITHIN: Final = {",": Mark.COMMA, ";": Mark.COMMA, ":": Mark.COMMA, "\u2014": Mark.COMMA, "\u2013": Mark.COMMA}
# What is not said as it is written, and the ways to say it.
_ABBREVIATIONS: Final = {
    "mr.": ("mister",),
    "mrs.": ("missus",),
    "ms.": ("ms",),
    "dr.": ("doctor", "drive"),
    "st.": ("saint", "street"),
    "prof.": ("professor",),
    "jr.": ("junior",),
    "sr.": ("senior",),
    "vs.": ("versus",),
    "a.m.": ("a m",),
    "p.m.": ("p m",),
    "&": ("and",),
    "+": ("plus",),
    "=": ("equals",),
    "@": ("at",),
    "%": ("percent",),
}
_NUMBER: Final = "no."  # before figures; elsewhere it is an answer
_HALVES_OF_DAYS: Final = ("am", "pm")  # after figures; elsewhere it is a word
_INITIALS: Final = re.compile(r"(?:[^\W\d_]\.){2,}")
# Curved quotation marks, and other hyphens.
_PLAIN: Final = str.maketrans("\u2019\u2018`\u201c\u201d\u2010\u2011", "'''\"\"--")
# A written word. Such amounts are one, because their signs are said after their last word.
_CHUNK: Final = re.compile(r"[$£€]\d[\d,.]* (?:hundred|thousand|million|billion|trillion)\b\S*|\S+", re.IGNORECASE)
# Where a written word falls into several: at hyphens and slashes, and between letters and figures.
_PARTS: Final = re.compile(
    r"[$£€]?\d[\d,.:]*(?:st|nd|rd|th|'?s|%|°)?(?![\w])|[$£€]?\d[\d,.:]*|[^\W\d_]+(?:'[^\W\d_]+)*'?"
)
_LONGEST_SPELLED: Final = 5  # capitals that may be spelled, such as FBI


@dataclass(frozen=True)
class ReadWord:
    """A spoken word of a reading. `probability` is how likely the reader finds its letters."""

    text: str
    marked: MarkedWord
    probability: float


Phrase = tuple[tuple[ReadWord, ...], ...]
"""The ways to say one written word: each a row of spoken words, likeliest first."""


@dataclass(frozen=True)
class WrittenWord:
    """A written word: the characters of the tokens that it covers, as they are, and the ways to say it."""

    start: int
    end: int
    text: str
    phrase: Phrase


def phrases_of(tokens: Sequence[Token], knows: Callable[[str], bool]) -> list[Phrase]:
    """Return the spoken words of these tokens, written word by written word. `knows`: whether a lexicon has a word."""
    return [written.phrase for written in written_words(tokens, knows)]


def written_words(tokens: Sequence[Token], knows: Callable[[str], bool]) -> list[WrittenWord]:
    """Return the written words of these tokens. `knows`: whether a lexicon has a word."""
    text = "".join(token.text for token in tokens).translate(_PLAIN)
    scores: list[float] = []  # of the token of each character
    for token in tokens:
        scores += [token.log_probability] * len(token.text)
    written: list[WrittenWord] = []
    chunks = list(_CHUNK.finditer(text))
    for chunk, after in zip(chunks, [*(chunk[0] for chunk in chunks[1:]), ""], strict=False):
        ways = _spoken(chunk[0], after, knows)
        if not ways:
            # A mark that stands alone belongs to the word before it.
            if written:
                last = written[-1]
                phrase = last.phrase
                if phrase[0][-1].marked.mark is Mark.NONE:
                    phrase = tuple(_with_mark(way, _mark_of(chunk[0])) for way in phrase)
                written[-1] = WrittenWord(last.start, chunk.end(), text[last.start : chunk.end()], phrase)
            continue
        own = scores[chunk.start() : chunk.end()]
        probability = math.exp(sum(own) / len(own))
        mark = _mark_of(chunk[0])
        if mark is Mark.FULL_STOP and _goes_on(chunk[0], after):
            mark = Mark.NONE
        phrase = tuple(
            _with_mark(tuple(ReadWord(word, MarkedWord(Mark.NONE, case), probability) for word, case in way), mark)
            for way in ways
        )
        written.append(WrittenWord(chunk.start(), chunk.end(), chunk[0], phrase))
    return written


def _with_mark(words: tuple[ReadWord, ...], mark: Mark) -> tuple[ReadWord, ...]:
    last = words[-1]
    return (*words[:-1], ReadWord(last.text, MarkedWord(mark, last.marked.case), last.probability))


def _mark_of(chunk: str) -> Mark:
    """Return the mark after a written word: the strongest of the marks at its end."""
    rest = chunk[len(chunk.rstrip("".join((*_MARKS, *_MARKS_WITHIN)) + "\"')]}»-")) :]
    found = [_MARKS[character] for character in rest if character in _MARKS]
    if found:
        return Mark.QUESTION if Mark.QUESTION in found else found[-1]
    return next((_MARKS_WITHIN[character] for character in rest if character in _MARKS_WITHIN), Mark.NONE)


def _goes_on(chunk: str, after: str) -> bool:
    """Return whether the sentence goes on after a written word with a full stop, as it may after an abbreviation."""
    letter = next((character for character in after if character.isalpha()), "")
    return letter.islower() or (bool(after) and _abbreviated(_core(chunk), after))


def _abbreviated(core: str, after: str) -> bool:
    short = core.lower()
    return short in _ABBREVIATIONS or bool(_INITIALS.fullmatch(core)) or (short == _NUMBER and after[:1].isdecimal())


def _core(chunk: str) -> str:
    return chunk.strip('"()[]{}«»*_').rstrip(",;")


def _spoken(chunk: str, after: str, knows: Callable[[str], bool]) -> list[tuple[tuple[str, Case], ...]]:
    """Return the ways to say a written word, each as its words and their capitals. `after`: the next written word."""
    core = _core(chunk)
    full = ("number",) if core.lower() == _NUMBER and after[:1].isdecimal() else _ABBREVIATIONS.get(core.lower())
    if full is not None:
        case = Case.FIRST if core[:1].isupper() else Case.LOWER
        return [tuple((word, case) for word in way.split()) for way in full]
    if " " in core:
        return _part(core.rstrip("".join((*_MARKS, *_MARKS_WITHIN)) + "'"), knows)
    ways: list[tuple[tuple[str, Case], ...]] = [()]
    before = ""
    for part in _PARTS.findall(_plain(core)):
        if part.lower() in _HALVES_OF_DAYS and before[-1:].isdecimal():
            own = [tuple((letter, Case.LOWER) for letter in part.lower())]
        else:
            own = _part(part, knows)
        before = part
        # Each other way differs from the likeliest in one part.
        ways = [(*ways[0], *own[0]), *((*way, *own[0]) for way in ways[1:]), *((*ways[0], *way) for way in own[1:])]
    return [way for way in ways if way]


def _part(part: str, knows: Callable[[str], bool]) -> list[tuple[tuple[str, Case], ...]]:
    if any(character.isdecimal() for character in part):
        said = spoken_figures(part.rstrip(".,:")) or [_digits(part)]
        return [tuple((word, Case.LOWER) for word in way) for way in said]
    word, case = part.lower().rstrip("'") or part, _case_of(part)
    spelled = tuple((letter, Case.ALL) for letter in word if letter.isalpha())
    if case is Case.ALL and 1 < len(word) <= _LONGEST_SPELLED:
        return [((word, case),), spelled] if knows(word) else [spelled, ((word, case),)]
    return [((word, case),)]


def _digits(part: str) -> Words:
    return tuple(word for digit in part if digit.isdecimal() for word in spoken_figures(str(int(digit)))[0])


def _case_of(word: str) -> Case:
    letters = [character for character in word.removesuffix("'s") if character.isalpha()]
    if len(letters) > 1 and all(letter.isupper() for letter in letters):
        return Case.ALL
    return Case.FIRST if word[:1].isupper() else Case.LOWER


def _plain(word: str) -> str:
    """Return the word without accents, as the lexicon has it."""
    return "".join(letter for letter in unicodedata.normalize("NFKD", word) if not unicodedata.combining(letter))


# The spoken words of written figures, the inverse of `streamer/engine/text/figures.py`: 1984, $5.50, 20th, 10:30.

Words = tuple[str, ...]

MOST_DIGITS: Final = 15  # of a number; longer ones are said digit by digit
_ONES: Final = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS: Final = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SCALES: Final = ("", "thousand", "million", "billion", "trillion")
_ORDINALS: Final = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
_CURRENCIES: Final = {"$": ("dollar", "cent"), "£": ("pound", "penny"), "€": ("euro", "cent")}
_UNITS: Final = {"%": "percent", "°": "degrees"}
_FIGURES: Final = re.compile(
    r"(?P<currency>[$£€])?(?P<whole>\d{1,3}(?:,\d{3})+|\d+)(?:\.(?P<part>\d+))?(?P<after>st|nd|rd|th|'?s|%|°)?",
    re.IGNORECASE,
)
_TIME: Final = re.compile(r"(\d{1,2}):(\d{2})")
_LARGE_MONEY: Final = re.compile(r"([$£€])(\d[\d,.]*) (hundred|thousand|million|billion|trillion)", re.IGNORECASE)


def spoken_figures(text: str) -> list[Words]:
    """Return the ways to say a text that is made of figures, likeliest first; none if it is not."""
    if time := _TIME.fullmatch(text):
        return _times(int(time[1]), time[2])
    if large := _LARGE_MONEY.fullmatch(text):
        money = large[3].lower(), f"{_CURRENCIES[large[1]][0]}s"
        return [(*way, *money) for way in spoken_figures(large[2])]
    match = _FIGURES.fullmatch(text)
    if match is None:
        return []
    digits, part = match["whole"].replace(",", ""), match["part"]
    if sign := match["currency"]:
        return [way for whole in _wholes(digits, grouped=True) for way in _money(whole, digits, part, sign)]
    ways = _wholes(digits, grouped="," in match["whole"])
    if part is not None:
        ways = [(*way, "point", *_one_by_one(part)) for way in ways]
    after = (match["after"] or "").lower()
    if after in _UNITS:
        return [(*way, _UNITS[after]) for way in ways]
    if after.endswith("s") and after != "st":
        return [(*way[:-1], _plural(way[-1])) for way in ways]
    if after:
        numbers = _numbers(int(digits)) if len(digits) <= MOST_DIGITS else []
        return [(*way[:-1], _ordinal(way[-1])) for way in numbers]
    return ways


def _wholes(digits: str, *, grouped: bool) -> list[Words]:
    """Return the ways to say a whole number: as a number, in pairs such as years, and digit by digit.

    `grouped`: it is certainly an amount, as with commas. Amounts are not said digit by digit.
    """
    single = _one_by_one(digits)
    if len(digits) > MOST_DIGITS or (digits[0] == "0" and len(digits) > 1):
        oh = tuple("oh" if word == "zero" else word for word in single)
        return [single, oh, *([("double", *oh[1:])] if oh[0] == oh[1] else [])]
    ways = _numbers(int(digits))
    if len(digits) == 1:
        return ways
    if len(digits) == 4 and digits[1:3] != "00":
        if not grouped:
            ways.insert(0, _pairs(digits))
        elif digits[2:] == "00":
            ways.append(_pairs(digits))
    elif len(digits) == 3 and not grouped:
        ways.append((*_cardinal(int(digits[0])), *_pair(digits[1:])))
    return ways if grouped else [*ways, single]


def _numbers(number: int) -> list[Words]:
    """Return the ways to say a number: one hundred one, one hundred and one, a hundred one, a hundred and one."""
    ways = [_cardinal(number)]
    if number > 100 and number % 100:
        last = _cardinal(number % 100)
        ways.append((*ways[0][: -len(last)], "and", *last))
    if ways[0][0] == "one" and len(ways[0]) > 1:
        ways += [("a", *way[1:]) for way in ways]
    return ways


def _pairs(digits: str) -> Words:
    first = _cardinal(int(digits[:2]))
    return (*first, "hundred") if digits[2:] == "00" else (*first, *_pair(digits[2:]))


def _pair(digits: str) -> Words:
    return ("oh", *_cardinal(int(digits[1]))) if digits[0] == "0" else _cardinal(int(digits))


def _times(hour: int, minutes: str) -> list[Words]:
    if minutes == "00":
        return [(*_cardinal(hour), "o'clock"), _cardinal(hour)]
    return [(*_cardinal(hour), *_pair(minutes))]


def _money(way: Words, digits: str, part: str | None, sign: str) -> list[Words]:
    """Return the ways to say an amount of money whose whole units are said in this way."""
    name, small = _CURRENCIES[sign]
    money = (*way, name if int(digits) == 1 else f"{name}s")
    if part is None or not int(part):
        return [money]
    if len(part) != 2:
        return [(*way, "point", *_one_by_one(part), f"{name}s")]
    cents = _cardinal(int(part))
    unit = small if int(part) == 1 else "pence" if small == "penny" else f"{small}s"
    if not int(digits):
        return [(*cents, unit)]
    return [(*money, "and", *cents, unit), (*money, *cents, unit), (*money, *cents), (*way, *cents)]


def _one_by_one(digits: str) -> Words:
    return tuple(_ONES[int(digit)] for digit in digits)


def _cardinal(number: int) -> Words:
    if number < 20:
        return (_ONES[number],)
    words: list[str] = []
    for place in range(len(_SCALES) - 1, -1, -1):
        group = number // 1000**place % 1000
        if not group:
            continue
        if group >= 100:
            words += [_ONES[group // 100], "hundred"]
        if group % 100 >= 20:
            words.append(_TENS[group % 100 // 10])
            if group % 10:
                words.append(_ONES[group % 10])
        elif group % 100:
            words.append(_ONES[group % 100])
        if place:
            words.append(_SCALES[place])
    return tuple(words)


def _ordinal(word: str) -> str:
    if word in _ORDINALS:
        return _ORDINALS[word]
    return f"{word[:-1]}ieth" if word.endswith("y") else f"{word}th"


def _plural(word: str) -> str:
    if word.endswith("y"):
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith("x") else f"{word}s"
