"""Estimates the letter-to-sound model from CMUdict, and builds the lexicon of the language model's words.

A word has all of its pronunciations in CMUdict. Pronunciations of other words are made from known words, or guessed
from the letters.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.letter_to_sound import BEGIN, END, Graphone, LetterToSound
from streamer.engine.language.lexicon import Lexicon
from workshop.acoustic.units import PHONE_NUMBER, errors
from workshop.data.corpus import CorpusError, replacing
from workshop.language.pronunciation import Dictionary, Pronunciations

ORDER = 6
LEAST_GAIN = 1.3
HELD_OUT = 0.05
GUESSES = 2
FIRST_WORD = 3
"""Before it come the language model's marks."""


def build(bundle: Path, dictionary: Dictionary, tell: Callable[[str], None], *, letters_only: bool = False) -> None:
    """Train, evaluate and write both files, or only the letter-to-sound model. Reports the results."""
    if not bundle.is_dir():
        raise CorpusError(f"there is no folder {bundle}: give the folder of the model")
    language = bundle / "language.safetensors"
    if not (letters_only or language.is_file()):
        raise CorpusError(
            f"{language} is missing: run scripts/train/build_language_model.py first, or add --letters-only"
        )
    kept, held_out = divided(dictionary)
    tell(judgement(trained(kept), held_out))
    letters = trained(dictionary)
    with replacing(bundle / "letters.safetensors", "wb") as stream:
        stream.write(letters.to_bytes())
    tell(_written(bundle / "letters.safetensors"))
    if not letters_only:
        tell(write_lexicon(bundle, Pronunciations(dictionary, letters)))


def write_lexicon(bundle: Path, pronunciations: Pronunciations) -> str:
    """Write the trie of the language model's words. Returns a line about its content."""
    language = LanguageModel.load(bundle / "language.safetensors")
    entries = list(pronounced(language.words, pronunciations))
    lexicon = Lexicon.build(entries, language.unigrams, language.vocabulary)
    lexicon.save(bundle / "lexicon.safetensors")
    words = {word for word, _ in entries}
    number = sum(pronunciations.knows(language.words[word]) for word in words)
    return (
        f"{_written(bundle / 'lexicon.safetensors')}, {len(lexicon)} nodes, {len(words)} words, "
        f"{number} of them in CMUdict, {len(entries)} pronunciations, up to {lexicon.homophones} words alike"
    )


def pronounced(words: Sequence[str], pronunciations: Pronunciations) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield every pronunciation of every word: the number of the word, and the units."""
    for number, word in enumerate(words[FIRST_WORD:], start=FIRST_WORD):
        for phones in pronunciations.variants(word, GUESSES):
            yield number, tuple(PHONE_NUMBER[phone] for phone in phones)


def trained(dictionary: Dictionary) -> LetterToSound:
    """Return the model of all words of a dictionary."""
    return estimate(((word, phones) for word, variants in dictionary.items() for phones in variants), ORDER, LEAST_GAIN)


def divided(dictionary: Dictionary) -> tuple[Dictionary, Dictionary]:
    """Return most of the words, and a few others for evaluation."""
    words = sorted(dictionary)
    random.Random(1).shuffle(words)
    few = int(HELD_OUT * len(words))
    held_out = {word: dictionary[word] for word in words[:few]}
    return {word: dictionary[word] for word in words[few:]}, held_out


def judgement(letters: LetterToSound, held_out: Dictionary) -> str:
    """Return how often a guess is none of the dictionary's pronunciations, and how far it is from the nearest one."""
    wrong = wrong_twice = edits = phones = 0
    began = time.process_time()
    for word, variants in held_out.items():
        guesses = [tuple(guess) for guess in letters.pronounce(word, GUESSES)] or [()]
        wrong += guesses[0] not in variants
        wrong_twice += not set(guesses) & set(variants)
        nearest, length = min((errors(variant, guesses[0]), len(variant)) for variant in variants)
        edits, phones = edits + nearest, phones + length
    milliseconds = 1000 * (time.process_time() - began) / len(held_out)
    return (
        f"{len(held_out)} words that were not trained: {100 * wrong / len(held_out):.1f} % guessed wrong "
        f"({100 * wrong_twice / len(held_out):.1f} % with {GUESSES} guesses), {100 * edits / phones:.1f} % of phones "
        f"wrong, {milliseconds:.1f} ms per word"
    )


