"""The trie of the search as tables: the lexicon, which all streams share, and small tries with the hotwords of streams.

The trie of a stream's hotwords lies in an area after the lexicon's nodes. Its first nodes are children of the same
root, so a hypothesis at the root may grow into either trie.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

from streamer.engine.language.lexicon import NO_NODE, ROOT, Lexicon
from streamer.engine.work import NotNow, Work, finish

# Columns of the table of nodes after base, parent, unit, and whether the parent has the same unit.
FIRST_WORD, WORD_COUNT, DEPTH = range(4, 7)
# This bounds the memory.
MOST_NODES = 1 << 22
# Three times what 200 long phrases need. So there is room for 64 streams, whatever hotwords they have.
MOST_NODES_A_STREAM = 1 << 16
_LEAST_GROWTH = 1 << 14


class TrieTables:
    """Tables by node and by word: the rows of the lexicon, then the areas of slots with hotwords."""

    def __init__(
        self, lexicon: Lexicon, worth: Callable[[Tensor], Tensor], unigrams: Tensor, homophones: int, boundary: int,
        streams: int,
    ) -> None:  # fmt: skip
        self._homophones, self._boundary = homophones, boundary
        self.shared = len(lexicon.base)
        self.table = finish(self._columns(lexicon)).int()
        # What every candidate needs is in tables of one column, in which a look-up takes a third of the time.
        self.parents = lexicon.parent.int()
        # Look-ahead: the worth of the best word below a node counts in advance, and is replaced where the word ends.
        self.ahead = worth(lexicon.look_ahead).float()
        self.words = pad(lexicon.words, (0, homophones))
        self.likely = worth(unigrams[self.words])
        self._shared_words = len(self.words)
        self._areas: dict[int, tuple[int, int]] = {}  # by slot: start and end
        if self.table.device.type == "cpu":
            # Extending the tables later would copy the lexicon while other streams wait. Unused memory costs nothing.
            self._extend(min(MOST_NODES, streams * MOST_NODES_A_STREAM))

    @property
    def most_bytes_a_stream(self) -> int:
        """How much memory the hotwords of one stream can take."""
        return MOST_NODES_A_STREAM * sum(tensor[0].nbytes for tensor, _ in self._parts())

    @property
    def hotword_bytes(self) -> int:
        """How much memory is reserved for hotwords. On a CPU it is in use only while streams have hotwords."""
        return sum((len(tensor) - shared) * tensor[0].nbytes for tensor, shared in self._parts())

    def _parts(self) -> tuple[tuple[Tensor, int], ...]:
        """The tables, and how many rows of each belong to the lexicon."""
        nodes, words = self.shared, self._shared_words
        by_node, by_word = (self.table, self.parents, self.ahead), (self.words, self.likely)
        return *((tensor, nodes) for tensor in by_node), *((tensor, words) for tensor in by_word)

    def put(self, slot: int, trie: Lexicon, words: Tensor, worth: Tensor) -> Work[int]:
        """Give a slot a trie whose words are indices into `words` and `worth`. Returns the base of its root.

        NotNow if there is no room for it at present; ValueError if it is too large.
        """
        self.remove(slot)
        size = max(len(trie.base), len(trie.words) + self._homophones)
        if size > MOST_NODES_A_STREAM:
            raise ValueError("the hotwords are too long in total: ask for fewer")
        start = self._room(size)
        self._areas[slot] = start, start + size
        columns = yield from self._columns(trie)
        columns[:, 0] += start
        columns[:, 1] += start * (columns[:, 1] > ROOT)
        offset = self._shared_words + start - self.shared
        columns[:, FIRST_WORD] += offset
        device, end = self.table.device, start + len(columns)
        yield
        self.table[start:end] = columns.int().to(device)
        yield
        self.parents[start:end] = columns[:, 1].int().to(device)
        self.ahead[start:end] = trie.look_ahead.exp().to(device)
        yield
        # A look-up of the homophones of the last word reads some entries after it.
        found = trie.words
        self.words[offset : offset + len(found) + self._homophones] = pad(words[found], (0, self._homophones)).to(
            device
        )
        self.likely[offset : offset + len(found) + self._homophones] = pad(worth[found], (0, self._homophones)).to(
            device
        )
        return start + int(trie.base[ROOT])

    def remove(self, slot: int) -> None:
        """Free the area of a slot."""
        start, end = self._areas.pop(slot, (0, 0))
        self.table[start:end, 1] = NO_NODE
        self.parents[start:end] = NO_NODE

    def _room(self, size: int) -> int:
        start = self.shared
        for begin, end in sorted(self._areas.values()):
            if begin - start >= size:
                return start
            start = end
        if start + size > self.shared + MOST_NODES:
            raise NotNow("there is no room for more hotwords now: ask for fewer, or try again later")
        missing = start + size - len(self.table)
        if missing > 0:
            self._extend(max(missing, min(_LEAST_GROWTH + len(self.table) - self.shared, MOST_NODES)))
        return start

    def _extend(self, rows: int) -> None:
        """Make room for more nodes. What lies there is undefined until an area is written."""
        for name in ("table", "parents", "ahead", "words", "likely"):
            tensor = getattr(self, name)
            longer = torch.empty(len(tensor) + rows, *tensor.shape[1:], dtype=tensor.dtype, device=tensor.device)
            longer[: len(tensor)] = tensor
            setattr(self, name, longer)

    def _columns(self, lexicon: Lexicon) -> Work[Tensor]:
        unit, parent = lexicon.units, lexicon.parent
        doubled = (unit == unit[parent]) & (parent > ROOT)
        unit[parent == NO_NODE] = self._boundary  # the unit before the root is a boundary
        first, count = lexicon.first[:-1], lexicon.first.diff().clamp(max=self._homophones)
        depths = yield from _depths(parent)
        return torch.stack((lexicon.base, parent, unit, doubled.long(), first, count, depths), 1)


def _depths(parent: Tensor) -> Work[Tensor]:
    """How many units lead to each node."""
    depths = torch.zeros_like(parent)
    above = parent
    while bool((above != NO_NODE).any()):
        depths += above != NO_NODE
        above = torch.where(above > ROOT, parent[above], NO_NODE)
        yield
    return depths
