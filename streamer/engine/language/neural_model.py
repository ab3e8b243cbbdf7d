"""A small neural language model. It computes the probability of a word after all words of the sentence before it.

A recurrent network (LSTM) reads the most frequent words of the n-gram model; word 0 is any other word. The same table
has the vectors of the words that it reads and of the words that it expects. The network is trained so that its scores
are log-probabilities without normalisation, which would cost more than everything else. `rescoring.safetensors` has
each row of the tables as whole numbers of one byte and a scale.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from streamer.engine.language.language_model import RESERVED, LanguageModel
from streamer.engine.model_file import ModelFileKind

NEURAL_FILE = "rescoring.safetensors"
OTHERS = RESERVED.index("<unk>")
SENTENCE_START = RESERVED.index("<s>")
_LARGEST = 127  # the largest number in a signed byte
_BLOCK = 16  # the number of computed rows is always a multiple of this
_SCALES = ".scales"
_FILE = ModelFileKind("neural language model", "neural", 2, "train_rescoring.py")

Reading = Callable[[Tensor, Tensor], Tensor]
"""Computes the memories [rows, numbers] after words, from the memories before them and the vectors of the words."""


class NeuralModel(nn.Module):
    """P(word | all words of the sentence before it), for the first `size` words of an n-gram model."""

    def __init__(self, size: int, vector: int, memory: int, vocabulary: str = "") -> None:
        """`vocabulary` is the fingerprint of the n-gram model whose word numbers this model uses."""
        super().__init__()
        self.sizes = size, vector, memory  # the number of words, and the lengths of a word vector and of an LSTM state
        self.size, self.vocabulary = size, vocabulary
        self.vectors = nn.Embedding(size, vector)
        self.recall = nn.LSTM(vector, memory, batch_first=True)
        self.expect = nn.Linear(memory, vector)
        self.bias = nn.Parameter(torch.zeros(size))
        self._reading: Reading | None = None

    def read_with(self, reading: Reading) -> None:
        """Read words with another function that gives the same results, and drop the weights for reading.

        Afterwards the model must stay on its device, and cannot read whole sentences.
        """
        self._reading = reading
        del self.recall, self.expect

    def hidden(self, words: Tensor, dropout: float = 0.0) -> Tensor:
        """Return the vector of the expected word after each of these words [sentences, words] from starts of sentences.

        In training, `dropout` is the share of numbers that are set to zero at random before and after the LSTM.
        """
        vectors = nn.functional.dropout(self.vectors(words), dropout)
        expected: Tensor = self.expect(nn.functional.dropout(self.recall(vectors)[0], dropout))
        return expected

    @property
    def nothing_read(self) -> Tensor:
        """The memory before the first word, which is the start of the sentence."""
        _, vector, memory = self.sizes
        return self.bias.new_zeros(2 * memory + vector)

    @torch.inference_mode()
    def read(self, memories: Tensor, words: Tensor) -> Tensor:
        """Return the memories [rows, numbers] of sentences after one more word in each."""
        reading = self._reading or self.read_vectors
        return reading(memories, self.vectors(self._numbers(words)))

    def read_vectors(self, memories: Tensor, vectors: Tensor) -> Tensor:
        """Return the memories [rows, numbers] after words with these vectors, computed by torch."""
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
    def score(self, memories: Tensor, words: Tensor) -> Tensor:
        """Return ln P of one word, or of the end, after each of these sentences. Words outside the model are word 0."""
        numbers = self._numbers(words)
        products = _padded(self._expected(memories)) * _padded(self.vectors(numbers))
        return products.sum(1)[: len(words)] + self.bias[numbers]

    @torch.inference_mode()
    def sums(self, memories: Tensor) -> Tensor:
        """Return the log of the sum of all probabilities after each of these sentences, which should be near zero."""
        return torch.addmm(self.bias, self._expected(memories), self.vectors.weight.T).logsumexp(1)

    def _expected(self, memories: Tensor) -> Tensor:
        _, _, memory = self.sizes
        return memories[:, 2 * memory :]

    def _numbers(self, words: Tensor) -> Tensor:
        return words.masked_fill(words >= self.size, OTHERS)

    @classmethod
    def load(cls, path: Path | str, device: torch.device | str = "cpu") -> NeuralModel:
        """Read a model from its file."""
        header, packed = _FILE.read(path)
        with _FILE.parts(path):
            size, vector, memory = header["sizes"]
            model = cls(size, vector, memory, header["vocabulary"])
            model.load_state_dict(_unpack(packed))
        return model.to(device).eval()

    def save(self, path: Path | str) -> None:
        """Write the model, replacing the file as a whole."""
        tensors = {name: tensor.cpu() for name, tensor in self.state_dict().items()}
        _FILE.write(path, _pack(tensors), {"sizes": self.sizes, "vocabulary": self.vocabulary})


def check_vocabulary(model: NeuralModel, language: LanguageModel) -> None:
    """Raise ValueError if the models do not have the same words and numbers."""
    if model.vocabulary != language.vocabulary:
        raise ValueError(f"{NEURAL_FILE} was trained for other words than those of the language model: train it again")


def _padded(rows: Tensor) -> Tensor:
    """Return these rows, padded to whole blocks. Otherwise the last bits of results would depend on their number."""
    return nn.functional.pad(rows, (0, 0, 0, -len(rows) % _BLOCK))


def _pack(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return tables as bytes with a scale for each row, and vectors in half precision."""
    packed = {}
    for name, tensor in tensors.items():
        if tensor.dim() == 2:
            scales = (tensor.abs().amax(1, keepdim=True) / _LARGEST).clamp(min=1e-6).half()
            packed[name] = (tensor / scales.float()).round().clamp(-_LARGEST, _LARGEST).to(torch.int8)
            packed[name + _SCALES] = scales
        else:
            packed[name] = tensor.half()
    return packed


def _unpack(packed: dict[str, Tensor]) -> dict[str, Tensor]:
    tables = {name.removesuffix(_SCALES): scales for name, scales in packed.items() if name.endswith(_SCALES)}
    return {
        name: tensor.float() * tables[name].float() if name in tables else tensor.float()
        for name, tensor in packed.items()
        if not name.endswith(_SCALES)
    }