def _written(path: Path) -> str:
    return f"{path}: {path.stat().st_size / 1e6:.2f} MB"


# Estimates the letter-to-sound model from words with known pronunciations.

Entry = tuple[str, tuple[str, ...]]
"""A word and its phones."""

ITERATIONS = 8
RARE = 8
"""Words with a graphone that is rarer than this are left out: abbreviations, foreign names and mistakes."""

Numbers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def estimate(entries: Iterable[Entry], order: int, least: float) -> LetterToSound:
    """Return the model of these words, without the n-grams that gain less than `least` nats in total."""
    return _Counts(align(entries), order).model(least)


def align(entries: Iterable[Entry]) -> list[list[Graphone]]:
    """Return the likeliest graphones of each word. Words that cannot be split into graphones are left out."""
    groups = _Groups(entries)
    table = np.ones(groups.codes)
    for _ in range(ITERATIONS):
        counts = groups.expected(table)
        table = counts / counts.sum()
    words = groups.best(table)
    while True:
        used = np.bincount(np.concatenate(words), minlength=groups.codes)
        kept = [word for word in words if used[word].min() >= RARE]
        if len(kept) == len(words):
            return [[groups.graphone(int(code)) for code in word] for word in words]
        words = kept


class _Groups:
    """Words grouped by their numbers of letters and phones, so that one array operation serves a whole group."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        able = {entry for entry in entries if 0 < len(entry[1]) <= 2 * len(entry[0])}
        kept = sorted(able, key=lambda entry: (_shape(entry), entry))
        self._letters = sorted({letter for word, _ in kept for letter in word})
        self._phones = ["", *sorted({phone for _, phones in kept for phone in phones})]
        self._size = len(self._phones)
        self.codes = len(self._letters) * self._size**2
        letter = {name: number for number, name in enumerate(self._letters)}
        phone = {name: number for number, name in enumerate(self._phones)}
        self._groups: list[list[list[Numbers]]] = []
        for _, group in groupby(kept, key=_shape):
            members = list(group)
            letters = np.array([[letter[name] for name in word] for word, _ in members])
            phones = np.array([[phone[name] for name in names] for _, names in members])
            self._groups.append([self._options(letters[:, position], phones) for position in range(letters.shape[1])])

    def _options(self, letters: Numbers, phones: Numbers) -> list[Numbers]:
        """Return the codes of all graphones of a letter: with no phone, with each phone, with each two neighbours.

        They are [words, 1], [words, phones] and [words, phones - 1].
        """
        first = letters[:, None] * self._size**2
        return [first, first + phones, first + phones[:, :-1] * self._size + phones[:, 1:]]

    def graphone(self, code: int) -> Graphone:
        """Return the graphone that a code stands for."""
        rest, second = divmod(code, self._size)
        letter, first = divmod(rest, self._size)
        phones = (self._phones[first], self._phones[second])
        return self._letters[letter], tuple(phone for phone in phones if phone)

    def expected(self, table: Floats) -> Floats:
        """Return how often each graphone is used. All alignments of a word count with their probability."""
        counts = np.zeros(self.codes)
        for group in self._groups:
            chances = [[table[codes] for codes in options] for options in group]
            forward = _lattice(chances, np.add)
            backward = _lattice([[chance[:, ::-1] for chance in options] for options in chances[::-1]], np.add)
            backward = [row[:, ::-1] for row in backward[::-1]]
            whole = forward[-1][:, -1:]
            used, shares = [], []
            for position, (options, codes) in enumerate(zip(chances, group, strict=True)):
                before, after = forward[position], backward[position + 1]
                for size, chance in enumerate(options):
                    share = before[:, : before.shape[1] - size] * chance * after[:, size:] / whole
                    used.append(np.broadcast_to(codes[size], share.shape).ravel())
                    shares.append(share.ravel())
            counts += np.bincount(np.concatenate(used), np.concatenate(shares), self.codes)
        return counts

    def best(self, table: Floats) -> list[Numbers]:
        """Return the likeliest alignment of every word, as codes."""
        words: list[Numbers] = []
        for group in self._groups:
            chances = [[table[codes] for codes in options] for options in group]
            forward = _lattice(chances, np.maximum)
            rows = np.arange(len(forward[0]))
            column = np.full(len(rows), forward[0].shape[1] - 1)
            path = np.zeros((len(rows), len(group)), np.int64)
            for position in range(len(group) - 1, -1, -1):
                scores = np.full((3, len(rows)), -1.0)
                codes = np.zeros((3, len(rows)), np.int64)
                for size, chance in enumerate(chances[position]):
                    start = column - size
                    able = rows[start >= 0]
                    at = start[able] if size else np.zeros(len(able), np.int64)
                    scores[size, able] = forward[position][able, start[able]] * chance[able, at]
                    codes[size, able] = group[position][size][able, at]
                size = scores.argmax(axis=0)
                path[:, position] = codes[size, rows]
                column = column - size
            words += list(path)
        return words


def _shape(entry: Entry) -> tuple[int, int]:
    return len(entry[0]), len(entry[1])


def _lattice(chances: list[list[Floats]], join: np.ufunc) -> list[Floats]:
    """Return the probability of each prefix: a list by the number of letters, of [words, number of phones + 1]."""
    words, phones = chances[0][1].shape
    row = np.zeros((words, phones + 1))
    row[:, 0] = 1
    rows = [row]
    for options in chances:
        following = row * options[0]
        for size in (1, 2):
            following[:, size:] = join(following[:, size:], row[:, : row.shape[1] - size] * options[size])
        rows.append(row := following)
    return rows


@dataclass
class _Level:
    """All n-grams of one length: the nodes of a trie. `parent` is the node of the context."""

    parent: Numbers
    last: Numbers  # graphones
    shorter: Numbers  # the node of the same n-gram without its first graphone
    raw: Numbers  # how often it was seen
    first: Numbers  # where it was seen first
    count: Numbers  # the count that smoothing uses
    probability: Floats = field(init=False)
    kept: npt.NDArray[np.bool_] = field(init=False)
    backoff: Floats = field(init=False)


class _Counts:
    """Counts of all n-grams up to an order, as levels of a trie."""

    def __init__(self, words: Sequence[Sequence[Graphone]], order: int) -> None:
        self._order = order
        self._graphones = [BEGIN, END, *sorted({graphone for word in words for graphone in word})]
        number = {graphone: index for index, graphone in enumerate(self._graphones)}
        tokens = np.array([number[token] for word in words for token in (BEGIN, *word, END)])
        ends = np.flatnonzero(tokens == 1)
        remaining = ends[np.searchsorted(ends, np.arange(len(tokens)))] - np.arange(len(tokens)) + 1
        size = len(self._graphones)
        # ids[k][t]: the node of the k tokens that begin at t, or -1 if the word ends before.
        ids = [np.zeros(len(tokens), np.int64)]
        self.levels: list[_Level] = []
        for length in range(1, order + 1):
            at = np.flatnonzero(remaining >= length)
            keys, first, node, raw = np.unique(
                ids[-1][at] * size + tokens[at + length - 1], return_index=True, return_inverse=True, return_counts=True
            )
            here = np.full(len(tokens), -1)
            here[at] = node
            parent, last = np.divmod(keys, size)
            shorter = ids[length - 1][at[first] + 1] if length > 1 else np.zeros(len(keys), np.int64)
            self.levels.append(_Level(parent, last, shorter, raw, at[first], raw))
            ids.append(here)
        for shorter, longer in zip(self.levels, self.levels[1:], strict=False):
            # Below the highest order, the count is the number of different graphones before the n-gram. An n-gram at
            # the beginning of a word has nothing before it, and keeps its own count.
            different = np.bincount(longer.shorter, minlength=len(shorter.raw))
            shorter.count = np.where(tokens[shorter.first] == 0, shorter.raw, different)
        # The beginning of a word is never predicted.
        self.levels[0].count[0] = 0

    def model(self, least: float) -> LetterToSound:
        """Return the smoothed, pruned and quantised model."""
        self._smooth()
        self._prune(least)
        return self._quantised()

    def _smooth(self) -> None:
        """Compute the probabilities by interpolated modified Kneser-Ney smoothing."""
        lower = np.full(1, 1 / (len(self._graphones) - 1))
        for level in self.levels:
            count, parent = level.count, level.parent
            discount = _discounts(count)[np.minimum(count, 3)]
            total, freed = np.bincount(parent, count), np.bincount(parent, discount)
            level.probability = ((count - discount) + freed[parent] * lower[level.shorter]) / total[parent]
            lower = level.probability

    def _prune(self, least: float) -> None:
        """Mark the n-grams that stay, the longest first, and compute the back-off weights of their contexts."""
        needed = np.zeros(len(self.levels[-1].raw), bool)
        for number in range(self._order - 1, 0, -1):
            level, above = self.levels[number], self.levels[number - 1]
            lower = above.probability[level.shorter]
            remaining = 1 - np.bincount(level.parent, level.probability, len(above.raw))
            spare = 1 - np.bincount(level.parent, lower, len(above.raw))
            backoff = np.maximum(remaining, 1e-9) / np.maximum(spare, 1e-9)
            gain = level.raw * np.log(level.probability / (lower * backoff[level.parent]))
            level.kept = needed | (gain >= least)
            above.kept = needed = np.bincount(level.parent, level.kept, len(above.raw)) > 0
            kept = level.kept
            remaining = 1 - np.bincount(level.parent[kept], level.probability[kept], len(above.raw))
            spare = 1 - np.bincount(level.parent[kept], lower[kept], len(above.raw))
            above.backoff = np.maximum(remaining, 1e-9) / np.maximum(spare, 1e-9)
        self.levels[0].kept = np.ones(len(self.levels[0].raw), bool)

    def _quantised(self) -> LetterToSound:
        kept = [level.kept for level in self.levels]
        graphones = np.concatenate([level.last[stays] for level, stays in zip(self.levels, kept, strict=True)])
        probabilities = [level.probability[stays] for level, stays in zip(self.levels, kept, strict=True)]
        backoffs = [
            np.ones(1),
            *(level.backoff[stays] for level, stays in zip(self.levels[:-1], kept, strict=False)),
        ]
        children = [np.array([len(kept[0])])]
        children += [
            np.bincount(below.parent[below.kept], minlength=len(level.raw))[level.kept]
            for level, below in zip(self.levels, self.levels[1:], strict=False)
        ]
        scores, scale = _levels(np.log(np.maximum(np.concatenate(probabilities), 1e-9)))
        backoff_levels, backoff_scale = _levels(np.log(np.concatenate(backoffs)))
        tensors = {
            "graphones": _smallest(graphones),
            "children": _smallest(np.concatenate(children)),
            "scores": scores,
            "backoffs": backoff_levels,
        }
        return LetterToSound(
            self._graphones, tensors, {"scores": scale, "backoffs": backoff_scale, "order": [self._order]}
        )


def _discounts(count: Numbers) -> Floats:
    """Return the discounts of n-grams that were counted 0, 1, 2 and more times."""
    times = np.bincount(np.minimum(count, 5), minlength=6)[1:5].astype(float)
    if not times.all():
        return np.array([0, 0.5, 0.75, 0.9])  # too few words to tell
    ratio = times[0] / (times[0] + 2 * times[1])
    discounts = 1 + np.arange(3) - (2 + np.arange(3)) * ratio * times[1:] / times[:-1]
    return np.array([0, *discounts.clip(0.1, 2.9)])


def _levels(values: Floats) -> tuple[npt.NDArray[np.uint8], list[float]]:
    """Return the values as bytes, and the lowest value with the step from one byte to the next."""
    lowest = float(values.min())
    step = max(float(values.max()) - lowest, 1e-6) / 255
    return np.rint((values - lowest) / step).astype(np.uint8), [lowest, step]


def _smallest(numbers: Numbers) -> npt.NDArray[Any]:
    return numbers.astype(np.uint8 if numbers.max() < 256 else np.uint16)
