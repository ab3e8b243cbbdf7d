"""How words are pronounced: a dictionary first, then endings, compounds and spelling rules for the words it lacks."""

from __future__ import annotations

from collections.abc import Callable

PHONES = [
    "AA",
    "AE",
    "AH",
    "AO",
    "AW",
    "AY",
    "B",
    "CH",
    "D",
    "DH",
    "EH",
    "ER",
    "EY",
    "F",
    "G",
    "HH",
    "IH",
    "IY",
    "JH",
    "K",
    "L",
    "M",
    "N",
    "NG",
    "OW",
    "OY",
    "P",
    "R",
    "S",
    "SH",
    "T",
    "TH",
    "UH",
    "UW",
    "V",
    "W",
    "Y",
    "Z",
    "ZH",
]
"""The 39 phones of the CMU dictionary without stress."""

Lookup = Callable[[str], "list[str] | None"]

_SIBILANTS = {"S", "Z", "SH", "ZH", "CH", "JH"}
_VOICELESS = {"P", "T", "K", "F", "TH"}
_SHORTEST_PART = 3
_SPELLING = {
    "tch": "CH", "sch": "SH", "igh": "AY", "tion": "SH AH N", "sion": "ZH AH N", "ough": "AO", "augh": "AO",
    "ch": "CH", "sh": "SH", "th": "TH", "ph": "F", "wh": "W", "ck": "K", "ng": "NG", "qu": "K W", "gh": "G",
    "kn": "N", "wr": "R", "ee": "IY", "ea": "IY", "oo": "UW", "ou": "AW", "ow": "OW", "oa": "OW", "ai": "EY",
    "ay": "EY", "ei": "EY", "ey": "IY", "ie": "IY", "oi": "OY", "oy": "OY", "au": "AO", "aw": "AO", "eu": "UW",
    "ew": "UW", "ue": "UW", "er": "ER", "ir": "ER", "ur": "ER", "ar": "AA R", "or": "AO R",
    "ce": "S EH", "ci": "S IH", "cy": "S IY", "ge": "JH EH", "gi": "JH IH",
    "a": "AE", "b": "B", "c": "K", "d": "D", "e": "EH", "f": "F", "g": "G", "h": "HH", "i": "IH", "j": "JH",
    "k": "K", "l": "L", "m": "M", "n": "N", "o": "OW", "p": "P", "q": "K", "r": "R", "s": "S", "t": "T",
    "u": "AH", "v": "V", "w": "W", "x": "K S", "y": "IY", "z": "Z",
}  # fmt: skip


def pronounce(word: str, lookup: Lookup) -> list[str]:
    """The phones of a word; a word that nothing is known of is read by its spelling."""
    return lookup(word) or _inflected(word, lookup) or _compound(word, lookup) or spelled(word)


def spelled(word: str) -> list[str]:
    """A guess from the letters alone, the longest group of letters first."""
    letters = word.replace("'", "")
    if len(letters) > _SHORTEST_PART and letters.endswith("e"):
        letters = letters[:-1]
    phones: list[str] = []
    while letters:
        size = next(size for size in (4, 3, 2, 1) if letters[:size] in _SPELLING or size == 1)
        found = _SPELLING.get(letters[:size], "").split()
        phones += found if found[:1] != phones[-1:] else found[1:]
        letters = letters[size:]
    return phones


def _inflected(word: str, lookup: Lookup) -> list[str] | None:
    for ending in ("'s", "s'", "s"):
        stem = lookup(word.removesuffix(ending)) if word.endswith(ending) else None
        if stem:
            if stem[-1] in _SIBILANTS:
                return [*stem, "IH", "Z"]
            return [*stem, "S" if stem[-1] in _VOICELESS else "Z"]
    return None


def _compound(word: str, lookup: Lookup) -> list[str] | None:
    for cut in range(len(word) - _SHORTEST_PART, _SHORTEST_PART - 1, -1):
        first, second = lookup(word[:cut]), lookup(word[cut:])
        if first and second:
            return first + second
    return None
