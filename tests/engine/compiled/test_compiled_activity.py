"""The activity network as a graph computes what the modules of torch compute."""

from __future__ import annotations

import pytest
import torch

from streamer.engine.compiled.compiled_activity import CompiledActivity
from streamer.engine.models.activity_network import ActivityNetwork


@pytest.mark.parametrize("frames", [1, 2, 8])
def test_it_computes_what_torch_computes(frames: int) -> None:
    """Streams in a batch get the log-probabilities of the whole recording, in slots that were used before."""
    torch.manual_seed(0)
    network = ActivityNetwork(mels=80, width=8, memory=12).eval().requires_grad_(False)
    compiled = CompiledActivity(network)
    energies, slots = torch.randn(3, 4 * 16, 80) * 3, torch.tensor([3, 1, 0])
    state = compiled.make_state(4)
    compiled.step(state, torch.arange(4), torch.randn(4, 16, 80))
    kept = {name: tensor[2].clone() for name, tensor in state.items()}
    for tensor in state.values():
        tensor[slots] = 0
    found = torch.cat([compiled.step(state, slots, piece) for piece in energies.split(4 * frames, dim=1)], dim=1)
    torch.testing.assert_close(found, network(energies), atol=1e-5, rtol=0)
    assert all(torch.equal(state[name][2], tensor) for name, tensor in kept.items())


@pytest.mark.parametrize("frames", [1, 3, 8])
def test_company_and_parts_do_not_matter(frames: int) -> None:
    """A stream gets the same bits alone and in a batch, and in parts of any length."""
    torch.manual_seed(1)
    compiled = CompiledActivity(ActivityNetwork().eval().requires_grad_(False))
    energies = torch.randn(5, 64, 80) * 3
    whole = compiled.step(compiled.make_state(5), torch.arange(5), energies)
    for row in range(5):
        state, slot = compiled.make_state(1), torch.tensor([0])
        parts = [compiled.step(state, slot, part) for part in energies[row : row + 1].split(4 * frames, dim=1)]
        assert torch.equal(torch.cat(parts, dim=1), whole[row : row + 1])
