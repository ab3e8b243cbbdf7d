"""The network of the neural language model (neural_model.py)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from streamer.engine.language.neural_model import OTHERS, Memory, NeuralWeights

_BLOCK = 16  # the number of computed rows is always a multiple of this


class NeuralNetwork(nn.Module):
    """P(word | all words of the sentence before it), for the first `size` words of an n-gram model."""

    def __init__(self, size: int, vector: int, memory: int, vocabulary: str = "") -> None:
        """`vocabulary` is the fingerprint of the n-gram model whose word numbers this network uses."""
        super().__init__()
        self.sizes = size, vector, memory  # the number of words, and the lengths of a word vector and of an LSTM state
        self.size, self.vocabulary = size, vocabulary
        self.vectors = nn.Embedding(size, vector)
        self.recall = nn.LSTM(vector, memory, batch_first=True)
        self.expect = nn.Linear(memory, vector)
        self.bias = nn.Parameter(torch.zeros(size))

    def hidden(self, words: Tensor, dropout: float = 0.0) -> Tensor:
        """Return the vector of the expected word after each of these words [sentences, words] from starts of sentences.

        In training, `dropout` is the share of numbers that are set to zero at random before and after the LSTM.
        """
        vectors = nn.functional.dropout(self.vectors(words), dropout)
        expected: Tensor = self.expect(nn.functional.dropout(self.recall(vectors)[0], dropout))
        return expected

    @torch.inference_mode()
    def read(self, memories: Sequence[Tensor | None], words: Sequence[int]) -> list[Tensor]:
        """Return the memories of sentences after one more word in each. None is a sentence without words."""
        _, vector, memory = self.sizes
        blank = self.bias.new_zeros(2 * memory + vector)
        rows = torch.stack([blank if memory is None else memory for memory in memories])
        after = self.read_vectors(rows, self.vectors(self._numbers(words)))
        return [memory.clone() for memory in after]  # so that no memory keeps the others alive

    def read_vectors(self, memories: Tensor, vectors: Tensor) -> Tensor:
        """Return the memories [rows, numbers] after words with these vectors."""
        padded, padded_vectors = _padded(memories), _padded(vectors)
        # The layer of torch is not used, because it takes twice as long for a few rows.
        of_words, of_output, bias, more_bias = self.recall.all_weights[0]
        size = self.recall.hidden_size
        gates = torch.addmm(bias + more_bias, padded_vectors, of_words.T)
        gates.addmm_(padded[:, :size], of_output.T)
        input_gate, forget_gate, content, output_gate = gates.chunk(4, 1)
        cell = forget_gate.sigmoid() * padded[:, size : 2 * size] + input_gate.sigmoid() * content.tanh()
        output = output_gate.sigmoid() * cell.tanh()
        return torch.cat((output, cell, self.expect(output)), 1)[: len(vectors)]

    @torch.inference_mode()
    def score(self, memories: Sequence[Memory], words: Sequence[int]) -> NDArray[np.float32]:
        """Return ln P of one word, or of the end, after each of these sentences. Words outside the model are word 0."""
        numbers = self._numbers(words)
        products = _padded(self._expected(memories)) * _padded(self.vectors(numbers))
        scores: NDArray[np.float32] = (products.sum(1)[: len(numbers)] + self.bias[numbers]).cpu().numpy()
        return scores

    @torch.inference_mode()
    def sums(self, memories: Sequence[Memory]) -> NDArray[np.float32]:
        """Return the log of the sum of all probabilities after each of these sentences, which should be near zero."""
        scores = torch.addmm(self.bias, self._expected(memories), self.vectors.weight.T)
        sums: NDArray[np.float32] = scores.logsumexp(1).cpu().numpy()
        return sums

    def _expected(self, memories: Sequence[Memory]) -> Tensor:
        _, _, memory = self.sizes
        return torch.stack(list(memories))[:, 2 * memory :]

    def _numbers(self, words: Sequence[int]) -> Tensor:
        numbers = torch.tensor(words, device=self.bias.device)
        return numbers.masked_fill(numbers >= self.size, OTHERS)

    def weights(self) -> NeuralWeights:
        """Return the weights, rounded as in a file."""
        return NeuralWeights.pack(
            self.sizes, self.vocabulary, {name: part.cpu().numpy() for name, part in self.state_dict().items()}
        )

    @classmethod
    def of(cls, weights: NeuralWeights, device: torch.device | str = "cpu") -> NeuralNetwork:
        """Make the network of these weights."""
        network = cls(*weights.sizes, weights.vocabulary)
        network.load_state_dict({name: torch.from_numpy(weights.of(name)) for name in weights.names})
        return network.to(device).eval()

    @classmethod
    def load(cls, path: Path | str, device: torch.device | str = "cpu") -> NeuralNetwork:
        """Read a network from its file."""
        return cls.of(NeuralWeights.load(path), device)

    def save(self, path: Path | str) -> None:
        """Write the file, replacing it as a whole."""
        self.weights().save(path)


def _padded(rows: Tensor) -> Tensor:
    """Return these rows, padded to whole blocks. Otherwise the last bits of results would depend on their number."""
    return nn.functional.pad(rows, (0, 0, 0, -len(rows) % _BLOCK))
