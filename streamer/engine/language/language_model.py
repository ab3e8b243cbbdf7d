"""The language model: a Kneser-Ney trigram with back-off, memory-mapped.

`language.safetensors` has the words, the unigrams, and two tables (ngram_table.py). The index of a bigram in its table
is a part of the keys of the trigrams that continue it, and the index of its back-off weight. Log-probabilities are
stored as multiples of a step. The error is at most 1/64 for trigrams, 1/128 for bigrams and 1/64 for back-off weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from streamer.engine.array_memory import Arrays
from streamer.engine.language.ngram_loops import (
    BACK_OFF_STEP,
    BACK_OFF_ZERO,
    BIGRAM_STEP,
    TRIGRAM_STEP,
    LanguageArrays,
    TableArrays,
    score_all,
)
from streamer.engine.language.word_list import WordList
from streamer.engine.model_file import ModelFileKind

LANGUAGE_FILE = "language.safetensors"
RESERVED = ("<unk>", "<s>", "</s>")
SENTENCE_END = RESERVED.index("</s>")
_FILE = ModelFileKind("language model", "language", 1, "build_language_model.py")

Floats = npt.NDArray[np.float64]
ShortFloats = npt.NDArray[np.float32]

_NEVER = -99.0  # the log-probability of something impossible, such as the mark for the start of a sentence
# The sizes of values in the tables. Log-probabilities below -16 become -16.
_BIGRAM_BITS, _TRIGRAM_BITS = 10, 9


@dataclass(frozen=True)
class NgramArrays:
    """N-grams of one order: the numbers of their words [n, order], and natural logs of probabilities and back-offs."""

    ids: Integers
    log_probs: Floats
    back_offs: Floats


class LanguageModel:
    """P(word | the two words before it). Word 0 is any unknown word, 1 and 2 mark the start and end of a sentence."""

    start = (1, 1)

    def __init__(
        self,
        words: Sequence[str],
        unigrams: ShortFloats,
        back_offs: ShortFloats,
        pair_back_offs: npt.NDArray[np.uint8],
        bigrams: NgramTable,
        trigrams: NgramTable,
    ) -> None:
        self.words = words if isinstance(words, WordList) else WordList.of(words)
        self.unigrams = unigrams
        self._back_offs = back_offs
        self._pair_back_offs = pair_back_offs
        self._bigrams = bigrams
        self._trigrams = trigrams
        self.arrays = LanguageArrays(
            len(words), unigrams, back_offs, pair_back_offs, bigrams.look_ups(), trigrams.look_ups()
        )

    @property
    def vocabulary(self) -> str:
        """A fingerprint of the words and their numbers. A lexicon fits only the vocabulary it was built for."""
        return self.words.fingerprint

    @classmethod
    def load(cls, path: Path | str) -> LanguageModel:
        """Read a model. Its tables are memory-mapped, so all processes share them."""
        header, arrays = _FILE.read(path)
        with _FILE.parts(path):
            words = WordList(arrays["words"])
            unigrams, back_offs, pair_back_offs = (arrays[name] for name in ("unigrams", "back_offs", "pair_back_offs"))
            bigrams, trigrams = (NgramTable.unpack(name, arrays, header[name]) for name in ("bigrams", "trigrams"))
            return cls(words, unigrams, back_offs, pair_back_offs, bigrams, trigrams)

    @staticmethod
    def size(words: Sequence[str], bigrams: int, trigrams: int) -> int:
        """Return the size in bytes of a model file with this many n-grams, without its small header."""
        text = sum(len(word.encode()) + 1 for word in words)
        pairs = NgramTable.size(bigrams, _pair_bits(len(words)), _BIGRAM_BITS)
        triples = NgramTable.size(trigrams, _triple_bits(bigrams, len(words)), _TRIGRAM_BITS)
        return text + 8 * len(words) + bigrams + pairs + triples

    def save(self, path: Path | str) -> None:
        """Write the model, replacing the file as a whole."""
        arrays: Arrays = {
            "words": self.words.text,
            "unigrams": self.unigrams,
            "back_offs": self._back_offs,
            "pair_back_offs": self._pair_back_offs,
            **self._bigrams.arrays("bigrams"),
            **self._trigrams.arrays("trigrams"),
        }
        _FILE.write(path, arrays, {"bigrams": self._bigrams.numbers(), "trigrams": self._trigrams.numbers()})

    @classmethod
    def build(cls, words: Sequence[str], ngrams: Mapping[tuple[str, ...], tuple[float, float]]) -> LanguageModel:
        """Make a small model from words and {n-gram: (natural log of probability, of back-off weight)}."""
        vocabulary = list(words) if tuple(words[:3]) == RESERVED else [*RESERVED, *words]
        numbers = {word: number for number, word in enumerate(vocabulary)}
        unigrams = np.full((len(vocabulary), 2), (_NEVER, 0.0))
        longer: dict[int, list[tuple[list[int], float, float]]] = {2: [], 3: []}
        for ngram, (log_prob, back_off) in ngrams.items():
            ids = [numbers[word] for word in ngram]
            if len(ids) == 1:
                unigrams[ids[0]] = log_prob, back_off
            else:
                longer[len(ids)].append((ids, log_prob, back_off))
        orders = [
            NgramArrays(
                np.array([ids for ids, _, _ in longer[order]], dtype=np.int64).reshape(-1, order),
                np.array([log_prob for _, log_prob, _ in longer[order]]),
                np.array([back_off for _, _, back_off in longer[order]]),
            )
            for order in (2, 3)
        ]
        return cls.pack(vocabulary, unigrams[:, 0], unigrams[:, 1], *orders)

    @classmethod
    def pack(
        cls, words: list[str], unigrams: Floats, back_offs: Floats, bigrams: NgramArrays, trigrams: NgramArrays
    ) -> LanguageModel:
        """Make a model from arrays, rounded to the steps of the file. The context of a trigram must be a bigram."""
        size = len(words)
        keys = bigrams.ids[:, 0] * size + bigrams.ids[:, 1]
        values = _steps(bigrams.log_probs, BIGRAM_STEP, _BIGRAM_BITS)
        pairs, indices = NgramTable.pack(keys, values, _pair_bits(size), _BIGRAM_BITS)
        # There is at least one entry, so that a look-up without a result has an entry to read.
        pair_back_offs = np.zeros(max(len(keys), 1), dtype=np.uint8)
        rounded = np.rint(bigrams.back_offs / BACK_OFF_STEP) + BACK_OFF_ZERO
        pair_back_offs[indices] = np.clip(rounded, 0, 255).astype(np.uint8)

        contexts = trigrams.ids[:, 0] * size + trigrams.ids[:, 1]
        order = np.argsort(keys)
        places = np.searchsorted(keys, contexts, sorter=order) if len(keys) else np.zeros(len(contexts), dtype=np.int64)
        if len(contexts) and not (len(keys) and np.array_equal(keys[order[places.clip(max=len(keys) - 1)]], contexts)):
            raise ValueError("the first two words of a trigram are not a bigram of the model")
        trigram_keys = indices[order[places]] * size + trigrams.ids[:, 2] if len(contexts) else contexts
        trigram_values = _steps(trigrams.log_probs, TRIGRAM_STEP, _TRIGRAM_BITS)
        triples, _ = NgramTable.pack(trigram_keys, trigram_values, _triple_bits(len(keys), size), _TRIGRAM_BITS)
        return cls(
            words,
            np.asarray(unigrams, dtype=np.float32),
            np.asarray(back_offs, dtype=np.float32),
            pair_back_offs,
            pairs,
            triples,
        )

    def score(self, contexts: npt.ArrayLike, words: npt.ArrayLike) -> ShortFloats:
        """Return the natural log of P(word | context): contexts [..., 2], the older word first, and words [...]."""
        older_and_last, next_words = np.asarray(contexts, np.int64), np.asarray(words, np.int64)
        scores = np.empty(next_words.size, dtype=np.float32)
        flat = np.ascontiguousarray(older_and_last.reshape(-1, 2)), np.ascontiguousarray(next_words.reshape(-1))
        score_all(self.arrays, *flat, scores)
        return scores.reshape(next_words.shape)


def _pair_bits(words: int) -> int:
    return (words * words - 1).bit_length()


def _triple_bits(bigrams: int, words: int) -> int:
    return (max(bigrams, 1) * words - 1).bit_length()


def _steps(log_probs: Floats, step: float, bits: int) -> Integers:
    """Return log-probabilities as whole steps below zero."""
    return np.clip(np.rint(-log_probs / step), 0, (1 << bits) - 1).astype(np.int64)


# A compact and exact hash table for n-grams, memory-mapped, with four bytes per entry.

Integers = npt.NDArray[np.int64]

_LOAD = 10  # the greatest average number of entries in a bucket
_SPREAD_BITS = 2  # the bucket number may be this many bits longer if short tags are then enough
_GUARD = 3  # the least number of bits of the bucket number in the tag
_TRIALS = 64


@dataclass(frozen=True)
class NgramTable:
    """Distinct keys with small values. Each key has an index, which is a number below the size of the table."""

    starts: npt.NDArray[np.int32]  # the first entry of each bucket
    # Tag and value, in 32 or 64 bits. The first bit is inverted, so that signed numbers sort like unsigned ones.
    entries: npt.NDArray[np.signedinteger[Any]]
    multiplier: int
    key_bits: int
    low_bits: int  # the bits of a mixed key that do not name its bucket
    value_bits: int
    window: int

    @staticmethod
    def size(number: int, key_bits: int, value_bits: int) -> int:
        """Return the size in bytes of a table with this many keys, without the last window."""
        low_bits, entry_bits = _layout(number, key_bits, value_bits)
        return number * entry_bits // 8 + (4 << key_bits - low_bits)

    @classmethod
    def pack(cls, keys: Integers, values: Integers, key_bits: int, value_bits: int) -> tuple[NgramTable, Integers]:
        """Make a table of keys below 2 ** key_bits and values below 2 ** value_bits. Also return each key's index."""
        low_bits, entry_bits = _layout(len(keys), key_bits, value_bits)
        reach = 1 << min(entry_bits - value_bits - low_bits, key_bits - low_bits + 1)
        rng = np.random.default_rng(0)
        for _ in range(_TRIALS):
            multiplier = int(rng.integers(1 << key_bits)) | 1
            mixed = (keys * multiplier) & ((1 << key_bits) - 1)
            bounds = np.concatenate([[0], np.bincount(mixed >> low_bits, minlength=1 << key_bits - low_bits).cumsum()])
            window = max(1, int(np.diff(bounds).max()))
            if len(bounds) <= reach or int((bounds[reach:] - bounds[:-reach]).min()) >= window:
                break
        else:
            raise ValueError(f"{len(keys)} keys of {key_bits} bits fill the buckets too unevenly for a table")
        order = np.argsort(mixed)
        # The padding after the last entry consists of entries of a bucket that does not exist.
        entries = np.full(len(keys) + window, 1 << key_bits + value_bits, dtype=np.int64)
        entries[: len(keys)] = (mixed[order] << value_bits) | values[order]
        indices = np.empty(len(keys), dtype=np.int64)
        indices[order] = np.arange(len(keys))
        inverted = entries ^ (1 << 31) if entry_bits == 32 else entries ^ np.int64(-(1 << 63))
        stored: npt.NDArray[Any] = inverted.astype(np.int32 if entry_bits == 32 else np.int64)
        starts = bounds[:-1].astype(np.int32)
        return cls(starts, stored, multiplier, key_bits, low_bits, value_bits, window), indices

    def look_ups(self) -> TableArrays:
        """Return the arrays and numbers for the compiled look-ups. They share the memory of this table."""
        narrow = self.entries.dtype == np.int32
        return TableArrays(
            starts=self.starts,
            entries=self.entries,
            size=len(self.entries) - self.window,
            multiplier=self.multiplier,
            key_mask=(1 << self.key_bits) - 1,
            low_bits=self.low_bits,
            value_bits=self.value_bits,
            entry_mask=(1 << 32) - 1 if narrow else -1,
            first_bit=1 << 31 if narrow else -(1 << 63),
        )

    def arrays(self, prefix: str) -> Arrays:
        """Return the arrays to store in a file, by name."""
        return {f"{prefix}.starts": self.starts, f"{prefix}.entries": self.entries}

    def numbers(self) -> dict[str, int]:
        """Return the numbers to store in a file."""
        names = ("multiplier", "key_bits", "low_bits", "value_bits", "window")
        return {name: int(getattr(self, name)) for name in names}

    @classmethod
    def unpack(cls, prefix: str, arrays: Arrays, numbers: Mapping[str, int]) -> NgramTable:
        """Make the table from the arrays and numbers of a file."""
        return cls(arrays[f"{prefix}.starts"], arrays[f"{prefix}.entries"], **numbers)


def _layout(number: int, key_bits: int, value_bits: int) -> tuple[int, int]:
    """Return the number of low bits of a mixed key, and the number of bits of an entry: 32 if tag and value fit."""
    low_bits = max(0, key_bits - (number // _LOAD).bit_length())
    narrow = 32 - value_bits - _GUARD
    if low_bits - _SPREAD_BITS <= narrow and low_bits > _SPREAD_BITS:
        return min(low_bits, narrow), 32
    return low_bits, 32 if low_bits <= narrow else 64
