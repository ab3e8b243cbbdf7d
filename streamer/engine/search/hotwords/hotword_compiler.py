"""Compiles the hotwords of a stream for the search: their pronunciations, their trie and their bonuses."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from streamer.engine.language.letter_to_sound import LetterToSound
from streamer.engine.language.lexicon import ROOT, Lexicon
from streamer.engine.language.pronouncer import Pronouncer, Ways
from streamer.engine.search.beam_options import BeamOptions
from streamer.engine.search.hotwords.hotword_bonuses import StreamBonuses
from streamer.engine.search.search import Hotword
from streamer.engine.work.parts import Work, finish

MOST_HOTWORDS, MOST_WORDS, MOST_CHARACTERS = 200, 6, 60
_HOTWORDS_A_PART = 4  # in a part of the work, which takes some tenths of a millisecond
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]*)*")

Units = tuple[int, ...]


@dataclass(frozen=True)
class CompiledHotwords:
    """The hotwords of one stream for the search. The numbers of new words follow those of the language model."""

    trie: Lexicon
    words: Tensor  # the number of each word of the trie
    worth: Tensor  # the factor of each word in the look-ahead
    bonuses: StreamBonuses
    texts: tuple[str, ...]  # the new words


class HotwordCompiler:
    """Turns hotwords into word numbers, a trie of pronunciations, and bonuses."""

    def __init__(
        self,
        lexicon: Lexicon,
        words: Sequence[str],
        unigrams: Tensor,
        units: Sequence[str],
        letters: LetterToSound | None,
        options: BeamOptions,
    ) -> None:
        self._pronouncer = None if letters is None else Pronouncer(letters)
        self._options, self._unigrams = options, unigrams.tolist()
        self._numbers = {word: number for number, word in enumerate(words)}
        self._unit = {unit: number for number, unit in enumerate(units)}
        ends, words_of_ends, self._parent, base = lexicon.arrays()
        self._base = base
        order = np.argsort(words_of_ends, kind="stable")
        self._ends, self._first = ends[order], np.searchsorted(words_of_ends[order], np.arange(len(words) + 1))

    def compile(self, hotwords: Sequence[Hotword]) -> CompiledHotwords | None:
        """Compile these hotwords; return None if they have no effect. ValueError names one that cannot be used."""
        return finish(self.compile_in_parts(hotwords))

    def compile_in_parts(self, hotwords: Sequence[Hotword], caller: str = "") -> Work[CompiledHotwords | None]:
        """Do the work of `compile` in parts, with the guesses that are remembered for this caller."""
        if len(hotwords) > MOST_HOTWORDS:
            raise ValueError(f"there can be at most {MOST_HOTWORDS} hotwords, not {len(hotwords)}")
        guesses = yield from self._guess(hotwords, caller)
        texts: dict[str, int] = {}
        ways: dict[int, Sequence[Units]] = {}
        bonuses: dict[tuple[int, ...], float] = {}
        for place, hotword in enumerate(hotwords):
            if not place % _HOTWORDS_A_PART:
                yield
            names = words_of(hotword.text)
            numbers = []
            for name in names:
                number = self._numbers.get(name)
                if number is None:
                    number = texts.setdefault(name, len(self._numbers) + len(texts))
                if number not in ways:
                    ways[number] = self._pronounce(name, hotword.text, guesses)
                numbers.append(number)
            bonus = hotword.weight * self._options.hotword_bonus
            if bonus > 0:
                bonuses[tuple(numbers)] = max(bonuses.get(tuple(numbers), 0.0), bonus)
        if not bonuses:
            return None
        best_bonus: dict[int, float] = {}
        for phrase, bonus in bonuses.items():
            for number in phrase:
                best_bonus[number] = max(best_bonus.get(number, 0.0), bonus)
        yield
        options, own_numbers = self._options, list(best_bonus)
        chances = [
            self._unigrams[number] if number < len(self._numbers) else options.hotword_floor for number in own_numbers
        ]
        scores = torch.tensor(chances).double() * options.language_weight + options.word_bonus
        scores += torch.tensor([best_bonus[number] for number in own_numbers])
        yield
        trie = yield from Lexicon.build_in_parts(
            ((index, pronunciation) for index, number in enumerate(own_numbers) for pronunciation in ways[number]),
            scores,
        )
        yield
        by_last_words = yield from StreamBonuses.of((yield from self._by_last_words(bonuses, own_numbers)))
        yield
        return CompiledHotwords(trie, torch.tensor(own_numbers), scores.exp(), by_last_words, tuple(texts))

    def _by_last_words(
        self, bonuses: Mapping[tuple[int, ...], float], words: Sequence[int]
    ) -> Work[dict[tuple[int, ...], tuple[float, float, bool]]]:
        """Return the entries (earned, lent, own) of the bonuses by up to three last words."""
        entries: dict[tuple[int, ...], tuple[float, float, bool]] = {(word,): (0.0, 0.0, True) for word in words}
        for place, (phrase, bonus) in enumerate(bonuses.items()):
            if not place % _HOTWORDS_A_PART:
                yield
            # If the phrase begins with another hotword, the bonus of that hotword is not earned twice.
            whole = {size: size * bonuses[phrase[:size]] for size in range(1, len(phrase)) if phrase[:size] in bonuses}
            for size in range(1, len(phrase) + 1):
                value = size * bonus
                last = size == len(phrase)
                before = max((earned for length, earned in whole.items() if length <= size), default=0.0)
                gain = max(0.0, (value if last else self._options.hotword_lent * value) - before)
                key = phrase[max(0, size - (3 if last else 2)) : size]
                earned, lent, own = entries.get(key, (0.0, 0.0, False))
                entries[key] = (max(earned, gain), lent, own) if last else (earned, max(lent, gain), own)
        return entries

    def _pronounce(self, word: str, hotword: str, guesses: Mapping[str, Ways]) -> Sequence[Units]:
        """Return the pronunciations in the lexicon, with or without accents, or else the guesses from the letters."""
        number = self._lexicon_number(word)
        if number is not None:
            return list(self._lexicon_units(number))
        if word not in guesses:
            raise ValueError(f"hotword {hotword!r}: {word!r} is not in the lexicon")
        if not guesses[word]:
            raise ValueError(f"hotword {hotword!r}: {word!r} cannot be pronounced")
        return [tuple(self._unit[phone] for phone in phones) for phones in guesses[word]]

    def _lexicon_number(self, word: str) -> int | None:
        """Return the number of this word in the lexicon, with or without accents; None if it is not there."""
        for name in (word, _plain(word)):
            number = self._numbers.get(name)
            if number is not None and self._first[number] < self._first[number + 1]:
                return number
        return None

    def _lexicon_units(self, number: int) -> Iterator[Units]:
        for end in self._ends[self._first[number] : self._first[number + 1]].tolist():
            units, node = [], end
            while node != ROOT:
                parent = int(self._parent[node])
                units.append(node - int(self._base[parent]))
                node = parent
            yield tuple(reversed(units))

    def _guess(self, hotwords: Sequence[Hotword], caller: str) -> Work[dict[str, Ways]]:
        """Guess the pronunciations of the words that the lexicon does not have."""
        new: dict[str, None] = {}
        for place, hotword in enumerate(hotwords):
            if not place % _HOTWORDS_A_PART:
                yield
            new |= {word: None for word in words_of(hotword.text) if self._lexicon_number(word) is None}
        if self._pronouncer is None or not new:
            return {}
        return (yield from self._pronouncer.guess(new, caller))


def words_of(text: str) -> list[str]:
    """Return the words of a hotword in lower case. ValueError says why this text cannot be a hotword."""
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"hotword {text!r} has more than {MOST_CHARACTERS} characters")
    plain = unicodedata.normalize("NFC", text).replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").lower()
    words = _WORD.findall(plain)
    if not any(letter.isalpha() for letter in plain):
        raise ValueError(f"hotword {text!r} has no letter")
    if any(letter.isnumeric() for letter in plain):
        raise ValueError(f"hotword {text!r} has a digit: write it as it is spoken")
    if len(words) > MOST_WORDS:
        raise ValueError(f"hotword {text!r} has more than {MOST_WORDS} words")
    return words


def _plain(word: str) -> str:
    """Return the word without accents."""
    return "".join(letter for letter in unicodedata.normalize("NFKD", word) if not unicodedata.combining(letter))
