"""Compiled look-ups of the bonuses of hotwords (`compiled_loop.py`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamer.engine.compiled.compiled_loop import compiled_loop

# Odd 64-bit multipliers for a hash. Their products wrap around.
_HISTORY_MIX, _WORD_MIX = -7046029254386353131, 2685821657736338717


class BonusArrays(NamedTuple):
    """The bonuses by last words, for each slot [slots, entries]. The keys of a row are sorted."""

    roots: NDArray[np.int64]  # [slots]: the base of the root of the trie of each stream; 0 if it has no hotwords
    keys: NDArray[np.int64]  # hashes of one to three words
    earned: NDArray[np.float64]  # the bonus that the hypothesis keeps
    lent: NDArray[np.float64]  # the bonus that it gives back at the next word
    own: NDArray[np.bool_]  # whether the key is one word that the trie of the stream contains


@compiled_loop
def extend_hash(history: int, word: int) -> int:
    """Return the hash of a history of words after this word is appended."""
    mixed = (history ^ (word * _WORD_MIX)) * _HISTORY_MIX
    return mixed ^ (mixed >> 29)


@compiled_loop
def _place(bonuses: BonusArrays, slot: int, key: int) -> int:
    """Return the place of the entry with this key; -1 if there is none."""
    keys = bonuses.keys[slot]
    place = np.searchsorted(keys, key)
    return place if place < len(keys) and keys[place] == key else -1


@compiled_loop
def is_own(bonuses: BonusArrays, slot: int, word: int) -> bool:
    """Return whether a word is in the trie of the stream."""
    place = _place(bonuses, slot, extend_hash(0, word))
    return place >= 0 and bonuses.own[slot, place]


@compiled_loop
def lent_after(bonuses: BonusArrays, slot: int, older: int, last: int) -> float:
    """Return the bonus that is lent to a hypothesis after these two words."""
    lent = 0.0
    for key in (extend_hash(0, last), extend_hash(extend_hash(0, older), last)):
        place = _place(bonuses, slot, key)
        if place >= 0:
            lent = max(lent, bonuses.lent[slot, place])
    return lent


@compiled_loop
def gain_of(bonuses: BonusArrays, slot: int, older: int, last: int, word: int) -> float:
    """Return the bonus of a word after these two words."""
    before = extend_hash(extend_hash(0, older), last)
    earned = 0.0
    for key in (extend_hash(0, word), extend_hash(extend_hash(0, last), word), extend_hash(before, word)):
        place = _place(bonuses, slot, key)
        if place >= 0:
            earned = max(earned, bonuses.earned[slot, place])
    return earned + lent_after(bonuses, slot, last, word) - lent_after(bonuses, slot, older, last)
