"""Look-ups of the bonuses of hotwords, compiled (`compiled_loop.py`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamer.engine.compiled.compiled_loop import compiled_loop

# Odd 64-bit multipliers; their products wrap around, as they should in a hash.
_HISTORY_MIX, _WORD_MIX = -7046029254386353131, 2685821657736338717


class BonusArrays(NamedTuple):
    """The bonuses by last words, for each slot [slots, entries]. The keys of a row are sorted."""

    roots: NDArray[np.int64]  # [slots]: the base of the root of each stream's own trie; 0 if it has no hotwords
    keys: NDArray[np.int64]  # hashes of one to three words
    earned: NDArray[np.float64]  # kept for good
    lent: NDArray[np.float64]  # taken back at the next word
    own: NDArray[np.bool_]  # whether the key is one word that the stream's own trie contains


@compiled_loop
def extend_hash(history: int, word: int) -> int:
    """The hash of a word history after this word is appended."""
    found = (history ^ (word * _WORD_MIX)) * _HISTORY_MIX
    return found ^ (found >> 29)


@compiled_loop
def _place(bonuses: BonusArrays, slot: int, key: int) -> int:
    """The entry with this key, or -1."""
    keys = bonuses.keys[slot]
    place = np.searchsorted(keys, key)
    return place if place < len(keys) and keys[place] == key else -1


@compiled_loop
def is_own(bonuses: BonusArrays, slot: int, word: int) -> bool:
    """Whether a word is in the stream's own trie."""
    place = _place(bonuses, slot, extend_hash(0, word))
    return place >= 0 and bonuses.own[slot, place]


@compiled_loop
def lent_after(bonuses: BonusArrays, slot: int, older: int, last: int) -> float:
    """What a hypothesis that ends in these two words has on loan."""
    found = 0.0
    for key in (extend_hash(0, last), extend_hash(extend_hash(0, older), last)):
        place = _place(bonuses, slot, key)
        if place >= 0:
            found = max(found, bonuses.lent[slot, place])
    return found


@compiled_loop
def gain_of(bonuses: BonusArrays, slot: int, older: int, last: int, word: int) -> float:
    """What a word gains after these two words."""
    before = extend_hash(extend_hash(0, older), last)
    earned = 0.0
    for key in (extend_hash(0, word), extend_hash(extend_hash(0, last), word), extend_hash(before, word)):
        place = _place(bonuses, slot, key)
        if place >= 0:
            earned = max(earned, bonuses.earned[slot, place])
    return earned + lent_after(bonuses, slot, last, word) - lent_after(bonuses, slot, older, last)
