"""The tries of the search as tables: the lexicon, which all streams share, and the tries of hotwords of streams.

The trie with the hotwords of a stream lies in an area after the nodes of the lexicon. Its first nodes are children of
the same root, so a hypothesis at the root may grow into both tries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from streamer.engine.language.lexicon import NO_NODE, ROOT, Lexicon
from streamer.engine.work.parts import NotNow, Work, finish

# Columns of the table of nodes. DOUBLED: whether the parent has the same unit.
BASE, PARENT, UNIT, DOUBLED, FIRST_WORD, WORD_COUNT, DEPTH = range(7)
MOST_NODES = 1 << 22  # the limit for the hotwords of all streams, which bounds the memory
# Three times as many as 200 long phrases need. So there is always room for the hotwords of 64 streams.
MOST_NODES_A_STREAM = 1 << 16
_LEAST_GROWTH = 1 << 14


class TrieArrays(NamedTuple):
    """Tables by node and by word, for the compiled loops."""

    shared: int  # the number of nodes of the lexicon
    table: NDArray[np.int32]
    # Numbers that every candidate needs are in tables of one column, where a look-up takes a third of the time.
    parents: NDArray[np.int32]
    # The look-ahead: the worth of the best word below a node counts in advance, and is replaced at the end of a word.
    ahead: NDArray[np.float32]
    words: NDArray[np.int64]
    likely: NDArray[np.float64]  # the worth of each of these words without a context


class TrieTables:
    """The rows of the lexicon, then the areas of slots with hotwords."""

    def __init__(
        self,
        lexicon: Lexicon,
        worth: Callable[[Tensor], Tensor],
        unigrams: Tensor,
        homophones: int,
        boundary: int,
        streams: int,
    ) -> None:
        """`worth` turns log-probabilities into factors of a score. `homophones` limits the words at a node."""
        self._homophones, self._boundary = homophones, boundary
        columns, words = finish(self._columns(lexicon)), lexicon.words
        self.arrays = TrieArrays(
            shared=len(columns),
            table=columns,
            parents=np.ascontiguousarray(columns[:, PARENT]),
            ahead=worth(lexicon.look_ahead).float().numpy(),
            words=words.numpy(),
            likely=worth(unigrams[words]).numpy(),
        )
        self._shared_words = len(words)
        self._areas: dict[int, tuple[int, int]] = {}  # by slot: start and end
        # Extending the tables later would copy the lexicon while other streams wait. Unused memory costs nothing.
        self._extend(min(MOST_NODES, streams * MOST_NODES_A_STREAM))

    @property
    def most_bytes_a_stream(self) -> int:
        """The most memory that the hotwords of one stream can take."""
        return MOST_NODES_A_STREAM * sum(array[0].nbytes for array, _ in self._parts())

    @property
    def hotword_bytes(self) -> int:
        """The memory that is reserved for hotwords. It is in use only while streams have hotwords."""
        return sum((len(array) - shared) * array[0].nbytes for array, shared in self._parts())

    def _parts(self) -> list[tuple[NDArray[np.generic], int]]:
        """Return the tables, and how many rows of each belong to the lexicon."""
        arrays = self.arrays
        by_node, by_word = (arrays.table, arrays.parents, arrays.ahead), (arrays.words, arrays.likely)
        return [*((array, arrays.shared) for array in by_node), *((array, self._shared_words) for array in by_word)]

    def put(self, slot: int, trie: Lexicon, words: Tensor, worth: Tensor) -> Work[int]:
        """Give a slot a trie whose words are indices into `words` and `worth`. Return the base of its root.

        NotNow if there is no room for it now; ValueError if it is too large.
        """
        self.remove(slot)
        size = max(len(trie.base), len(trie.words))
        if size > MOST_NODES_A_STREAM:
            raise ValueError("the hotwords are too long in total: ask for fewer")
        start = self._room(size)
        self._areas[slot] = start, start + size
        columns = yield from self._columns(trie)
        columns[:, BASE] += start
        columns[:, PARENT] += start * (columns[:, PARENT] > ROOT)
        offset = self._shared_words + start - self.arrays.shared
        columns[:, FIRST_WORD] += offset
        end, last = start + len(columns), offset + len(trie.words)
        yield
        self.arrays.table[start:end] = columns
        yield
        self.arrays.parents[start:end] = columns[:, PARENT]
        self.arrays.ahead[start:end] = trie.look_ahead.exp().numpy()
        yield
        self.arrays.words[offset:last] = words[trie.words].numpy()
        self.arrays.likely[offset:last] = worth[trie.words].numpy()
        return start + int(trie.base[ROOT])

    def remove(self, slot: int) -> None:
        """Free the area of a slot."""
        start, end = self._areas.pop(slot, (0, 0))
        self.arrays.table[start:end, PARENT] = NO_NODE
        self.arrays.parents[start:end] = NO_NODE

    def _room(self, size: int) -> int:
        start = self.arrays.shared
        for begin, end in sorted(self._areas.values()):
            if begin - start >= size:
                return start
            start = end
        if start + size > self.arrays.shared + MOST_NODES:
            raise NotNow("there is no room for more hotwords now: ask for fewer, or try again later")
        missing = start + size - len(self.arrays.table)
        if missing > 0:
            self._extend(max(missing, min(_LEAST_GROWTH + len(self.arrays.table) - self.arrays.shared, MOST_NODES)))
        return start

    def _extend(self, rows: int) -> None:
        """Make room for more nodes. The new rows are undefined until an area is written."""
        longer: dict[str, Any] = {}
        for name, array in self.arrays._asdict().items():
            if name != "shared":
                longer[name] = np.empty((len(array) + rows, *array.shape[1:]), dtype=array.dtype)
                longer[name][: len(array)] = array
        self.arrays = self.arrays._replace(**longer)

    def _columns(self, lexicon: Lexicon) -> Work[NDArray[np.int32]]:
        unit, parent = lexicon.units, lexicon.parent
        doubled = (unit == unit[parent]) & (parent > ROOT)
        unit[parent == NO_NODE] = self._boundary  # the root comes after a boundary
        first, count = lexicon.first[:-1], lexicon.first.diff().clamp(max=self._homophones)
        depths = yield from _depths(parent)
        columns = torch.stack((lexicon.base, parent, unit, doubled.long(), first, count, depths), 1)
        array: NDArray[np.int32] = columns.int().numpy()
        return array


def _depths(parent: Tensor) -> Work[Tensor]:
    """Return the number of units that lead to each node."""
    depths = torch.zeros_like(parent)
    above = parent
    while bool((above != NO_NODE).any()):
        depths += above != NO_NODE
        above = torch.where(above > ROOT, parent[above], NO_NODE)
        yield
    return depths
