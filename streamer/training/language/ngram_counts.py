"""The vocabulary, and counts of n-grams.

An n-gram is an int64 with 17 bits for each word. If n-grams are sorted, those with the same context are neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamer.training.language.text_sources import SENTENCE_END, Ids

Keys = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

BITS = 17
MASK = (1 << BITS) - 1
UNKNOWN_ID, START_ID, END_ID = 0, 1, 2
RESERVED = ["<unk>", "<s>", "</s>"]


@dataclass
class Counts:
    """The distinct bigrams and trigrams of a text and how often each was seen."""

    bigrams: Keys
    bigram_counts: Keys
    trigrams: Keys
    trigram_counts: Keys


def choose_vocabulary(words: list[str], weights: Floats, size: int) -> list[str]:
    """Return `size` words: the reserved ones, then those with the most weight. `words` begins with the unknown word."""
    ranked = np.argsort(-weights[1:], kind="stable") + 1
    kept = [words[number] for number in ranked[: size - len(RESERVED)] if weights[number] > 0]
    return RESERVED + kept


def with_sentence_marks(ids: Ids, renumbered: Ids) -> Ids:
    """Return texts as numbers of the vocabulary, with marks at the start and the end of each sentence."""
    marked = np.where(ids == SENTENCE_END, END_ID, renumbered[ids])  # what SENTENCE_END reads is not used
    ends = np.flatnonzero(ids == SENTENCE_END)
    starts = np.concatenate([[0], ends[:-1] + 1])
    return np.insert(marked, starts, START_ID).astype(np.int32)


def count(text: Ids) -> Counts:
    """Count a text that `with_sentence_marks` made."""
    wide = text.astype(np.int64)
    pairs = (wide[:-1] << BITS) | wide[1:]
    triples = (pairs[:-1] << BITS) | wide[2:]
    inside = text[:-1] != END_ID  # no n-gram spans two sentences
    bigrams, bigram_counts = _counted(pairs[inside])
    trigrams, trigram_counts = _counted(triples[inside[:-1] & inside[1:]])
    return Counts(bigrams, bigram_counts, trigrams, trigram_counts)


def look_up(sorted_keys: Keys, values: Floats, keys: Keys, missing: Floats | float) -> Floats:
    """Return the value of each key, or `missing` for those that are not there."""
    if not len(sorted_keys):
        return np.broadcast_to(missing, keys.shape).astype(np.float64)
    indices = np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
    return np.where(sorted_keys[indices] == keys, values[indices], missing)


def _counted(keys: Keys) -> tuple[Keys, Keys]:
    keys.sort()
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])) if len(keys) else np.empty(0, np.int64)
    return keys[first], np.diff(np.append(first, len(keys)))
