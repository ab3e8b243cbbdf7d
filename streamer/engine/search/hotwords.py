"""Compiles the hotwords of a stream for the search: their pronunciations, their trie and their bonuses."""

from __future__ import annotations

import re
import unicodedata
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from streamer.engine.array_memory import Arrays
from streamer.engine.file_cache import cached_arrays, fingerprint
from streamer.engine.language.letter_to_sound import LetterToSound
from streamer.engine.language.lexicon import ROOT, Lexicon
from streamer.engine.language.word_list import WordList
from streamer.engine.search.beam_loops import BonusArrays, extend_hash
from streamer.engine.search.search import BeamOptions, Hotword
from streamer.engine.waiting import Work, finish

MOST_HOTWORDS, MOST_WORDS, MOST_CHARACTERS = 200, 6, 60
_HOTWORDS_A_PART = 4  # in a part of the work, which takes some tenths of a millisecond
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]*)*")

Units = tuple[int, ...]


@dataclass(frozen=True)
class CompiledHotwords:
    """The hotwords of one stream for the search. The numbers of new words follow those of the language model."""

    trie: Lexicon
    words: NDArray[np.int64]  # the number of each word of the trie
    worth: NDArray[np.float64]  # the factor of each word in the look-ahead
    bonuses: StreamBonuses
    texts: tuple[str, ...]  # the new words


class HotwordCompiler:
    """Turns hotwords into word numbers, a trie of pronunciations, and bonuses."""

    def __init__(
        self,
        lexicon: Lexicon,
        words: WordList,
        unigrams: NDArray[np.float32],
        units: Sequence[str],
        letters: LetterToSound | None,
        options: BeamOptions,
    ) -> None:
        self._pronouncer = None if letters is None else Pronouncer(letters)
        self._options, self._unigrams = options, unigrams
        self._words = words
        self._unit = {unit: number for number, unit in enumerate(units)}
        ends, words_of_ends, self._parent, base = lexicon.arrays()
        self._base = base

        def by_word() -> Arrays:
            order = np.argsort(words_of_ends, kind="stable")
            first = np.searchsorted(words_of_ends[order], np.arange(len(words) + 1))
            return {"ends": ends[order], "first": first.astype(np.int32)}

        key = fingerprint(ends, words_of_ends, str(len(words)))
        arrays = cached_arrays("pronunciations", key, ends.nbytes + words_of_ends.nbytes, by_word).arrays
        # The end nodes of a word are `ends[first[word] : first[word + 1]]`.
        self._ends, self._first = arrays["ends"], arrays["first"]

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
                number = self._words.number_of(name)
                if number is None:
                    number = texts.setdefault(name, len(self._words) + len(texts))
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
            float(self._unigrams[number]) if number < len(self._words) else options.hotword_floor
            for number in own_numbers
        ]
        scores = np.array(chances) * options.language_weight + options.word_bonus
        scores += np.array([best_bonus[number] for number in own_numbers])
        yield
        trie = yield from Lexicon.build_in_parts(
            ((index, pronunciation) for index, number in enumerate(own_numbers) for pronunciation in ways[number]),
            scores,
        )
        yield
        by_last_words = yield from StreamBonuses.of((yield from self._by_last_words(bonuses, own_numbers)))
        yield
        return CompiledHotwords(trie, np.array(own_numbers), np.exp(scores), by_last_words, tuple(texts))

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
            number = self._words.number_of(name)
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


# The bonuses of hotwords. A complete phrase earns its bonus; an incomplete one is lent a part of it.

_LAST_KEY = 2**63 - 1
_ENTRIES_A_PART = 256  # in a part of the work, which takes some tenths of a millisecond


@dataclass(frozen=True)
class StreamBonuses:
    """The bonuses of one stream, in the order of their keys."""

    keys: NDArray[np.int64]
    earned: NDArray[np.float64]
    lent: NDArray[np.float64]
    own: NDArray[np.bool_]

    @classmethod
    def of(cls, entries: Mapping[tuple[int, ...], tuple[float, float, bool]]) -> Work[StreamBonuses]:
        """Make the bonuses from entries (earned, lent, own) by the last one to three words."""
        phrases, keys = list(entries), []
        for number, words in enumerate(phrases):
            if not number % _ENTRIES_A_PART:
                yield
            keys.append(reduce(extend_hash, words, 0))
        hashes = np.array(keys, dtype=np.int64)
        order = hashes.argsort()
        yield
        earned, lent, own = (np.array(column)[order] for column in zip(*entries.values(), strict=True))
        return cls(hashes[order], earned, lent, own)


