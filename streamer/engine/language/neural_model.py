"""A small neural language model: how likely each word of a sentence is after all words before it.

A recurrent network (LSTM) reads the most frequent words of the n-gram model; word 0 stands for all others. The same
table has the vectors of the words that are read and of those that are expected. `rescoring.safetensors` holds every
row of the tables as whole numbers of one byte and a scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from streamer.engine.language.language_model import RESERVED, SENTENCE_END, LanguageModel
from streamer.engine.model_file import ModelFileKind

NEURAL_FILE = "rescoring.safetensors"
OTHERS = RESERVED.index("<unk>")
SENTENCE_START = RESERVED.index("<s>")
_LARGEST = 127  # of a byte with a sign
_SCALES = ".scales"
_FILE = ModelFileKind("neural language model", "neural", 1, "train_rescoring.py")


class NeuralModel(nn.Module):
    """P(word | all words of the sentence before it), for the first `size` words of an n-gram model."""

    def __init__(self, size: int, vector: int, memory: int, vocabulary: str = "") -> None:
        """`vocabulary` is the fingerprint of the n-gram model whose numbers of words are used."""
        super().__init__()
        self.size, self.vocabulary = size, vocabulary
        self.vectors = nn.Embedding(size, vector)
        self.recall = nn.LSTM(vector, memory, batch_first=True)
        self.expect = nn.Linear(memory, vector)
        self.bias = nn.Parameter(torch.zeros(size))

    def hidden(self, read: Tensor) -> Tensor:
        """The vector of what is expected after each of these words [sentences, words], which begin sentences."""
        expected: Tensor = self.expect(self.recall(self.vectors(read))[0])
        return expected

    @torch.inference_mode()
    def score(self, begun: Sequence[int], ways: Sequence[Sequence[int]]) -> list[Tensor]:
        """ln P of each word and of the end of sentences that begin with the same words and go on in these ways.

        Numbers of words that the model does not have count as word 0.
        """
        start = [SENTENCE_START, *self._known(begun)]
        known = [self._known(way) for way in ways]
        device = self.bias.device
        first, state = self.recall(self.vectors(torch.tensor([start], device=device)))
        longest = max(map(len, known))
        rows = torch.tensor([[*way, *[OTHERS] * (longest - len(way))] for way in known], device=device).long()
        told = first[:, -1:].expand(len(ways), 1, -1)
        if longest:
            state = tuple(part.expand(-1, len(ways), -1).contiguous() for part in state)
            told = torch.cat((told, self.recall(self.vectors(rows), state)[0]), 1)
        # What is expected after the same words is computed once.
        places: dict[tuple[int, ...], int] = {}
        sources, indices = [], []
        for number, way in enumerate(known):
            for count in range(len(way) + 1):
                if way[:count] not in places:
                    places[way[:count]] = len(places)
                    sources.append(number * (longest + 1) + count)
                indices.append(places[way[:count]])
        expected = self.expect(told.reshape(-1, told.shape[2])[sources])
        chances = torch.addmm(self.bias, expected, self.vectors.weight.T)
        totals = chances.logsumexp(1)
        said = torch.tensor([word for way in known for word in (*way, SENTENCE_END)], device=device)
        found = chances[indices, said] - totals[indices]
        return list(found.cpu().split([len(way) + 1 for way in known]))

    def _known(self, words: Sequence[int]) -> tuple[int, ...]:
        return tuple(word if word < self.size else OTHERS for word in words)

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
        sizes = [self.size, self.vectors.embedding_dim, self.recall.hidden_size]
        _FILE.write(path, _packed(self.state_dict()), {"sizes": sizes, "vocabulary": self.vocabulary})


def check_vocabulary(model: NeuralModel, language: LanguageModel) -> None:
    """ValueError if the models do not number the same words."""
    if model.vocabulary != language.vocabulary:
        raise ValueError(f"{NEURAL_FILE} was trained for other words than those of the language model: train it again")


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
