"""The neural language model: its probabilities and its file."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from streamer.engine.language.neural_model import SENTENCE_START, NeuralModel
from streamer.engine.model_file import ModelFileError
from streamer.engine.network_graphs import CompiledReading

SIZE = 12


def made(seed: int = 0) -> NeuralModel:
    """Return a model with random weights."""
    torch.manual_seed(seed)
    return NeuralModel(SIZE, 8, 16, "these words").eval()


def remembered(model: NeuralModel, *words: int) -> Tensor:
    """Return the memory after the beginning of a sentence, as one row."""
    memory = model.nothing_read.unsqueeze(0)
    for word in (SENTENCE_START, *words):
        memory = model.read(memory, torch.tensor([word]))
    return memory


def test_sums_are_those_of_all_words() -> None:
    """The sums are the logarithms over the scores of all words."""
    model = made()
    for begun in ([], [5], [3, 4, 11]):
        memory = remembered(model, *begun)
        scores = model.score(memory.expand(SIZE, -1), torch.arange(SIZE))
        assert torch.allclose(model.sums(memory)[0], scores.logsumexp(0), atol=1e-5)


def test_reading_word_by_word_is_reading_the_sentence() -> None:
    """Reading word by word gives the same scores as reading the whole sentence."""
    model, sentence = made(), [10, 3, 4, 5, 9]
    expected = model.hidden(torch.tensor([[SENTENCE_START, *sentence]]))[0]
    scores = expected @ model.vectors.weight.T + model.bias
    for place in range(len(sentence) + 1):
        memory = remembered(model, *sentence[:place])
        found = model.score(memory.expand(SIZE, -1), torch.arange(SIZE))
        assert torch.allclose(found, scores[place], atol=1e-5)


def test_numbers_are_left_out_in_training_only() -> None:
    """In training, random numbers of the words and of the memory are set to zero."""
    model, sentence = made(), torch.tensor([[SENTENCE_START, 3, 4, 5, 9]])
    assert torch.equal(model.hidden(sentence), model.hidden(sentence))
    assert not torch.equal(model.hidden(sentence, 0.3), model.hidden(sentence, 0.3))
    assert torch.equal(model.hidden(sentence, 1.0)[0], model.expect.bias.expand(5, -1))


@pytest.mark.parametrize("reader", ["torch", "graph"])
@pytest.mark.parametrize("rows", [1, 2, 15, 16, 17, 40])
def test_a_sentence_gets_the_same_bits_in_any_company(rows: int, reader: str) -> None:
    """The bits of a sentence depend neither on the other sentences nor on its row."""
    torch.manual_seed(0)
    model = NeuralModel(SIZE, 64, 128).eval()  # large enough for quick products
    if reader == "graph":
        model.read_with(CompiledReading(model))
    dice = random.Random(rows)
    alone = [remembered(model, word) for word in range(SIZE)]
    order = [dice.randrange(SIZE) for _ in range(rows)]
    begun = remembered(model).expand(rows, -1)
    together = model.read(begun, torch.tensor(order))
    scores = model.score(together, torch.tensor(order))
    for row, word in enumerate(order):
        assert torch.equal(together[row], alone[word][0])
        assert torch.equal(scores[row], model.score(alone[word], torch.tensor([word]))[0])


def test_words_that_it_does_not_have_count_as_the_unknown_word() -> None:
    """A word outside the model counts as word 0, both in the sentence and after it."""
    model = made()
    known, unknown = remembered(model, 0, 7), remembered(model, SIZE, 7)
    assert torch.equal(known, unknown)
    assert torch.equal(model.score(known, torch.tensor([0])), model.score(known, torch.tensor([99])))


def test_the_file_keeps_the_model(tmp_path: Path) -> None:
    """A file has the model with small errors, one byte for each weight of the tables, and the vocabulary."""
    model, path = made(), tmp_path / "rescoring.safetensors"
    model.save(path)
    loaded = NeuralModel.load(path)
    assert (loaded.size, loaded.vocabulary) == (SIZE, "these words")
    before, after = (one.score(remembered(one, 8).expand(SIZE, -1), torch.arange(SIZE)) for one in (model, loaded))
    assert torch.allclose(before, after, atol=0.05)
    assert [found.name for found in tmp_path.iterdir()] == [path.name]
    wide = NeuralModel(1000, 64, 64)
    wide.save(path)
    assert path.stat().st_size < 1.1 * sum(part.numel() for part in wide.parameters())


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    """The message names the file and says what is wrong."""
    path = tmp_path / "rescoring.safetensors"
    with pytest.raises(ModelFileError, match=r"rescoring\.safetensors"):
        NeuralModel.load(path)
    path.write_bytes(b"no tensors")
    with pytest.raises(ModelFileError, match="cannot be read"):
        NeuralModel.load(path)
    save_file({"a": torch.zeros(2)}, path)
    with pytest.raises(ModelFileError, match="not a neural language model of the format 2"):
        NeuralModel.load(path)
    save_file({"a": torch.zeros(2)}, path, {"neural": '{"format": 2, "sizes": [4, 2, 2], "vocabulary": ""}'})
    with pytest.raises(ModelFileError, match="lacks a part"):
        NeuralModel.load(path)
