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
_HOTWORDS_A_PART = 4  # of the work: some tenths of a millisecond
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]*)*")

Units = tuple[int, ...]


@dataclass(frozen=True)
class CompiledHotwords:
    """The hotwords of one stream, ready for the search. New words are numbered after those of the language model."""

    trie: Lexicon
    words: Tensor  # the number of each word of the trie
    worth: Tensor  # the factor that each word contributes in advance
    bonuses: StreamBonuses
    texts: tuple[str, ...]  # the new words


class HotwordCompiler:
    """Turns hotwords into word numbers, a trie of pronunciations, and bonuses."""

    def __init__(
        self, lexicon: Lexicon, words: Sequence[str], unigrams: Tensor, units: Sequence[str],
        letters: LetterToSound | None, options: BeamOptions,
    ) -> None:  # fmt: skip
        self._pronouncer = None if letters is None else Pronouncer(letters)
        self._options, self._unigrams = options, unigrams.tolist()
        self._numbers = {word: number for number, word in enumerate(words)}
        self._unit = {unit: number for number, unit in enumerate(units)}
        ends, spoken, self._parent, base = lexicon.arrays()
        self._base = base
        order = np.argsort(spoken, kind="stable")
        self._ends, self._first = ends[order], np.searchsorted(spoken[order], np.arange(len(words) + 1))

    def compile(self, hotwords: Sequence[Hotword]) -> CompiledHotwords | None:
        """Compile these hotwords; None if they have no effect. ValueError names one that cannot be used."""
        return finish(self.compiling(hotwords))

    def compiling(self, hotwords: Sequence[Hotword], caller: str = "") -> Work[CompiledHotwords | None]:
        """The work of `compile`; the caller's earlier words are remembered."""
        if len(hotwords) > MOST_HOTWORDS:
            raise ValueError(f"there can be at most {MOST_HOTWORDS} hotwords, not {len(hotwords)}")
        guessed = yield from self._guess(hotwords, caller)
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
                    ways[number] = self._pronounced(name, hotword.text, guessed)
                numbers.append(number)
            bonus = hotword.weight * self._options.hotword_bonus
            if bonus > 0:
                bonuses[tuple(numbers)] = max(bonuses.get(tuple(numbers), 0.0), bonus)
        if not bonuses:
            return None
        most: dict[int, float] = {}
        for phrase, bonus in bonuses.items():
            for number in phrase:
                most[number] = max(most.get(number, 0.0), bonus)
        yield
        options, listed = self._options, list(most)
        chances = [
            self._unigrams[number] if number < len(self._numbers) else options.hotword_floor for number in listed
        ]
        scores = torch.tensor(chances).double() * options.language_weight + options.word_bonus
        scores += torch.tensor([most[number] for number in listed])
        yield
        trie = yield from Lexicon.building(
            ((index, pronunciation) for index, number in enumerate(listed) for pronunciation in ways[number]), scores
        )
        yield
        by_last_words = yield from StreamBonuses.of((yield from self._by_last_words(bonuses, listed)))
        yield
        return CompiledHotwords(trie, torch.tensor(listed), scores.exp(), by_last_words, tuple(texts))

    def _by_last_words(
        self, bonuses: Mapping[tuple[int, ...], float], words: Sequence[int]
    ) -> Work[dict[tuple[int, ...], tuple[float, float, bool]]]:
        """By up to three last words: the bonus earned, the bonus lent, and whether the key is a word of the trie."""
        found: dict[tuple[int, ...], tuple[float, float, bool]] = {(word,): (0.0, 0.0, True) for word in words}
        for place, (phrase, bonus) in enumerate(bonuses.items()):
            if not place % _HOTWORDS_A_PART:
                yield
            # If the phrase begins with another hotword, the bonus of that one is not earned twice.
            whole = {size: size * bonuses[phrase[:size]] for size in range(1, len(phrase)) if phrase[:size] in bonuses}
            for size in range(1, len(phrase) + 1):
                value = size * bonus
                last = size == len(phrase)
                before = max((earned for length, earned in whole.items() if length <= size), default=0.0)
                gain = max(0.0, (value if last else self._options.hotword_lent * value) - before)
                key = phrase[max(0, size - (3 if last else 2)) : size]
                earned, lent, own = found.get(key, (0.0, 0.0, False))
                found[key] = (max(earned, gain), lent, own) if last else (earned, max(lent, gain), own)
        return found

    def _pronounced(self, word: str, hotword: str, guessed: Mapping[str, Ways]) -> Sequence[Units]:
        """The pronunciations in the lexicon, with or without accents; otherwise those guessed from the letters."""
        number = self._sounding(word)
        if number is not None:
            return list(self._known(number))
        if word not in guessed:
            raise ValueError(f"hotword {hotword!r}: {word!r} is not in the lexicon")
        if not guessed[word]:
            raise ValueError(f"hotword {hotword!r}: {word!r} cannot be pronounced")
        return [tuple(self._unit[phone] for phone in phones) for phones in guessed[word]]

    def _sounding(self, word: str) -> int | None:
        """The number under which the lexicon has the word, with or without accents."""
        for name in (word, _plain(word)):
            number = self._numbers.get(name)
            if number is not None and self._first[number] < self._first[number + 1]:
                return number
        return None

    def _known(self, number: int) -> Iterator[Units]:
        for end in self._ends[self._first[number] : self._first[number + 1]].tolist():
            units, node = [], end
            while node != ROOT:
                parent = int(self._parent[node])
                units.append(node - int(self._base[parent]))
                node = parent
            yield tuple(reversed(units))

    def _guess(self, hotwords: Sequence[Hotword], caller: str) -> Work[dict[str, Ways]]:
        """The pronunciations of those of their words that the lexicon does not have."""
        new: dict[str, None] = {}
        for place, hotword in enumerate(hotwords):
            if not place % _HOTWORDS_A_PART:
                yield
            new |= {word: None for word in words_of(hotword.text) if self._sounding(word) is None}
        if self._pronouncer is None or not new:
            return {}
        return (yield from self._pronouncer.guess(new, caller))


def words_of(text: str) -> list[str]:
    """The words of a hotword in lower case. ValueError says why the text cannot be a hotword."""
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
    """The word without accents."""
    return "".join(letter for letter in unicodedata.normalize("NFKD", word) if not unicodedata.combining(letter))
