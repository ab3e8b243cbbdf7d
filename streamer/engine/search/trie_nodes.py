"""The nodes that hypotheses walk on, as tables: the lexicon's, which all streams share, and those of their hotwords.

A stream's hotwords are a small trie of its own in an area behind the lexicon's nodes. Its first nodes are children of
the one ROOT, so that a hypothesis which waits there may grow into either.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

from streamer.engine.language.lexicon import NOBODY, ROOT, Lexicon

# Columns of the table of nodes behind base, parent, unit, and whether the parent's unit is the same.
FIRST, COUNT, DEPTH = range(4, 7)
# The numbers of nodes are compared as float32, which is exact so far; less, so that memory has a bound.
MOST_NODES = 1 << 22
_LEAST_GROWTH = 1 << 14


class TrieNodes:
    """Tables by node and by word: the lexicon's rows, then the areas of slots with hotwords."""

    def __init__(
        self, lexicon: Lexicon, worth: Callable[[Tensor], Tensor], unigrams: Tensor, homophones: int, boundary: int
    ) -> None:
        self._homophones, self._boundary = homophones, boundary
        self.shared = len(lexicon.base)
        self.table = self._columns(lexicon).int()
        # What the next word will pay at least is paid in advance, and taken back where it ends.
        ahead = worth(lexicon.look_ahead)
        self.look = torch.stack((lexicon.parent.float(), ahead.float()), 1)
        self.words = pad(lexicon.words, (0, homophones))
        self.likely = worth(unigrams[self.words])
        self._shared_words = len(self.words)
        self._areas: dict[int, tuple[int, int]] = {}  # of each slot: from, to

    def put(self, slot: int, trie: Lexicon, words: Tensor, worth: Tensor) -> int:
        """Give a slot a trie; its words are places in `words` and in what they are `worth`. Returns its root's base."""
        self.remove(slot)
        size = max(len(trie.base), len(trie.words))
        start = self._room(size)
        self._areas[slot] = start, start + size
        columns = self._columns(trie)
        columns[:, 0] += start
        columns[:, 1] += start * (columns[:, 1] > ROOT)
        offset = self._shared_words + start - self.shared
        columns[:, FIRST] += offset
        device, end = self.table.device, start + len(columns)
        self.table[start:end] = columns.int().to(device)
        self.look[start:end] = torch.stack((columns[:, 1].float(), trie.look_ahead.exp()), 1).to(device)
        found = trie.words
        self.words[offset : offset + len(found)] = words[found].to(device)
        self.likely[offset : offset + len(found)] = worth[found].to(device)
        return start + int(trie.base[ROOT])

    def remove(self, slot: int) -> None:
        """Free the area of a slot."""
        start, end = self._areas.pop(slot, (0, 0))
        self.table[start:end, 1] = NOBODY
        self.look[start:end, 0] = NOBODY

    def _room(self, size: int) -> int:
        start = self.shared
        for begin, end in sorted(self._areas.values()):
            if begin - start >= size:
                return start
            start = end
        missing = start + size - len(self.table)
        if missing > 0:
            more = max(missing, min(_LEAST_GROWTH + len(self.table) - self.shared, MOST_NODES))
            if start + size > self.shared + MOST_NODES:
                raise ValueError("there is no room for more hotwords now: ask for fewer, or try again later")
            self.table = pad(self.table, (0, 0, 0, more))
            self.look = pad(self.look, (0, 0, 0, more))
            self.table[-more:, 1] = NOBODY
            self.look[-more:, 0] = NOBODY
            self.words, self.likely = pad(self.words, (0, more)), pad(self.likely, (0, more))
        return start

    def _columns(self, lexicon: Lexicon) -> Tensor:
        unit, parent = lexicon.units, lexicon.parent
        doubled = (unit == unit[parent]) & (parent > ROOT)
        unit[parent == NOBODY] = self._boundary  # the last unit of those that wait at the root
        first, count = lexicon.first[:-1], lexicon.first.diff().clamp(max=self._homophones)
        return torch.stack((lexicon.base, parent, unit, doubled.long(), first, count, _depths(parent)), 1)


def _depths(parent: Tensor) -> Tensor:
    """How many units lead to each node."""
    depths = torch.zeros_like(parent)
    above = parent
    while bool((above != NOBODY).any()):
        depths += above != NOBODY
        above = torch.where(above > ROOT, parent[above], NOBODY)
    return depths
