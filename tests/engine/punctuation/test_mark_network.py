"""The network of the punctuation model: its view, and the same bits at any place."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from streamer.engine.punctuation.mark_network import (
    BLOCK,
    PAUSE_BOUNDS,
    PAUSES,
    MarkNetwork,
    NetworkShape,
    pause_number,
)

SHAPE = NetworkShape(embedding=12, width=40, views=((-2, -1, 0, 1), (-3, 0, 1)))
PLACES = 3 * BLOCK


def network(seed: int = 0) -> MarkNetwork:
    """Return an untrained network."""
    torch.manual_seed(seed)
    return MarkNetwork(SHAPE).requires_grad_(False)


def scores(of: MarkNetwork, vectors: Tensor, taken: Tensor | None = None) -> Tensor:
    """Both kinds of scores, side by side."""
    places = vectors.shape[1]
    pauses = torch.arange(places).remainder(PAUSES).expand(len(vectors), -1)
    return torch.cat(of(vectors, pauses, torch.ones(vectors.shape[:2]) if taken is None else taken), dim=2)


def test_the_view_is_as_long_as_the_shape_says() -> None:
    """A word changes the answers from `ahead` words before it to `behind` words after it, and no others."""
    vectors = torch.randn(1, PLACES, 12)
    changed = vectors.clone()
    changed[0, 50] += torch.randn(12)
    found = network()
    different = (scores(found, vectors) != scores(found, changed)).any(dim=2)[0].nonzero().flatten().tolist()
    assert different[0] == 50 - SHAPE.ahead
    assert different[-1] == 50 + SHAPE.behind
    assert (SHAPE.behind, SHAPE.ahead) == (5, 2)


@pytest.mark.parametrize("shift", [1, 5, 17, BLOCK])
def test_the_same_words_give_the_same_bits_at_other_places(shift: int) -> None:
    """The answers for words have the same bits at any place of a row, and beside other words beyond a gap."""
    text = torch.randn(1, 40, 12)
    found = network()
    results = []
    for before, others in ((0, 1), (shift, 3)):
        taken = torch.zeros(1, others * PLACES)
        vectors = torch.randn(1, others * PLACES, 12)
        taken[0, before : before + 40] = 1
        taken[0, before + 40 + SHAPE.gap :] = 1
        vectors[0, before : before + 40] = text
        pauses = torch.zeros(1, others * PLACES, dtype=torch.int64)
        results.append(torch.cat(found(vectors, pauses, taken), dim=2)[0, before : before + 40])
    assert torch.equal(*results)


def test_blocks_change_nothing() -> None:
    """The products in blocks are those that the training computes."""
    vectors = torch.randn(2, PLACES, 12)
    found = network()
    in_blocks = scores(found, vectors)
    assert torch.allclose(in_blocks, scores(found.requires_grad_(True), vectors), atol=1e-5)


def test_pauses_are_told_apart_by_length() -> None:
    """Pauses have different classes by their length, and an unknown pause has its own."""
    assert pause_number(None) == 0
    assert [pause_number(0), pause_number(PAUSE_BOUNDS[0]), pause_number(10**6)] == [1, 2, PAUSES - 1]


def test_a_view_must_have_its_own_place() -> None:
    """A view without its own place is refused."""
    with pytest.raises(ValueError, match="its own place"):
        NetworkShape.parse({"embedding": 8, "width": 8, "views": [[-2, -1]]})
    assert NetworkShape.parse(SHAPE.values()) == SHAPE
