"""The network of the punctuation model as a graph: it computes what torch computes, in any company."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from streamer.engine.networks.mark_network import MarkNetwork
from streamer.engine.text.mark_graph import PAUSE_BOUNDS, PAUSES, CompiledMarks, Floats, NetworkShape, pause_number

SHAPE = NetworkShape(embedding=12, width=40, views=((-2, -1, 0, 1), (-3, 0, 1)))
PLACES = 96


@pytest.fixture(scope="module")
def network() -> MarkNetwork:
    """Provide an untrained network without vectors of pauses, whose layers of normalisation have random weights."""
    torch.manual_seed(0)
    made = MarkNetwork(SHAPE).requires_grad_(False)
    made.pauses.weight.zero_()
    for norm in made.norms:
        for part in norm.parameters():
            part.normal_(1, 0.2)
    return made


@pytest.fixture(scope="module")
def compiled(network: MarkNetwork) -> CompiledMarks:
    """Provide the same network as a graph."""
    return CompiledMarks(SHAPE, network.weights())


def random_vectors(places: int, seed: int = 0) -> Floats:
    """Return random vectors of this many places."""
    return np.random.default_rng(seed).normal(size=(places, SHAPE.embedding)).astype(np.float32)


def everywhere(places: int) -> Floats:
    """Return that there is a word at each place."""
    return np.ones((places, 1), np.float32)


def test_the_weights_have_the_stated_shapes(network: MarkNetwork) -> None:
    """The shape says how large each weight of the network is."""
    assert {name: part.shape for name, part in network.weights().items()} == SHAPE.weights


@pytest.mark.parametrize("places", [1, 2, 7, PLACES])
def test_it_computes_what_torch_computes(network: MarkNetwork, compiled: CompiledMarks, places: int) -> None:
    """The scores of marks and cases are those that torch computes, with empty places between the words."""
    vectors, occupied = random_vectors(places), everywhere(places)
    occupied[3:6] = 0
    inputs = torch.from_numpy(vectors)[None], torch.zeros(1, places, dtype=torch.int64), torch.from_numpy(occupied.T)
    expected = torch.cat(network(*inputs), 2)[0]
    assert np.allclose(compiled(vectors, occupied), expected, atol=1e-5)


def test_the_view_is_as_long_as_the_shape_says(compiled: CompiledMarks) -> None:
    """A word changes the answers from `ahead` words before it to `behind` words after it, and no others."""
    vectors = random_vectors(PLACES)
    before = compiled(vectors, everywhere(PLACES))
    vectors[50] += 1 + random_vectors(1, 1)[0]
    different = (compiled(vectors, everywhere(PLACES)) != before).any(axis=1).nonzero()[0].tolist()
    assert different[0] == 50 - SHAPE.ahead
    assert different[-1] == 50 + SHAPE.behind
    assert (SHAPE.behind, SHAPE.ahead) == (5, 2)


@pytest.mark.parametrize("words", [1, 2, 3, 5, 40])
@pytest.mark.parametrize("shift", [0, 1, 5, 17, 32])
def test_the_same_words_give_the_same_bits_at_other_places(compiled: CompiledMarks, words: int, shift: int) -> None:
    """The answers for words have the same bits alone and at any place of a line, beside other words beyond a gap."""
    text = random_vectors(words)
    alone = compiled(text, everywhere(words))
    for others in (0, 1, 2, 80):
        end = SHAPE.gap + shift + words
        vectors, occupied = random_vectors(end + SHAPE.gap + others, 1), everywhere(end + SHAPE.gap + others)
        vectors[end - words : end] = text
        occupied[shift : shift + SHAPE.gap] = 0
        occupied[end : end + SHAPE.gap] = 0
        assert np.array_equal(compiled(vectors, occupied)[end - words : end], alone)


def test_a_view_must_have_its_own_place() -> None:
    """A view without its own place is refused."""
    with pytest.raises(ValueError, match="its own place"):
        NetworkShape.parse({"embedding": 8, "width": 8, "views": [[-2, -1]]})
    assert NetworkShape.parse(SHAPE.values()) == SHAPE


def test_pauses_are_told_apart_by_length() -> None:
    """Pauses have different classes by their length, and an unknown pause has its own."""
    assert pause_number(None) == 0
    assert [pause_number(0), pause_number(PAUSE_BOUNDS[0]), pause_number(10**6)] == [1, 2, PAUSES - 1]
