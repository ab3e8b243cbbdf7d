"""A small neural language model: how likely each word of a sentence is after all words before it.

A recurrent network (LSTM) reads the most frequent words of the n-gram model; word 0 stands for all others. The same
table has the vectors of the words that are read and of those that are expected. The network is trained so that its
scores are log-probabilities without being divided by their sum, which would cost more than all the rest.
`rescoring.safetensors` holds every row of the tables as whole numbers of one byte and a scale.
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
_LARGEST = 127  # of a byte with a sign
_BLOCK = 16  # rows; their number is always a multiple of it
_SCALES = ".scales"
_FILE = ModelFileKind("neural language model", "neural", 2, "train_rescoring.py")

Reading = Callable[[Tensor, Tensor], Tensor]
"""What computes the memories [rows, numbers] after words, from those before them and the vectors of the words."""


class NeuralModel(nn.Module):
    """P(word | all words of the sentence before it), for the first `size` words of an n-gram model."""

    def __init__(self, size: int, vector: int, memory: int, vocabulary: str = "") -> None:
        """`vocabulary` is the fingerprint of the n-gram model whose numbers of words are used."""
        super().__init__()
        self.sizes = size, vector, memory  # how many words it knows, the numbers for each, and what it remembers
        self.size, self.vocabulary = size, vocabulary
        self.vectors = nn.Embedding(size, vector)
        self.recall = nn.LSTM(vector, memory, batch_first=True)
        self.expect = nn.Linear(memory, vector)
        self.bias = nn.Parameter(torch.zeros(size))
        self._reading: Reading | None = None

    def read_with(self, reading: Reading) -> None:
        """Read words with something else that gives the same, and forget the weights for it.

        Afterwards the model stays on its device, and reads no whole sentences.
        """
        self._reading = reading
        del self.recall, self.expect

    def hidden(self, read: Tensor, dropout: float = 0.0) -> Tensor:
        """The vector of what is expected after each of these words [sentences, words], which begin sentences.

        In training, `dropout` is the share of the numbers that are left out at random before and after the recurrence.
        """
        vectors = nn.functional.dropout(self.vectors(read), dropout)
        expected: Tensor = self.expect(nn.functional.dropout(self.recall(vectors)[0], dropout))
        return expected

    @property
    def nothing_read(self) -> Tensor:
        """The memory before the first word, which is the start of the sentence."""
        _, vector, memory = self.sizes
        return self.bias.new_zeros(2 * memory + vector)

    @torch.inference_mode()
    def read(self, memories: Tensor, words: Tensor) -> Tensor:
        """The memories [rows, numbers] of sentences after one more word of each."""
        reading = self._reading or self.remembered
        return reading(memories, self.vectors(self._known(words)))

    def remembered(self, memories: Tensor, vectors: Tensor) -> Tensor:
        """The memories [rows, numbers] after words with these vectors, computed by torch."""
        filled, read = _filled(memories), _filled(vectors)
        # Written out, because the layer of torch takes twice as long for a few rows.
        of_words, of_output, bias, more_bias = self.recall.all_weights[0]
        size = self.recall.hidden_size
        gates = torch.addmm(bias + more_bias, read, of_words.T)
        gates.addmm_(filled[:, :size], of_output.T)
        taken, kept, new, told = gates.chunk(4, 1)
        cell = kept.sigmoid() * filled[:, size : 2 * size] + taken.sigmoid() * new.tanh()
        output = told.sigmoid() * cell.tanh()
        return torch.cat((output, cell, self.expect(output)), 1)[: len(vectors)]

    @torch.inference_mode()
    def score(self, memories: Tensor, words: Tensor) -> Tensor:
        """ln P of one word, or of the end, after each of these sentences. Words that it does not have are word 0."""
        known = self._known(words)
        products = _filled(self._expected(memories)) * _filled(self.vectors(known))
        return products.sum(1)[: len(words)] + self.bias[known]

    @torch.inference_mode()
    def sums(self, memories: Tensor) -> Tensor:
        """The logarithm of the sum of all probabilities after each of these sentences. It should be near zero."""
        return torch.addmm(self.bias, self._expected(memories), self.vectors.weight.T).logsumexp(1)

    def _expected(self, memories: Tensor) -> Tensor:
        _, _, memory = self.sizes
        return memories[:, 2 * memory :]

    def _known(self, words: Tensor) -> Tensor:
        return words.masked_fill(words >= self.size, OTHERS)

    @classmethod
    def load(cls, path: Path | str, device: torch.device | str = "cpu") -> NeuralModel:
        """Read a model from its file."""
        header, packed = _FILE.read(path)
        with _FILE.parts(path):
            size, vector, memory = header["sizes"]
            model = cls(size, vector, memory, header["vocabulary"])
            model.load_state_dict(_unpacked(packed))
        return model.to(device).eval()

    def save(self, path: Path | str) -> None:
        """Write the model, replacing the file as a whole."""
        tensors = {name: tensor.cpu() for name, tensor in self.state_dict().items()}
        _FILE.write(path, _packed(tensors), {"sizes": self.sizes, "vocabulary": self.vocabulary})


def check_vocabulary(model: NeuralModel, language: LanguageModel) -> None:
    """ValueError if the models do not number the same words."""
    if model.vocabulary != language.vocabulary:
        raise ValueError(f"{NEURAL_FILE} was trained for other words than those of the language model: train it again")


def _filled(rows: Tensor) -> Tensor:
    """These rows and more, so that there are whole blocks. A few rows would get other last bits than many."""
    return nn.functional.pad(rows, (0, 0, 0, -len(rows) % _BLOCK))


def _packed(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tables as bytes with a scale for each row, vectors in half precision."""
    packed = {}
    for name, tensor in tensors.items():
        if tensor.dim() == 2:
            scales = (tensor.abs().amax(1, keepdim=True) / _LARGEST).clamp(min=1e-6).half()
            packed[name] = (tensor / scales.float()).round().clamp(-_LARGEST, _LARGEST).to(torch.int8)
            packed[name + _SCALES] = scales
        else:
            packed[name] = tensor.half()
    return packed


def _unpacked(packed: dict[str, Tensor]) -> dict[str, Tensor]:
    tables = {name.removesuffix(_SCALES): scales for name, scales in packed.items() if name.endswith(_SCALES)}
    return {
        name: tensor.float() * tables[name].float() if name in tables else tensor.float()
        for name, tensor in packed.items()
        if not name.endswith(_SCALES)
    }
