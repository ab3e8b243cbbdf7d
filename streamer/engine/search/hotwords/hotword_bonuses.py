"""The bonuses of hotwords. A complete phrase earns its bonus; an incomplete one is lent a part of it.

A phrase earns its bonus with its last word; up to three last words identify it. After each earlier word, a part of the
bonus is lent. This part depends only on the last two words, like the language model, so hotwords do not prevent
hypotheses from being merged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from streamer.engine.search.hotwords.bonus_loops import BonusArrays, extend_hash
from streamer.engine.work.parts import Work

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
