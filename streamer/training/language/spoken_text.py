"""Turns written text into spoken text: sentences of lower-case words, with numbers and signs as words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from num2words import num2words  # type: ignore[import-untyped]

UNKNOWN = "<unk>"

# Abbreviations and their words. A full stop after one of these does not end a sentence.
_ABBREVIATIONS = {
    "mr": "mister",
    "mrs": "missus",
    "dr": "doctor",
    "prof": "professor",
    "capt": "captain",
    "col": "colonel",
    "gen": "general",
    "lt": "lieutenant",
    "sgt": "sergeant",
    "rev": "reverend",
    "hon": "honourable",
    "vs": "versus",
    "esq": "esquire",
    "messrs": "messieurs",
    "etc": "et cetera",
    "jr": "junior",
    "sr": "senior",
    "st": "saint",
    "mt": "mount",
    "ms": "ms",
}
_SIGNS = {"&": "and", "%": "percent", "+": "plus", "°": "degrees"}
_MONEY = {"$": ("dollar", "dollars"), "£": ("pound", "pounds"), "€": ("euro", "euros")}
_ELIDED = frozenset({"em", "tis", "twas", "til", "cause", "twere", "twould", "twill", "bout", "round", "cos"})
# Typographic signs, as the plain ones that they stand for.
_LETTERS = str.maketrans(
    {
        "\u2019": "'",
        "\u2018": "'",
        "`": "'",
        "\u00b4": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u201e": '"',
        "\u2014": " - ",
        "\u2013": " - ",
        "\u2026": " ... ",
        "\u00ad": "",
        "æ": "ae",
        "Æ": "Ae",
        "œ": "oe",
        "Œ": "Oe",
        "ø": "o",
        "Ø": "O",
        "ß": "ss",
        "ł": "l",
        "Ł": "L",
        "đ": "d",
        "_": "",
        "*": " ",
        "=": " ",
        "|": " ",
        "~": " ",
    }
)

_DOTTED = re.compile(r"\b(" + "|".join(_ABBREVIATIONS) + r")\.", re.IGNORECASE)
_INITIALS = re.compile(r"\b((?:[A-Za-z]\.){2,}|[A-HJ-Z]\.(?= [A-Z]))")
_CLOCK = re.compile(r"(?<=\d) ?([ap])\.?m\b\.?", re.IGNORECASE)
_TELEPHONE = re.compile(r"\b\d{3}-\d{3}-\d{4}\b")
_SENTENCE_END = re.compile(r"""(?<=[.?!])["')\]]*\s+(?=["'(\[]*[A-Z0-9])""")
_TOKEN = re.compile(
    r"""(?P<money>[$£€])?(?P<number>\d+(?:,\d{3})*(?:\.\d+)?)(?P<ending>st|nd|rd|th|s)?(?![A-Za-z\d])"""
    r"""|(?P<word>'?[^\W\d_]+(?:'[^\W\d_]+)*(?:(?<=s)'(?=\s)|(?<=in)'(?=\s))?)"""
    r"""|(?P<mixed>[^\W_]+)|(?P<sign>[&%+°])"""
)


def sentences(paragraph: str) -> Iterator[list[str]]:
    """Return the sentences of a paragraph, each as the words that a reader would say."""
    for sentence in _SENTENCE_END.split(without_abbreviations(paragraph)):
        words = [word for _, spoken in spoken_tokens(sentence) for word in spoken]
        if words:
            yield words


def without_abbreviations(paragraph: str) -> str:
    """Return the paragraph in plain letters and signs, without full stops that end no sentence."""
    plain = _plain(paragraph)
    plain = _DOTTED.sub(r"\1 ", plain)
    plain = _CLOCK.sub(r" \1 m", plain)
    plain = _TELEPHONE.sub(lambda match: " ".join(match[0].replace("-", "")), plain)
    return _INITIALS.sub(lambda match: match[0].replace(".", " ") + " ", plain)


def _plain(text: str) -> str:
    """Replace accents, ligatures and typographic quotes by plain letters and signs."""
    if text.isascii():
        return text.translate(_LETTERS)
    decomposed = unicodedata.normalize("NFKD", text.translate(_LETTERS))
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


def spoken_tokens(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield every word, number and sign of a plain text as it is written, with the words that are said for it."""
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "word":
            yield token[0], _spoken(token["word"].lower())
        elif token["number"]:
            yield token[0], _number(token["number"], token["ending"] or "", token["money"] or "")
        elif kind == "sign":
            yield token[0], (_SIGNS[token["sign"]],)
        else:
            yield token[0], (UNKNOWN,)


@lru_cache(1_000_000)
def _spoken(word: str) -> tuple[str, ...]:
    if word.startswith("'") and word[1:] not in _ELIDED:
        word = word[1:]
    if not word.isascii():
        return (UNKNOWN,)
    return tuple(_ABBREVIATIONS.get(word, word).split())


@lru_cache(100_000)
def _number(digits: str, ending: str, money: str) -> tuple[str, ...]:
    """Return the words of a number: a sum of money, an ordinal, a decade, a year, or a count."""
    digits, grouped = digits.replace(",", ""), "," in digits
    whole, _, fraction = digits.partition(".")
    if len(whole) > 9 or (len(whole) > 1 and whole[0] == "0"):
        spoken = " ".join(num2words(int(digit)) for digit in whole + fraction)
    elif money:
        one, many = _MONEY[money]
        spoken = f"{num2words(int(whole))} {one if int(whole) == 1 else many}"
        if fraction:
            spoken += f" {num2words(int(fraction))}"
    elif ending == "s":
        spoken = _plural(num2words(int(whole), to="year") if len(whole) == 4 else num2words(int(whole)))
    elif ending:
        spoken = num2words(int(whole), to="ordinal")
    elif fraction:
        spoken = f"{num2words(int(whole))} point {' '.join(num2words(int(digit)) for digit in fraction)}"
    elif len(whole) == 4 and not grouped and 1100 <= int(whole) < 2100:
        spoken = num2words(int(whole), to="year").replace("oh-", "o ")
    else:
        spoken = num2words(int(whole))
    return tuple(re.findall(r"[a-z]+", spoken))


def _plural(words: str) -> str:
    return words[:-1] + "ies" if words.endswith("y") else words + "s"
