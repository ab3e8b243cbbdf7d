"""The lexicon: a trie with the pronunciations of all words in the units of a CTC head.

The trie is a double array, and a node is an index. The child of `node` by `unit` is at `base[node] + unit`. It exists
if `parent` at that index is `node`. So a look-up of any number of children takes two gathers and a comparison.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamer.engine.array_memory import Arrays, array_with_room
from streamer.engine.file_cache import cached_arrays, fingerprint
from streamer.engine.model_file import ModelFileKind
from streamer.engine.waiting import NotNow, Work, finish

ROOT = 0
NO_NODE = -1
MOST_UNITS = (
    64  # of a head; the arrays go on for as many entries after the last base, so that any unit can be looked up
)
_FILE = ModelFileKind("lexicon", "lexicon", "streamer-lexicon-1", "build_lexicon.py")
# A lexicon is built in parts of these sizes. Each part takes some tenths of a millisecond.
_PRONUNCIATIONS_A_PART = 16
_NODES_A_PART = 256

Pronunciation = tuple[int, Sequence[int]]
"""The number of a word, and the units of one of its pronunciations."""


class Lexicon:
    """A trie with the words that end at its nodes and, for every node, the best unigram below it."""

    def __init__(self, arrays: Arrays, vocabulary: str = "") -> None:
        self._arrays = arrays
        self.vocabulary = vocabulary  # the fingerprint of the words and their numbers
        self.base: NDArray[np.int32] = arrays["base"]
        self.parent: NDArray[np.int32] = arrays["parent"]
        # The words that end at `node` are `words[first[node] : first[node + 1]]`, likeliest first.
        self.words: NDArray[np.int32] = arrays["words"]
        self.homophones = int(np.bincount(arrays["ends"]).max())

    def __len__(self) -> int:
        """Return the number of nodes of the trie, including the root."""
        return 1 + np.count_nonzero(self.parent != NO_NODE)

    @classmethod
    def build(
        cls, pronunciations: Iterable[Pronunciation], unigrams: NDArray[np.floating[Any]], vocabulary: str = ""
    ) -> Lexicon:
        """Make the trie of these pronunciations. `unigrams` are natural logs of probabilities by number of a word."""
        return finish(cls.build_in_parts(pronunciations, unigrams, vocabulary))

    @classmethod
    def build_in_parts(
        cls, pronunciations: Iterable[Pronunciation], unigrams: NDArray[np.floating[Any]], vocabulary: str = ""
    ) -> Work[Lexicon]:
        """Do the work of `build` in parts."""
        scores: list[float] = unigrams.tolist()
        children: list[dict[int, int]] = [{}]
        best = [float("-inf")]
        ends: dict[int, set[int]] = {}
        for number, (word, units) in enumerate(pronunciations):
            if not number % _PRONUNCIATIONS_A_PART:
                yield
            if not units or not 0 < min(units) <= max(units) < MOST_UNITS:
                raise ValueError(f"word number {word} needs a pronunciation in units from 1 to {MOST_UNITS - 1}")
            node, score = ROOT, scores[word]
            best[ROOT] = max(best[ROOT], score)
            for unit in units:
                child = children[node].setdefault(unit, len(children))
                if child == len(children):
                    children.append({})
                    best.append(score)
                node = child
                best[node] = max(best[node], score)
            ends.setdefault(node, set()).add(word)
        if not ends:
            raise ValueError("a lexicon needs at least one pronunciation")
        indices, bases = yield from _node_indices(children)
        size = max(max(indices), max(bases)) + MOST_UNITS
        base, parent = np.zeros(size, np.int32), np.full(size, NO_NODE, np.int32)
        look_ahead = np.full(size, -np.inf, np.float16)
        yield
        for start in range(0, len(children), _NODES_A_PART):
            part = slice(start, start + _NODES_A_PART)
            base[indices[part]] = bases[part]
            look_ahead[indices[part]] = best[part]
            for index, row in zip(indices[part], children[part], strict=True):
                for child in row.values():
                    parent[indices[child]] = index
            for row in children[part]:
                row.clear()  # to free all of them at the end would take too long
            yield
        end_nodes: list[int] = []
        words: list[int] = []
        for number, (node, node_words) in enumerate(ends.items()):
            if not number % _NODES_A_PART:
                yield
            end_nodes += [indices[node]] * len(node_words)
            words += sorted(node_words, key=lambda word: (-scores[word], word))
        columns = np.array([end_nodes, words], dtype=np.int32)
        columns = columns[:, columns[0].argsort(kind="stable")]  # the likeliest word of a node stays first
        yield
        arrays: Arrays = {"base": base, "parent": parent, "look_ahead": look_ahead}
        arrays |= {"ends": columns[0].copy(), "words": columns[1].copy()}
        return cls(arrays, vocabulary)

    def save(self, path: Path | str) -> None:
        """Write the lexicon, replacing the file as a whole."""
        description = {"nodes": len(self), "pronunciations": len(self.words), "vocabulary": self.vocabulary}
        _FILE.write(path, self._arrays, description)

    @classmethod
    def load(cls, path: Path | str) -> Lexicon:
        """Read a lexicon that `save` wrote."""
        description, arrays = _FILE.read(path)
        with _FILE.parts(path):
            return cls(arrays, description.get("vocabulary", ""))

    @property
    def first(self) -> NDArray[np.int64]:
        """The place in `words` of the first word that ends at each node, or at a later one."""
        counts = np.bincount(self._arrays["ends"], minlength=len(self.base))
        return np.concatenate([[0], counts.cumsum()])

    @property
    def look_ahead(self) -> NDArray[np.float32]:
        """The best natural-log unigram of the words below each node; minus infinity at unused indices."""
        return self._arrays["look_ahead"].astype(np.float32)

    def pronunciations(self) -> Iterator[Pronunciation]:
        """Yield all pronunciations, in the order of their nodes."""
        units, parents, words = self.units.tolist(), self.parent.tolist(), self.words.tolist()
        for word, end in zip(words, self._arrays["ends"].tolist(), strict=True):
            path, node = [], end
            while node != ROOT:
                path.append(units[node])
                node = parents[node]
            yield word, tuple(reversed(path))

    @property
    def stored(self) -> list[NDArray[Any]]:
        """All arrays of the lexicon."""
        return list(self._arrays.values())

    def arrays(self) -> tuple[NDArray[np.int32], ...]:
        """Return the end node and the word of each pronunciation, and the parent and the base of each node."""
        return self._arrays["ends"], self.words, self.parent, self.base

    @property
    def units(self) -> NDArray[np.int32]:
        """The unit that leads to each node. It is meaningless for the root and for unused indices."""
        return np.arange(len(self.base), dtype=np.int32) - self.base[self.parent]


def _node_indices(children: list[dict[int, int]]) -> Work[tuple[list[int], list[int]]]:
    """Return an index for every node and a base for its children, by first fit, so that no two nodes share an index."""
    indices, bases = [ROOT] * len(children), [0] * len(children)
    used = bytearray(1)
    used[ROOT] = 1
    work = 0
    # The search for a place starts at the place of the last row with as many children. Shorter rows fill the gaps.
    next_bases: dict[int, int] = {}
    for nodes in (yield from _by_children(children)):
        for node in nodes:
            row = children[node]
            units = sorted(row)
            lowest, span = units[0], units[-1] + 1
            base = max(next_bases.get(len(units), 0), 1 - lowest)
            while True:
                work += 1
                if not work % _NODES_A_PART:
                    yield
                free = used.find(0, base + lowest)
                base = (free if free >= 0 else max(len(used), base + lowest)) - lowest
                used.extend(bytes(max(0, base + span - len(used))))
                if not any(used[base + unit] for unit in units):
                    break
                base += 1
            next_bases[len(units)] = base
            bases[node] = base
            for unit in units:
                used[base + unit] = 1
                indices[row[unit]] = base + unit
    return indices, bases


def _by_children(children: list[dict[int, int]]) -> Work[list[list[int]]]:
    """Return the nodes that have children, grouped by their number of children, the greatest number first."""
    by_count: list[list[int]] = [[] for _ in range(MOST_UNITS)]
    for start in range(0, len(children), 4 * _NODES_A_PART):
        for node, row in enumerate(children[start : start + 4 * _NODES_A_PART], start):
            by_count[len(row)].append(node)
        yield
    return [nodes for nodes in reversed(by_count[1:]) if nodes]


# The tries of the search as tables: the lexicon, which all streams share, and the tries of hotwords of streams.

# Columns of the table of nodes. DOUBLED: whether the parent has the same unit.
_COLUMNS = 7
BASE, PARENT, UNIT, DOUBLED, FIRST_WORD, WORD_COUNT, DEPTH = range(_COLUMNS)
MOST_NODES = 1 << 22  # the limit for the hotwords of all streams, which bounds the memory
# Three times as many as 200 long phrases need. So there is always room for the hotwords of 64 streams.
MOST_NODES_A_STREAM = 1 << 16
_LEAST_GROWTH = 1 << 14


class TrieArrays(NamedTuple):
    """Tables by node and by word, for the compiled loops."""

    shared: int  # the number of nodes of the lexicon
    table: NDArray[np.int32]
    # Numbers that every candidate needs are in tables of one column, where a look-up takes a third of the time.
    children: NDArray[np.int64]  # the units that lead to children, as bits
    # The look-ahead: the worth of the best word below a node counts in advance, and is replaced at the end of a word.
    ahead: NDArray[np.float32]
    words: NDArray[np.int64]
    likely: NDArray[np.float64]  # the worth of each of these words without a context


@dataclass(frozen=True)
class Worth:
    """Turns log-probabilities of the language model into the factors of words in the mass of a hypothesis."""

    weight: float
    bonus: float  # of every word

    def __call__(self, log_probabilities: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the factor of a word with each of these log-probabilities."""
        return np.exp(log_probabilities.astype(np.float64) * self.weight + self.bonus)


