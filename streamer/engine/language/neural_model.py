"""A small neural language model. It computes the probability of a word after all words of the sentence before it.

A recurrent network (LSTM) reads the most frequent words of the n-gram model; word 0 is any other word. The same table
has the vectors of the words that it reads and of the words that it expects. The network is trained so that its scores
are log-probabilities without normalisation, which would cost more than everything else. `rescoring.safetensors` has
each row of the tables as whole numbers of one byte and a scale.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from streamer.engine.array_memory import Arrays
from streamer.engine.language.language_model import RESERVED, LanguageModel
from streamer.engine.model_file import ModelFileKind

NEURAL_FILE = "rescoring.safetensors"
OTHERS = RESERVED.index("<unk>")
SENTENCE_START = RESERVED.index("<s>")
_LARGEST = 127  # the largest number in a signed byte
_SCALES = ".scales"
_FILE = ModelFileKind("neural language model", "neural", 2, "train_rescoring.py")

Floats = NDArray[np.float32]
Reading = Callable[[Floats, NDArray[np.int8], Floats], Floats]
"""Computes the memories [rows, numbers] after words, from the memories before them and the vectors of the words.

The vectors are bytes, with a scale for each row.
"""

Memory = Any
"""What a model remembers of the words of a sentence: an array of the library with which it computes."""


class SentenceModel(Protocol):
    """P(word | all words of the sentence before it), for the first `size` words of an n-gram model."""

    @property
    def size(self) -> int:
        """The number of words that the model knows."""

    @property
    def vocabulary(self) -> str:
        """The fingerprint of the n-gram model whose word numbers this model uses."""

    def read(self, memories: Sequence[Memory | None], words: Sequence[int]) -> list[Memory]:
        """Return the memories of sentences after one more word in each. None is a sentence without words."""

    def score(self, memories: Sequence[Memory], words: Sequence[int]) -> Floats:
        """Return ln P of one word, or of the end, after each of these sentences. Words outside the model are word 0."""


@dataclass(frozen=True)
class NeuralWeights:
    """The content of a file: tables as bytes with a scale for each row, and vectors in half precision."""

    sizes: tuple[int, int, int]  # the number of words, and the lengths of a word vector and of an LSTM state
    vocabulary: str
    arrays: Arrays

    @classmethod
    def pack(cls, sizes: tuple[int, int, int], vocabulary: str, weights: Mapping[str, Floats]) -> NeuralWeights:
        """Round weights in full precision to the precision of the file."""
        arrays: Arrays = {}
        for name, values in weights.items():
            if values.ndim == 2:
                largest = np.abs(values).max(1, keepdims=True) / np.float32(_LARGEST)
                scales = np.maximum(largest, np.float32(1e-6)).astype(np.float16)
                steps = np.rint(values / scales.astype(np.float32))
                arrays[name] = steps.clip(-_LARGEST, _LARGEST).astype(np.int8)
                arrays[name + _SCALES] = scales
            else:
                arrays[name] = values.astype(np.float16)
        return cls(sizes, vocabulary, arrays)

    @classmethod
    def load(cls, path: Path | str) -> NeuralWeights:
        """Read a file. Its arrays are memory-mapped, so all processes share them."""
        header, arrays = _FILE.read(path)
        with _FILE.parts(path):
            words, vector, memory = header["sizes"]
            weights = cls((words, vector, memory), header["vocabulary"], arrays)
            found = {name: part.shape for name, part in arrays.items()}
            if found != weights._shapes():
                raise ValueError(f"it has the shapes {found}")
        return weights

    def save(self, path: Path | str) -> None:
        """Write the file, replacing it as a whole."""
        _FILE.write(path, self.arrays, {"sizes": self.sizes, "vocabulary": self.vocabulary})

    @property
    def names(self) -> list[str]:
        """The names of the weights."""
        return [name for name in self.arrays if not name.endswith(_SCALES)]

    def of(self, name: str) -> Floats:
        """Return these weights in full numbers."""
        return self.rows(name, slice(None))

    def rows(self, name: str, numbers: NDArray[np.int64] | slice) -> Floats:
        """Return these rows of weights in full numbers."""
        rows = self.arrays[name][numbers].astype(np.float32)
        scales = self.arrays.get(name + _SCALES)
        return rows if scales is None else rows * scales[numbers].astype(np.float32)

    def bytes_of(self, name: str, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int8], Floats]:
        """Return these rows of a table as bytes, and the scale of each."""
        return self.arrays[name][numbers], self.arrays[name + _SCALES][numbers].astype(np.float32)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        words, vector, memory = self.sizes
        tables: dict[str, tuple[int, int]] = {
            "vectors.weight": (words, vector),
            "recall.weight_ih_l0": (4 * memory, vector),
            "recall.weight_hh_l0": (4 * memory, memory),
            "expect.weight": (vector, memory),
        }
        others: dict[str, tuple[int, ...]] = {
            "bias": (words,),
            "recall.bias_ih_l0": (4 * memory,),
            "recall.bias_hh_l0": (4 * memory,),
            "expect.bias": (vector,),
        }
        return {**tables, **others, **{name + _SCALES: (rows, 1) for name, (rows, _) in tables.items()}}


class NeuralModel:
    """The model on a CPU: a function reads words, and numpy computes scores. The vectors of words stay in the file."""

    def __init__(self, weights: NeuralWeights, reading: Reading) -> None:
        """`reading` has the other weights, as the graph `CompiledReading`."""
        self.weights, self._reading = weights, reading
        self._bias = weights.of("bias")
        _, vector, memory = weights.sizes
        self._expected = 2 * memory  # the place of the vector of the expected word in a memory
        self._nothing_read = np.zeros(2 * memory + vector, np.float32)

    @property
    def size(self) -> int:
        """The number of words that the model knows."""
        return self.weights.sizes[0]

    @property
    def vocabulary(self) -> str:
        """The fingerprint of the n-gram model whose word numbers this model uses."""
        return self.weights.vocabulary

    def read(self, memories: Sequence[Memory | None], words: Sequence[int]) -> list[Memory]:
        """Return the memories of sentences after one more word in each. None is a sentence without words."""
        rows = np.stack([self._nothing_read if memory is None else memory for memory in memories])
        after = self._reading(rows, *self.weights.bytes_of("vectors.weight", self._numbers(words)))
        return [memory.copy() for memory in after]  # so that no memory keeps the others alive

    def score(self, memories: Sequence[Memory], words: Sequence[int]) -> Floats:
        """Return ln P of one word, or of the end, after each of these sentences. Words outside the model are word 0.

        Each product is summed in a row of its own, so its bits do not depend on the other rows.
        """
        numbers = self._numbers(words)
        expected = np.stack([memory[self._expected :] for memory in memories])
        scores: Floats = (expected * self.weights.rows("vectors.weight", numbers)).sum(1) + self._bias[numbers]
        return scores

    def _numbers(self, words: Sequence[int]) -> NDArray[np.int64]:
        numbers = np.array(words, np.int64)
        return np.where(numbers < self.size, numbers, OTHERS)


def check_vocabulary(model: SentenceModel, language: LanguageModel) -> None:
    """Raise ValueError if the models do not have the same words and numbers."""
    if model.vocabulary != language.vocabulary:
        raise ValueError(f"{NEURAL_FILE} was trained for other words than those of the language model: train it again")
