"""Compiled look-ups in the tables of the language model, one n-gram at a time (`compiled_loops.py`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamer.engine.compiled_loops import compiled_loop, inlined_loop

# The values of the tables are multiples of these. `language_model.py` packs them.
BIGRAM_STEP, TRIGRAM_STEP = 1 / 64, 1 / 32
# Back-off weights of bigrams are one byte, from -6 to 1.97.
BACK_OFF_STEP, BACK_OFF_ZERO = 1 / 32, 192
ABSENT = -1


class TableArrays(NamedTuple):
    """The arrays and numbers of an `NgramTable` for look-ups."""

    starts: NDArray[np.int32]
    entries: NDArray[np.signedinteger]  # type: ignore[type-arg]
    size: int  # the number of entries without the padding
    multiplier: int
    key_mask: int
    low_bits: int
    value_bits: int
    entry_mask: int  # the bits of an entry
    first_bit: int  # of an entry, which is inverted


class LanguageArrays(NamedTuple):
    """The arrays of a language model for the scores of words."""

    words: int
    unigrams: NDArray[np.float32]
    back_offs: NDArray[np.float32]
    pair_back_offs: NDArray[np.uint8]
    bigrams: TableArrays
    trigrams: TableArrays


@inlined_loop
def index_of(table: TableArrays, key: int) -> int:
    """Return the index of a key; ABSENT if the table does not have it."""
    mixed = (key * table.multiplier) & table.key_mask
    bucket = mixed >> table.low_bits
    starts, entries = table.starts, table.entries
    end = starts[bucket + 1] if bucket + 1 < len(starts) else table.size
    tag = (mixed << table.value_bits) & table.entry_mask
    for index in range(starts[bucket], end):
        stored = (np.int64(entries[index]) & table.entry_mask) ^ table.first_bit
        if (stored ^ tag) >> table.value_bits == 0:
            return index
    return ABSENT


@inlined_loop
def value_at(table: TableArrays, index: int) -> int:
    """Return the value of the key with this index."""
    return np.int64(table.entries[index]) & ((1 << table.value_bits) - 1)


@inlined_loop
def score(language: LanguageArrays, older: int, last: int, word: int) -> float:
    """Return the natural log of P(word | the two words before it)."""
    pair = index_of(language.bigrams, older * language.words + last)
    if pair != ABSENT:
        triple = index_of(language.trigrams, pair * language.words + word)
        if triple != ABSENT:
            return value_at(language.trigrams, triple) * -TRIGRAM_STEP
    bigram = index_of(language.bigrams, last * language.words + word)
    if bigram != ABSENT:
        lower = value_at(language.bigrams, bigram) * -BIGRAM_STEP
    else:
        lower = language.back_offs[last] + language.unigrams[word]
    if pair == ABSENT:
        return lower
    return (language.pair_back_offs[pair] - BACK_OFF_ZERO) * BACK_OFF_STEP + lower


@compiled_loop
def score_all(
    language: LanguageArrays, contexts: NDArray[np.int64], words: NDArray[np.int64], scores: NDArray[np.float32]
) -> None:
    """Compute the scores of words [n] after contexts [n, 2]."""
    for number in range(len(words)):
        scores[number] = score(language, contexts[number, 0], contexts[number, 1], words[number])
