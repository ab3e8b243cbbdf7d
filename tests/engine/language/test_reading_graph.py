"""The reading of the neural language model as a graph computes what torch computes, in any company."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from streamer.engine.language.neural_model import SENTENCE_START, NeuralWeights
from streamer.engine.language.reading_graph import CompiledReading
from streamer.engine.networks.neural_network import NeuralNetwork

SIZE, ROWS = 20, 67


@pytest.fixture
def weights() -> NeuralWeights:
    """Provide random weights, of sizes whose products are quick."""
    torch.manual_seed(0)
    return NeuralNetwork(SIZE, 64, 128).weights()


def test_it_computes_what_torch_computes(weights: NeuralWeights) -> None:
    """The memories after several words are those that torch computes, up to the rounding of outputs to bytes."""
    compiled, network = CompiledReading(weights), NeuralNetwork.of(weights)
    found = expected = torch.zeros(ROWS, 2 * 128 + 64)
    for words in (torch.full([ROWS], SENTENCE_START), *torch.randint(SIZE, (6, ROWS))):
        found = torch.from_numpy(compiled(found.numpy(), *weights.bytes_of("vectors.weight", words.numpy())))
        expected = network.read_vectors(expected, network.vectors(words)).detach()
        torch.testing.assert_close(found, expected, atol=3e-4, rtol=0)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 16, 31])
def test_company_does_not_matter(weights: NeuralWeights, rows: int) -> None:
    """The bits of a row depend neither on its place nor on the number of rows."""
    compiled, dice = CompiledReading(weights), np.random.default_rng(0)
    memories = dice.normal(size=(ROWS, 2 * 128 + 64)).astype(np.float32)
    vectors, scales = weights.bytes_of("vectors.weight", dice.integers(SIZE, size=ROWS))
    together = compiled(memories, vectors, scales)
    for start in range(0, ROWS, rows):
        some = slice(start, start + rows)
        assert np.array_equal(compiled(memories[some], vectors[some], scales[some]), together[some])


def test_the_largest_bytes_are_multiplied_exactly() -> None:
    """No processor adds up products of bytes in so few bits that the largest ones have no room."""
    vector, memory = 16, 32
    network = NeuralNetwork(3, vector, memory)
    of_words: torch.Tensor = network.recall.all_weights[0][0]
    with torch.no_grad():
        for part in network.parameters():
            part.fill_(0)
        network.vectors.weight[0] = 127 / 64
        network.vectors.weight[1] = -127 / 64
        of_words[2 * memory : 3 * memory] = 1 / 127
        network.expect.weight.fill_(1 / 127)
    weights = network.weights()
    vectors, scales = weights.bytes_of("vectors.weight", np.array([0, 1]))
    assert vectors.tolist() == [[127] * vector, [-127] * vector]
    found = CompiledReading(weights)(np.zeros((2, 2 * memory + vector), np.float32), vectors, scales)
    expected = network.read_vectors(torch.zeros(2, 2 * memory + vector), network.vectors(torch.arange(2))).detach()
    np.testing.assert_allclose(found, expected, atol=1e-3)
