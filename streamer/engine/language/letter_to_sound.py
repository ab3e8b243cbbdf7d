"""Pronounces words that are in no dictionary, with a joint n-gram model over graphones and a beam search.

A graphone is a letter with its phones, at most two of them. The n-grams are stored as a trie, level by level, with 2 to
4 bytes each. The module needs only numpy.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from streamer.engine.array_memory import Arrays
from streamer.engine.file_cache import cached_arrays, fingerprint
from streamer.engine.waiting import Work, finish

Graphone = tuple[str, tuple[str, ...]]
"""A letter and its phones. The marks for the beginning and end of a word are graphones without a letter."""

BEGIN: Graphone = ("", ("<",))
END: Graphone = ("", (">",))
BEAM = 24

ScoredPhones = tuple[tuple[str, ...], float]
"""Phones, and the natural log of their probability."""

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]
NodeNumbers = npt.NDArray[np.int64]


class LetterToSound:
    """Pronounces words from their letters."""

    def __init__(
        self, graphones: list[Graphone], tensors: Mapping[str, Array], scales: Mapping[str, list[float]]
    ) -> None:
        """`tensors` has the last graphone and score of each n-gram, and the children and back-off of shorter ones."""
        self._stored = (graphones, dict(tensors), dict(scales))
        self._phones = [phones for _, phones in graphones]
        self._end = np.array([graphones.index(END)])
        letters = sorted({letter for letter, _ in graphones if letter})
        self._by_letter = {
            letter: np.array([number for number, (own_letter, _) in enumerate(graphones) if own_letter == letter])
            for letter in letters
        }
        self._size = len(graphones)
        names = sorted(tensors)
        key = fingerprint(*(tensors[name] for name in names), *names, str(scales), str(self._size))
        arrays = cached_arrays("letters", key, 16 * tensors["graphones"].size, lambda: self._look_ups(tensors, scales))
        self._keys, self._scores, self._backoffs = (arrays.arrays[name] for name in ("keys", "scores", "backoffs"))
        # The contexts of a hypothesis: the nodes of its last 0, 1, 2, … graphones; -1 where the trie has no node.
        self._start = np.full((1, int(scales["order"][0])), -1)
        self._start[0, 0] = 0
        self._start[0, 1] = self._below(np.array([[0]]), np.array([graphones.index(BEGIN)]))[0, 0, 0]

    def _look_ups(self, tensors: Mapping[str, Array], scales: Mapping[str, list[float]]) -> Arrays:
        """Return the key of each node but the root, its score, and the back-off of each node."""
        children = tensors["children"].astype(np.int64)
        # Nodes are stored level by level, and the children of a node by their graphones, so the keys are sorted.
        keys = np.repeat(np.arange(len(children)), children) * self._size + tensors["graphones"].astype(np.int64)
        backoffs = np.zeros(len(keys) + 1, np.float32)
        backoffs[: len(children)] = _dequantise(tensors["backoffs"], scales["backoffs"])
        return {"keys": keys, "scores": _dequantise(tensors["scores"], scales["scores"]), "backoffs": backoffs}

    @classmethod
    def load(cls, path: Path) -> LetterToSound:
        """Read the model from its file."""
        try:
            with safe_open(path, framework="numpy") as file:
                description = json.loads(file.metadata()["letters"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is not a letter-to-sound model: {error}") from error
        graphones = [(letter, tuple(phones.split())) for letter, phones in description["graphones"]]
        return cls(graphones, tensors, description["scales"])

    def to_bytes(self) -> bytes:
        """Return the content of the model's file."""
        graphones, tensors, scales = self._stored
        description = {"graphones": [[letter, " ".join(phones)] for letter, phones in graphones], "scales": scales}
        return save(tensors, metadata={"letters": json.dumps(description)})

    def pronounce(self, word: str, number: int = 1) -> list[list[str]]:
        """Return the most probable pronunciations, best first. A word without letters has none."""
        return [list(phones) for phones, _ in self.score(word)[:number]]

    def score(self, word: str) -> list[ScoredPhones]:
        """Return all pronunciations in the beam, best first, with the natural log of their joint probability."""
        return self.score_all([word])[0]

    def score_all(self, words: Sequence[str], beam: int = BEAM) -> list[list[ScoredPhones]]:
        """Return the results of `score` for many words at once."""
        return finish(self.score_in_parts(words, beam))

    def score_in_parts(self, words: Sequence[str], beam: int = BEAM) -> Work[list[list[ScoredPhones]]]:
        """Do the work of `score_all`, with one part for each letter of the longest word."""
        spellings = [[letter for letter in _plain(word) if letter in self._by_letter] for word in words]
        pronounceable = [
            number for number, letters in enumerate(spellings) if any(letter.isalpha() for letter in letters)
        ]
        pronounceable.sort(key=lambda number: -len(spellings[number]))
        results: list[list[ScoredPhones]] = [[] for _ in words]
        nodes = np.full((len(pronounceable), beam, self._start.shape[1]), -1)
        nodes[:, :, 0], nodes[:, 0] = 0, self._start
        scores = np.full((len(pronounceable), beam), -np.inf, np.float32)
        scores[:, 0] = 0.0
        paths: list[list[tuple[str, ...]]] = [[()] * beam for _ in pronounceable]
        for position in range(len(spellings[pronounceable[0]]) + 1 if pronounceable else 0):
            rows = [number for number in pronounceable if len(spellings[number]) >= position]
            candidates = [
                self._by_letter[spellings[number][position]] if position < len(spellings[number]) else self._end
                for number in rows
            ]
            most = max(map(len, candidates))
            graphones = np.array([[*numbers, *[-1] * (most - len(numbers))] for numbers in candidates])
            gains, below = self._extend(
                nodes[: len(rows)].reshape(-1, nodes.shape[2]), np.repeat(graphones.clip(min=0), beam, 0)[:, None]
            )
            totals = scores[: len(rows), :, None] + gains.reshape(len(rows), beam, most)
            totals = np.where(graphones[:, None] < 0, -np.inf, totals).reshape(len(rows), -1)
            best = np.argsort(-totals, kind="stable", axis=1)[:, :beam]
            sources, columns = np.divmod(best, most)
            here = np.arange(len(rows))[:, None]
            scores[: len(rows)] = totals[here, best]
            nodes[: len(rows), :, 1:] = below[sources + here * beam, :-1, columns]
            chosen = graphones[here, columns].tolist()
            for row, source in enumerate(sources.tolist()):
                paths[row] = [
                    paths[row][number] + self._phones[graphone]
                    for number, graphone in zip(source, chosen[row], strict=True)
                ]
                if len(spellings[rows[row]]) == position:
                    results[rows[row]] = _merge(paths[row], scores[row].tolist())
            yield
        return results

    def _extend(self, nodes: NodeNumbers, graphones: NodeNumbers) -> tuple[Floats, NodeNumbers]:
        """Return the scores [rows, graphones] after contexts [rows, order], and the nodes [rows, order, graphones].

        `graphones` is the same for all rows, or has the shape [rows, 1, graphones].
        """
        below = self._below(nodes, graphones)
        scores = self._scores[below[:, 0] - 1]
        for length in range(1, nodes.shape[1]):
            reached = below[:, length]
            backed_off = scores + np.where(nodes[:, length] < 0, 0, self._backoffs[nodes[:, length]])[:, None]
            scores = np.where(reached < 0, backed_off, self._scores[reached - 1])
        return scores, below

    def _below(self, nodes: NodeNumbers, graphones: NodeNumbers) -> NodeNumbers:
        """Return the children of nodes by graphones [rows, order, graphones]; -1 where a node has no such child."""
        keys = nodes[:, :, None] * self._size + graphones
        # Look up only the contexts that exist, because most long ones do not.
        existing = nodes >= 0
        existing_keys = keys[existing]
        indices = np.searchsorted(self._keys, existing_keys).clip(max=len(self._keys) - 1)
        below = np.full(keys.shape, -1)
        below[existing] = np.where(self._keys[indices] == existing_keys, indices + 1, -1)
        return below


def _merge(paths: Sequence[tuple[str, ...]], scores: Sequence[float]) -> list[ScoredPhones]:
    merged: dict[tuple[str, ...], float] = {}
    for path, score in zip(paths, scores, strict=True):
        # The same phones may be aligned with the letters in several ways, whose probabilities are added.
        if score > -np.inf:
            merged[path[:-1]] = float(np.logaddexp(merged.get(path[:-1], -np.inf), score))
    return sorted(((phones, score) for phones, score in merged.items() if phones), key=lambda item: -item[1])


def _plain(word: str) -> str:
    """Return the word in lower case, with accents split off its letters."""
    return unicodedata.normalize("NFKD", word.lower())


def _dequantise(levels: Array, scale: list[float]) -> Floats:
    lowest, step = scale
    return (lowest + step * levels.astype(np.float32)).astype(np.float32)