class HotwordBonuses:
    """The bonuses of all slots."""

    def __init__(self, slots: int) -> None:
        zeros = np.zeros((slots, 1))
        keys = np.full((slots, 1), _LAST_KEY)
        self.arrays = BonusArrays(np.zeros(slots, np.int64), keys, zeros, zeros.copy(), np.zeros((slots, 1), np.bool_))

    def put(self, slot: int, bonuses: StreamBonuses, root: int) -> Work[None]:
        """Store the bonuses of a stream in a slot; `root` is the base of the root of its trie."""
        size = len(bonuses.keys)
        missing = size - self.arrays.keys.shape[1]
        if missing > 0:
            wider = {
                name: np.pad(getattr(self.arrays, name), ((0, 0), (0, missing)), constant_values=value)
                for name, value in {"keys": _LAST_KEY, "earned": 0.0, "lent": 0.0, "own": False}.items()
            }
            self.arrays = self.arrays._replace(**wider)
        yield
        for name, values in vars(bonuses).items():
            getattr(self.arrays, name)[slot, :size] = values
        self.arrays.keys[slot, size:] = _LAST_KEY
        self.arrays.roots[slot] = root

    def remove(self, slot: int) -> None:
        """Free a slot."""
        self.arrays.roots[slot] = 0


# Guesses the pronunciations of words that are not in the lexicon, once for each caller that needs them.

GUESSES = 3  # the most pronunciations of a word
MOST_PRONOUNCED_WORDS = 20_000  # the most words that are remembered for all callers together
MOST_CALLERS = 256
_BEAM = 8  # narrow, because a stream waits for the guesses
_TOGETHER = 8  # words in a batch: more would save time in total, but one part of the work would take too long

Phones = tuple[str, ...]
Ways = Sequence[Phones]
"""The pronunciations of a word, best first; none if it cannot be pronounced."""


class Pronouncer:
    """Guesses pronunciations and remembers them."""

    def __init__(self, letters: LetterToSound) -> None:
        self._letters = letters
        self._memories = CallerMemories()

    def guess(self, words: Collection[str], caller: str) -> Work[dict[str, Ways]]:
        """Guess the pronunciations of these words, or recall them."""
        pronunciations: dict[str, Ways] = {}
        for word in words:
            memory = self._memories.recall(caller, word)
            if memory is not None:
                pronunciations[word] = memory
        yield
        # The words of a batch have similar lengths, because a batch takes as long as its longest word.
        new = sorted((word for word in words if word not in pronunciations), key=lambda word: (len(word), word))
        for start in range(0, len(new), _TOGETHER):
            batch = new[start : start + _TOGETHER]
            scored = yield from self._letters.score_in_parts(batch, _BEAM)
            for word, ways in zip(batch, scored, strict=True):
                pronunciations[word] = [phones for phones, _ in ways[:GUESSES]]
                self._memories.keep(caller, word, pronunciations[word])
            yield
        return pronunciations


class CallerMemories:
    """The guesses for each caller. At the limit, the caller with the most words loses its least recently used word."""

    def __init__(self, most_words: int = MOST_PRONOUNCED_WORDS, most_callers: int = MOST_CALLERS) -> None:
        self._most_words, self._most_callers = most_words, most_callers
        self._callers: OrderedDict[str, OrderedDict[str, Ways]] = OrderedDict()  # the most recently used is last
        self._returned: set[str] = set()  # the callers that have used a word again
        self._words = 0

    def recall(self, caller: str, word: str) -> Ways | None:
        """Return the remembered pronunciations of this word; None if there are none."""
        own_words = self._callers.get(caller)
        if own_words is None or word not in own_words:
            return None
        self._callers.move_to_end(caller)
        self._returned.add(caller)
        own_words.move_to_end(word)
        return own_words[word]

    def keep(self, caller: str, word: str, ways: Ways) -> None:
        """Remember these pronunciations for the caller."""
        own_words = self._callers.setdefault(caller, OrderedDict())
        self._callers.move_to_end(caller)
        self._words += word not in own_words
        own_words[word] = ways
        if len(self._callers) > self._most_callers:
            self._forget(self._least_useful(caller))
        if self._words > self._most_words:
            most = max(self._callers.values(), key=len)
            most.popitem(last=False)
            self._words -= 1

    def _least_useful(self, newest: str) -> str:
        """Return the caller to forget: the least recent one that never repeated a word, else the least recent one."""
        others = [caller for caller in self._callers if caller != newest]
        return next((caller for caller in others if caller not in self._returned), others[0])

    def _forget(self, caller: str) -> None:
        self._words -= len(self._callers.pop(caller))
        self._returned.discard(caller)
