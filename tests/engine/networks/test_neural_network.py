"""The network of the neural language model."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from streamer.engine.language.neural_model import SENTENCE_START
from streamer.engine.networks.neural_network import NeuralNetwork

SIZE = 12


def made(vector: int = 8, memory: int = 16) -> NeuralNetwork:
    """Return a network with random weights."""
    torch.manual_seed(0)
    return NeuralNetwork(SIZE, vector, memory).eval()


def remembered(network: NeuralNetwork, *words: int) -> torch.Tensor:
    """Return the memory after the beginning of a sentence."""
    memory = None
    for word in (SENTENCE_START, *words):
        [memory] = network.read([memory], [word])
    assert memory is not None
    return memory


def test_sums_are_those_of_all_words() -> None:
    """The sums are the logarithms over the scores of all words."""
    network = made()
    for begun in ([], [5], [3, 4, 11]):
        memory = remembered(network, *begun)
        scores = network.score([memory] * SIZE, range(SIZE))
        assert network.sums([memory])[0] == pytest.approx(np.logaddexp.reduce(scores), abs=1e-5)


def test_reading_word_by_word_is_reading_the_sentence() -> None:
    """Reading word by word gives the same scores as reading the whole sentence."""
    network, sentence = made(), [10, 3, 4, 5, 9]
    expected = network.hidden(torch.tensor([[SENTENCE_START, *sentence]]))[0]
    scores = (expected @ network.vectors.weight.T + network.bias).detach().numpy()
    for place in range(len(sentence) + 1):
        found = network.score([remembered(network, *sentence[:place])] * SIZE, range(SIZE))
        assert np.allclose(found, scores[place], atol=1e-5)


def test_numbers_are_left_out_in_training_only() -> None:
    """In training, random numbers of the words and of the memory are set to zero."""
    network, sentence = made(), torch.tensor([[SENTENCE_START, 3, 4, 5, 9]])
    assert torch.equal(network.hidden(sentence), network.hidden(sentence))
    assert not torch.equal(network.hidden(sentence, 0.3), network.hidden(sentence, 0.3))
    assert torch.equal(network.hidden(sentence, 1.0)[0], network.expect.bias.expand(5, -1))


@pytest.mark.parametrize("rows", [1, 2, 15, 16, 17, 40])
def test_a_sentence_gets_the_same_bits_in_any_company(rows: int) -> None:
    """The bits of a sentence depend neither on the other sentences nor on its row."""
    network, dice = made(64, 128), random.Random(rows)  # large enough for quick products
    alone = [remembered(network, word) for word in range(SIZE)]
    order = [dice.randrange(SIZE) for _ in range(rows)]
    together = network.read([remembered(network)] * rows, order)
    scores = network.score(together, order)
    for row, word in enumerate(order):
        assert torch.equal(together[row], alone[word])
        assert scores[row] == network.score([alone[word]], [word])[0]
