"""The lexicon: the pronunciations of all words as one trie over the units of a CTC head, packed for look-ups.

The trie is a double array, and a node is its index: the child of `node` by `unit` is at `base[node] + unit`, and exists
if `parent` at that index equals `node`. Looking up any number of children takes two gathers and a comparison.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from streamer.engine.model_file import ModelFileKind
from streamer.engine.work.parts import Work, finish

ROOT = 0
NO_NODE = -1
MOST_UNITS = 64  # of a head; there is as much room after the last base, so that any unit can be looked up
_FILE = ModelFileKind("lexicon", "lexicon", "streamer-lexicon-1", "build_lexicon.py")
# The sizes of the parts in which a lexicon is built: each part takes some tenths of a millisecond.
_PRONUNCIATIONS_A_PART = 16
_NODES_A_PART = 256

Pronunciation = tuple[int, Sequence[int]]
"""The number of a word, and the units of one of its pronunciations."""


class Lexicon:
    """A trie with the words that end at its nodes and, for every node, the best unigram below it."""

    def __init__(self, tensors: dict[str, Tensor], vocabulary: str = "") -> None:
        self._tensors = tensors
        self.vocabulary = vocabulary  # the fingerprint of the words that the numbers stand for
        self.base = tensors["base"].long()
        self.parent = tensors["parent"].long()
        # The best natural-log unigram of the words below each node; minus infinity at unused indices.
        self.look_ahead = tensors["look_ahead"].float()
        # The words that end at `node` are `words[first[node] : first[node + 1]]`, likeliest first.
        self.words = tensors["words"].long()
        counts = torch.bincount(tensors["ends"].long(), minlength=len(self.base))
        self.first = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
        self.homophones = int(counts.max())

    def __len__(self) -> int:
        """The number of nodes of the trie, including the root."""
        return 1 + int((self.parent != NO_NODE).sum())

    @classmethod
    def build(
        cls, pronunciations: Iterable[Pronunciation], unigrams: Tensor | NDArray[np.float32], vocabulary: str = ""
    ) -> Lexicon:
        """The trie of these pronunciations. `unigrams` are the natural-log probabilities of the words by number."""
        return finish(cls.building(pronunciations, unigrams, vocabulary))

    @classmethod
    def building(
        cls, pronunciations: Iterable[Pronunciation], unigrams: Tensor | NDArray[np.float32], vocabulary: str = ""
    ) -> Work[Lexicon]:
        """The work of `build`."""
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
                found = children[node].setdefault(unit, len(children))
                if found == len(children):
                    children.append({})
                    best.append(score)
                node = found
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
                row.clear()  # freeing all of them at the end would take too long
            yield
        ended: list[int] = []
        words: list[int] = []
        for number, (node, found_words) in enumerate(ends.items()):
            if not number % _NODES_A_PART:
                yield
            ended += [indices[node]] * len(found_words)
            words += sorted(found_words, key=lambda word: (-scores[word], word))
        columns = np.array([ended, words], dtype=np.int32)
        columns = columns[:, columns[0].argsort(kind="stable")]  # the likeliest word of a node stays first
        yield
        arrays = {"base": base, "parent": parent, "look_ahead": look_ahead}
        arrays |= {"ends": columns[0].copy(), "words": columns[1].copy()}
        return cls({name: torch.from_numpy(array) for name, array in arrays.items()}, vocabulary=vocabulary)

    def save(self, path: Path | str) -> None:
        """Write the lexicon, replacing the file as a whole."""
        described = {"nodes": len(self), "pronunciations": len(self.words), "vocabulary": self.vocabulary}
        _FILE.write(path, self._tensors, described)

    @classmethod
    def load(cls, path: Path | str) -> Lexicon:
        """Read a lexicon that `save` wrote."""
        described, tensors = _FILE.read(path)
        with _FILE.parts(path):
            return cls(tensors, described.get("vocabulary", ""))

    def pronunciations(self) -> Iterator[Pronunciation]:
        """All pronunciations, in the order of their nodes."""
        units, parents, words = self.units.tolist(), self.parent.tolist(), self.words.tolist()
        for word, end in zip(words, self._tensors["ends"].tolist(), strict=True):
            found, node = [], end
            while node != ROOT:
                found.append(units[node])
                node = parents[node]
            yield word, tuple(reversed(found))

    def arrays(self) -> tuple[NDArray[np.int32], ...]:
        """For each pronunciation the node where it ends and its word; for each node its parent and its base."""
        ends, words, parent, base = (self._tensors[name].numpy() for name in ("ends", "words", "parent", "base"))
        return ends, words, parent, base

    @property
    def units(self) -> Tensor:
        """The unit that leads to each node; meaningless for the root and for unused indices."""
        return torch.arange(len(self.base)) - self.base[self.parent]


def _node_indices(children: list[dict[int, int]]) -> Work[tuple[list[int], list[int]]]:
    """An index for every node and a base for its children, by first fit, so that no two nodes share an index."""
    indices, bases = [ROOT] * len(children), [0] * len(children)
    taken = bytearray(1)
    taken[ROOT] = 1
    work = 0
    # For each row size the search starts where the last row of that size went. Shorter rows fill the gaps.
    tried: dict[int, int] = {}
    for nodes in (yield from _by_children(children)):
        for node in nodes:
            row = children[node]
            units = sorted(row)
            lowest, span = units[0], units[-1] + 1
            base = max(tried.get(len(units), 0), 1 - lowest)
            while True:
                work += 1
                if not work % _NODES_A_PART:
                    yield
                free = taken.find(0, base + lowest)
                base = (free if free >= 0 else max(len(taken), base + lowest)) - lowest
                taken.extend(bytes(max(0, base + span - len(taken))))
                if not any(taken[base + unit] for unit in units):
                    break
                base += 1
            tried[len(units)] = base
            bases[node] = base
            for unit in units:
                taken[base + unit] = 1
                indices[row[unit]] = base + unit
    return indices, bases


def _by_children(children: list[dict[int, int]]) -> Work[list[list[int]]]:
    """The nodes that have children, those with the most of them first."""
    found: list[list[int]] = [[] for _ in range(MOST_UNITS)]
    for start in range(0, len(children), 4 * _NODES_A_PART):
        for node, row in enumerate(children[start : start + 4 * _NODES_A_PART], start):
            found[len(row)].append(node)
        yield
    return [nodes for nodes in reversed(found[1:]) if nodes]
