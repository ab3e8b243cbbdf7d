"""The neural language model: its probabilities and its file."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from streamer.engine.language.neural_model import SENTENCE_START, NeuralModel
from streamer.engine.model_file import ModelFileError

SIZE = 12


def made(seed: int = 0) -> NeuralModel:
    """A model with random weights."""
    torch.manual_seed(seed)
    return NeuralModel(SIZE, 8, 6, "these words").eval()


def test_what_may_follow_adds_up_to_one() -> None:
    """After any words, the next one is one of the words or the end of the sentence."""
    model = made()
    for begun in ([], [5], [3, 4, 11]):
        chances = [float(model.score(begun, [[word]])[0][0].exp()) for word in range(SIZE)]
        assert sum(chances) == pytest.approx(1.0, abs=1e-5)
        assert float(model.score(begun, [[]])[0].exp()) == pytest.approx(chances[2], abs=1e-6)


def test_sentences_with_a_common_beginning_are_scored_as_if_alone() -> None:
    """The words that all begin with, and words that several go on with, change no score."""
    model = made()
    ways = [[3, 4, 5], [], [3, 4], [3, 4, 6, 7, 8], [9]]
    found = model.score([10, 3], ways)
    for way, scores in zip(ways, found, strict=True):
        whole = model.score([], [[10, 3, *way]])[0]
        assert torch.allclose(scores, whole[2:], atol=1e-5)
        expected = model.hidden(torch.tensor([[SENTENCE_START, 10, 3, *way]]))[0]
        chances = (expected @ model.vectors.weight.T + model.bias).log_softmax(1)
        said = torch.tensor([10, 3, *way, 2])
        assert torch.allclose(whole, chances.gather(1, said.unsqueeze(1))[:, 0], atol=1e-5)


def test_words_that_it_does_not_have_count_as_the_unknown_word() -> None:
    """In the sentence, and as what follows."""
    model = made()
    assert torch.equal(model.score([SIZE], [[7, 99]])[0], model.score([0], [[7, 0]])[0])


def test_the_file_keeps_the_model(tmp_path: Path) -> None:
    """With small errors, a byte for each weight of the tables, and the words that it is for."""
    model, path = made(), tmp_path / "rescoring.safetensors"
    model.save(path)
    loaded = NeuralModel.load(path)
    assert (loaded.size, loaded.vocabulary) == (SIZE, "these words")
    ways = [[3, 4, 5], [6, 7]]
    for before, after in zip(model.score([8], ways), loaded.score([8], ways), strict=True):
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
    with pytest.raises(ModelFileError, match="not a neural language model of the format 1"):
        NeuralModel.load(path)
    save_file({"a": torch.zeros(2)}, path, {"neural": '{"format": 1, "sizes": [4, 2, 2], "vocabulary": ""}'})
    with pytest.raises(ModelFileError, match="lacks a part"):
        NeuralModel.load(path)
