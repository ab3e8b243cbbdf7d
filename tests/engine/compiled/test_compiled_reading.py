"""Reading words as a graph computes what torch computes, and no sentence depends on its company."""

from __future__ import annotations

import pytest
import torch

from streamer.engine.compiled.compiled_reading import CompiledReading
from streamer.engine.language.neural_model import SENTENCE_START, NeuralModel

SIZE, ROWS = 20, 67


@pytest.fixture
def model() -> NeuralModel:
    """Provide a model with random weights, of sizes whose products are quick."""
    torch.manual_seed(0)
    return NeuralModel(SIZE, 64, 128).eval()


def test_it_computes_what_torch_computes(model: NeuralModel) -> None:
    """The memories after several words are those that torch computes."""
    compiled = CompiledReading(model)
    found = expected = model.nothing_read.expand(ROWS, -1)
    for words in (torch.full([ROWS], SENTENCE_START), *torch.randint(SIZE, (6, ROWS))):
        vectors = model.vectors(words).detach()
        found, expected = compiled(found, vectors), model.read_vectors(expected, vectors).detach()
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 16, 31])
def test_company_does_not_matter(model: NeuralModel, rows: int) -> None:
    """The bits of a row depend neither on its place nor on the number of rows."""
    compiled = CompiledReading(model)
    memories, vectors = torch.randn(ROWS, len(model.nothing_read)), torch.randn(ROWS, 64)
    together = compiled(memories, vectors)
    for some in torch.arange(ROWS).split(rows):
        assert torch.equal(compiled(memories[some], vectors[some]), together[some])


def test_a_model_that_reads_with_it_forgets_the_weights(model: NeuralModel) -> None:
    """A model that reads with a graph drops its weights for reading, and its scores stay the same."""
    memories, words = model.nothing_read.expand(SIZE, -1), torch.arange(SIZE)
    before = model.score(model.read(memories, words), words)
    held = sum(part.numel() for part in model.parameters())
    model.read_with(CompiledReading(model))
    torch.testing.assert_close(model.score(model.read(memories, words), words), before, atol=1e-5, rtol=0)
    assert sum(part.numel() for part in model.parameters()) < held / 10
