"""How a word that no dictionary knows is pronounced: a joint n-gram over graphones, decoded with a beam.

A graphone is one letter with the phones that it stands for, none to two of them. The n-grams lie in a trie, level by
level, as bytes: 2 to 4 of them each. Numpy only.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

Graphone = tuple[str, tuple[str, ...]]
"""A letter and its phones; the marks of a word's begin and end are graphones without a letter."""

BEGIN: Graphone = ("", ("<",))
END: Graphone = ("", (">",))
BEAM = 24

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]
Nodes = npt.NDArray[np.int64]


class LetterToSound:
    """Pronounces words by their letters."""

    def __init__(
        self, graphones: list[Graphone], tensors: Mapping[str, Array], scales: Mapping[str, list[float]]
    ) -> None:
        """`tensors`: last graphone, score and, of all but the longest n-grams, number of children and back-off."""
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
        # In level order, and in the order of graphones below each node, the keys are sorted.
        self._keys = np.repeat(np.arange(len(children)), children) * self._size + tensors["graphones"].astype(np.int64)
        self._scores = _opened(tensors["scores"], scales["scores"])
        self._backoffs = np.zeros(len(self._keys) + 1, np.float32)
        self._backoffs[: len(children)] = _opened(tensors["backoffs"], scales["backoffs"])
        # Contexts of one hypothesis: the nodes of its last 0, 1, 2, … graphones, -1 where the trie has none.
        self._start = np.full((1, int(scales["order"][0])), -1)
        self._start[0, 0] = 0
        self._start[0, 1] = self._below(np.array([[0]]), np.array([graphones.index(BEGIN)]))[0, 0, 0]

    @classmethod
    def load(cls, path: Path) -> LetterToSound:
        """Read the model from its file."""
        try:
            with safe_open(path, framework="numpy") as file:
                described = json.loads(file.metadata()["letters"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no mapping
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
        """The most probable pronunciations, best first; none for a word without a letter."""
        return [list(phones) for phones, _ in self.scored(word)[:number]]

    def scored(self, word: str) -> list[tuple[tuple[str, ...], float]]:
        """All pronunciations that the beam found, with ln of their joint probability with the letters, best first."""
        letters = [letter for letter in _plain(word) if letter in self._by_letter]
        if not any(letter.isalpha() for letter in letters):
            return []
        nodes, scores, paths = self._start, np.zeros(1, np.float32), [()]
        for candidates in [*(self._by_letter[letter] for letter in letters), self._end]:
            gains, below = self._extended(nodes, candidates)
            totals = (scores[:, None] + gains).ravel()
            best = np.argsort(-totals, kind="stable")[:BEAM]
            rows, columns = np.divmod(best, len(candidates))
            paths = [paths[row] + self._phones[candidates[column]] for row, column in zip(rows, columns, strict=True)]
            scores = totals[best]
            nodes = np.concatenate([np.zeros((len(best), 1), np.int64), below[rows, :-1, columns]], axis=1)
        found: dict[tuple[str, ...], float] = {}
        for path, score in zip(paths, scores.tolist(), strict=True):
            # The same phones may be shared out among the letters in several ways.
            found[path[:-1]] = float(np.logaddexp(found.get(path[:-1], -np.inf), score))
        return sorted(((phones, score) for phones, score in found.items() if phones), key=lambda item: -item[1])

    def _extended(self, nodes: Nodes, graphones: Nodes) -> tuple[Floats, Nodes]:
        """Scores [rows, graphones] after contexts [rows, order], and the nodes reached [rows, order, graphones]."""
        below = self._below(nodes, graphones)
        scores = self._scores[below[:, 0] - 1]
        for length in range(1, nodes.shape[1]):
            reached = below[:, length]
            backed_off = scores + np.where(nodes[:, length] < 0, 0, self._backoffs[nodes[:, length]])[:, None]
            scores = np.where(reached < 0, backed_off, self._scores[reached - 1])
        return scores, below

    def _below(self, nodes: Nodes, graphones: Nodes) -> Nodes:
        """The children of nodes by graphones, -1 where there is none: [rows, order, graphones]."""
        keys = nodes[:, :, None] * self._size + graphones
        places = np.searchsorted(self._keys, keys).clip(max=len(self._keys) - 1)
        found = (nodes >= 0)[:, :, None] & (self._keys[places] == keys)
        return np.where(found, places + 1, -1)


def _plain(word: str) -> str:
    """Lower case without accents."""
    return unicodedata.normalize("NFKD", word.lower())


def _opened(levels: Array, scale: list[float]) -> Floats:
    lowest, step = scale
    return (lowest + step * levels.astype(np.float32)).astype(np.float32)
