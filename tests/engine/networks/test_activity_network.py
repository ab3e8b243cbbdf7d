"""The activity network computes the same in steps as on a whole recording, and hears nothing of the future."""

from __future__ import annotations

import pytest
import torch

from streamer.engine.networks.activity_network import ActivityNetwork


@pytest.fixture
def head() -> ActivityNetwork:
    """Provide a small untrained network."""
    torch.manual_seed(0)
    return ActivityNetwork(mels=80, width=8, memory=8).eval().requires_grad_(False)


@pytest.mark.parametrize("frames", [4, 8, 16])
def test_steps_of_any_length_equal_the_whole(head: ActivityNetwork, frames: int) -> None:
    """Steps on used slots, in a batch, give the same results as the whole recording."""
    energies, slots = torch.randn(2, 4 * 48, 80) * 3, torch.tensor([3, 1])
    state = head.make_state(4)
    head.step(state, torch.arange(4), torch.randn(4, 16, 80))
    for tensor in state.values():
        tensor[slots] = 0
    pieces = [head.step(state, slots, piece) for piece in energies.split(4 * frames, dim=1)]
    whole = head(energies)
    assert whole.shape == (2, 48, 1)
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, atol=1e-5, rtol=0)
    torch.testing.assert_close(head(energies[:1]), whole[:1], atol=1e-5, rtol=0)


def test_the_head_hears_nothing_of_the_future(head: ActivityNetwork) -> None:
    """Later features do not change a frame."""
    energies = torch.randn(1, 80, 80)
    other = energies.clone()
    other[:, 40:] = torch.randn(1, 40, 80)
    torch.testing.assert_close(head(energies)[:, :10], head(other)[:, :10], atol=1e-6, rtol=0)