class TrieTables:
    """The rows of the lexicon, which all processes share, then the areas of slots with hotwords."""

    def __init__(
        self,
        lexicon: Lexicon,
        worth: Worth,
        unigrams: NDArray[np.float32],
        homophones: int,
        boundary: int,
        streams: int,
    ) -> None:
        """`homophones` limits the words at a node."""
        self._homophones, self._boundary = homophones, boundary
        key = fingerprint(*lexicon.stored, unigrams, f"{worth} {homophones} {boundary}")
        size = _COLUMNS * lexicon.base.nbytes
        cached = cached_arrays("trie", key, size, lambda: self._shared(lexicon, worth, unigrams))
        self.arrays, self._places = TrieArrays(len(lexicon.base), **cached.arrays), cached.places
        self._shared_words = len(lexicon.words)
        self._areas: dict[int, tuple[int, int]] = {}  # by slot: start and end
        # Extending the tables later would copy hotwords while other streams wait. Unused memory costs nothing.
        self._extend(min(MOST_NODES, streams * MOST_NODES_A_STREAM))

    def _shared(self, lexicon: Lexicon, worth: Worth, unigrams: NDArray[np.float32]) -> Arrays:
        """Return the rows of the lexicon, by the fields of `TrieArrays`."""
        columns, words = finish(self._columns(lexicon)), lexicon.words
        return {
            "table": columns,
            "children": _children(columns[:, PARENT], columns[:, UNIT]),
            "ahead": worth(lexicon.look_ahead).astype(np.float32),
            "words": words.astype(np.int64),
            "likely": worth(unigrams[words]),
        }

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
        by_node, by_word = (arrays.table, arrays.children, arrays.ahead), (arrays.words, arrays.likely)
        return [*((array, arrays.shared) for array in by_node), *((array, self._shared_words) for array in by_word)]

    def put(self, slot: int, trie: Lexicon, words: NDArray[np.int64], worth: NDArray[np.float64]) -> Work[int]:
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
        children = _children(columns[:, PARENT], columns[:, UNIT])
        yield
        columns[:, BASE] += start
        columns[:, PARENT] += start * (columns[:, PARENT] > ROOT)
        offset = self._shared_words + start - self.arrays.shared
        columns[:, FIRST_WORD] += offset
        end, last = start + len(columns), offset + len(trie.words)
        yield
        self.arrays.table[start:end] = columns
        yield
        self.arrays.children[start:end] = children
        self.arrays.ahead[start:end] = np.exp(trie.look_ahead)
        yield
        self.arrays.words[offset:last] = words[trie.words]
        self.arrays.likely[offset:last] = worth[trie.words]
        return start + int(trie.base[ROOT])

    def remove(self, slot: int) -> None:
        """Free the area of a slot."""
        start, end = self._areas.pop(slot, (0, 0))
        self.arrays.table[start:end, PARENT] = NO_NODE
        self.arrays.children[start:end] = 0

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
        fields: list[object] = []
        for name, array in self.arrays._asdict().items():
            if name != "shared":
                place = self._places.get(name)
                kept = place.shape[0] if place else 0  # what is in the file need not be copied
                longer = array_with_room(array.dtype, (len(array) + rows, *array.shape[1:]), place)
                longer[kept : len(array)] = array[kept:]
                array = longer
            fields.append(array)
        self.arrays = TrieArrays._make(fields)

    def _columns(self, lexicon: Lexicon) -> Work[NDArray[np.int32]]:
        unit, parent = lexicon.units, lexicon.parent
        doubled = (unit == unit[parent]) & (parent > ROOT)
        unit[parent == NO_NODE] = self._boundary  # the root comes after a boundary
        first, count = lexicon.first[:-1], np.minimum(np.diff(lexicon.first), self._homophones)
        depths = yield from _depths(parent)
        columns = np.empty((len(parent), _COLUMNS), np.int32)
        for number, column in enumerate((lexicon.base, parent, unit, doubled, first, count, depths)):
            columns[:, number] = column
        return columns


def _children(parent: NDArray[np.int32], unit: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the units that lead to the children of each node, as bits."""
    children = np.zeros(len(parent), np.int64)
    for first in (0, MOST_UNITS // 2):  # the sum of half of the bits is exact
        there = (parent != NO_NODE) & (unit >= first) & (unit < first + MOST_UNITS // 2)
        bits = np.bincount(parent[there], 2.0 ** (unit[there] - first), len(parent))
        children |= bits.astype(np.int64) << first
    return children


def _depths(parent: NDArray[np.int32]) -> Work[NDArray[np.int32]]:
    """Return the number of units that lead to each node."""
    depths = np.zeros_like(parent)
    above = parent
    while (above != NO_NODE).any():
        depths += above != NO_NODE
        above = np.where(above > ROOT, parent[above], np.int32(NO_NODE))
        yield
    return depths
