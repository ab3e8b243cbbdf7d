"""Pronounces words that are in no dictionary: a joint n-gram model over graphones, decoded with a beam.

A graphone is a letter with the phones that it stands for, at most two of them. The n-grams are stored as a trie, level
by level, with 2 to 4 bytes each. Numpy only.
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

from streamer.engine.work.parts import Work, finish

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
    """Pronounces words by their letters."""

    def __init__(
        self, graphones: list[Graphone], tensors: Mapping[str, Array], scales: Mapping[str, list[float]]
    ) -> None:
        """`tensors`: the last graphone and score of every n-gram; for all but the longest, children and back-off."""
        self._stored = (graphones, dict(tensors), dict(scales))
        self._phones = [phones for _, phones in graphones]
        self._end = np.array([graphones.index(END)])
        letters = sorted({letter for letter, _ in graphones if letter})
        self._by_letter = {
            letter: np.array([number for number, (found, _) in enumerate(graphones) if found == letter])
            for letter in letters
        }
        children = tensors["children"].astype(np.int64)
        self._size = len(graphones)
        # Nodes are stored level by level, and below each node in the order of graphones, so the keys are sorted.
        self._keys = np.repeat(np.arange(len(children)), children) * self._size + tensors["graphones"].astype(np.int64)
        self._scores = _dequantised(tensors["scores"], scales["scores"])
        self._backoffs = np.zeros(len(self._keys) + 1, np.float32)
        self._backoffs[: len(children)] = _dequantised(tensors["backoffs"], scales["backoffs"])
        # The contexts of a hypothesis: the nodes of its last 0, 1, 2, … graphones, -1 where the trie has none.
        self._start = np.full((1, int(scales["order"][0])), -1)
        self._start[0, 0] = 0
        self._start[0, 1] = self._below(np.array([[0]]), np.array([graphones.index(BEGIN)]))[0, 0, 0]

    @classmethod
    def load(cls, path: Path) -> LetterToSound:
        """Read the model from its file."""
        try:
            with safe_open(path, framework="numpy") as file:
                described = json.loads(file.metadata()["letters"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is not a letter-to-sound model: {error}") from error
        graphones = [(letter, tuple(phones.split())) for letter, phones in described["graphones"]]
        return cls(graphones, tensors, described["scales"])

    def to_bytes(self) -> bytes:
        """The content of the model's file."""
        graphones, tensors, scales = self._stored
        described = {"graphones": [[letter, " ".join(phones)] for letter, phones in graphones], "scales": scales}
        return save(tensors, metadata={"letters": json.dumps(described)})

    def pronounce(self, word: str, number: int = 1) -> list[list[str]]:
        """The most probable pronunciations, best first. None for a word without letters."""
        return [list(phones) for phones, _ in self.scored(word)[:number]]

    def scored(self, word: str) -> list[ScoredPhones]:
        """All pronunciations in the beam, with the natural log of their joint probability with the word, best first."""
        return self.scored_all([word])[0]

    def scored_all(self, words: Sequence[str], beam: int = BEAM) -> list[list[ScoredPhones]]:
        """The same as `scored`, for many words at once."""
        return finish(self.scoring(words, beam))

    def scoring(self, words: Sequence[str], beam: int = BEAM) -> Work[list[list[ScoredPhones]]]:
        """The work of `scored_all`, a part for each letter of the longest word."""
        spelled = [[letter for letter in _plain(word) if letter in self._by_letter] for word in words]
        able = [number for number, letters in enumerate(spelled) if any(letter.isalpha() for letter in letters)]
        able.sort(key=lambda number: -len(spelled[number]))
        found: list[list[ScoredPhones]] = [[] for _ in words]
        nodes = np.full((len(able), beam, self._start.shape[1]), -1)
        nodes[:, :, 0], nodes[:, 0] = 0, self._start
        scores = np.full((len(able), beam), -np.inf, np.float32)
        scores[:, 0] = 0.0
        paths: list[list[tuple[str, ...]]] = [[()] * beam for _ in able]
        for position in range(len(spelled[able[0]]) + 1 if able else 0):
            rows = [number for number in able if len(spelled[number]) >= position]
            candidates = [
                self._by_letter[spelled[number][position]] if position < len(spelled[number]) else self._end
                for number in rows
            ]
            most = max(map(len, candidates))
            graphones = np.array([[*found, *[-1] * (most - len(found))] for found in candidates])
            gains, below = self._extended(
                nodes[: len(rows)].reshape(-1, nodes.shape[2]), np.repeat(graphones.clip(min=0), beam, 0)[:, None]
            )
            totals = scores[: len(rows), :, None] + gains.reshape(len(rows), beam, most)
            totals = np.where(graphones[:, None] < 0, -np.inf, totals).reshape(len(rows), -1)
            best = np.argsort(-totals, kind="stable", axis=1)[:, :beam]
            sources, columns = np.divmod(best, most)
            here = np.arange(len(rows))[:, None]
            scores[: len(rows)] = totals[here, best]
            nodes[: len(rows), :, 1:] = below[sources + here * beam, :-1, columns]
            taken = graphones[here, columns].tolist()
            for row, source in enumerate(sources.tolist()):
                paths[row] = [
                    paths[row][number] + self._phones[graphone]
                    for number, graphone in zip(source, taken[row], strict=True)
                ]
                if len(spelled[rows[row]]) == position:
                    found[rows[row]] = _merged(paths[row], scores[row].tolist())
            yield
        return found

    def _extended(self, nodes: NodeNumbers, graphones: NodeNumbers) -> tuple[Floats, NodeNumbers]:
        """Scores [rows, graphones] after contexts [rows, order], and the nodes reached [rows, order, graphones].

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
        """The children of nodes by graphones [rows, order, graphones]; -1 where there is none."""
        keys = nodes[:, :, None] * self._size + graphones
        # Most long contexts are absent, so look up only those that exist.
        there = nodes >= 0
        wanted = keys[there]
        indices = np.searchsorted(self._keys, wanted).clip(max=len(self._keys) - 1)
        below = np.full(keys.shape, -1)
        below[there] = np.where(self._keys[indices] == wanted, indices + 1, -1)
        return below


def _merged(paths: Sequence[tuple[str, ...]], scores: Sequence[float]) -> list[ScoredPhones]:
    found: dict[tuple[str, ...], float] = {}
    for path, score in zip(paths, scores, strict=True):
        # The same phones may be aligned with the letters in several ways.
        if score > -np.inf:
            found[path[:-1]] = float(np.logaddexp(found.get(path[:-1], -np.inf), score))
    return sorted(((phones, score) for phones, score in found.items() if phones), key=lambda item: -item[1])


def _plain(word: str) -> str:
    """The word in lower case, with accents split off its letters."""
    return unicodedata.normalize("NFKD", word.lower())


def _dequantised(levels: Array, scale: list[float]) -> Floats:
    lowest, step = scale
    return (lowest + step * levels.astype(np.float32)).astype(np.float32)
