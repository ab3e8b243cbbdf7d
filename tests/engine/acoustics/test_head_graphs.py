"""The heads and the activity network as graphs compute what torch computes, and no stream depends on its company."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from streamer.engine.acoustics.head_graphs import CompiledActivity, CompiledHeads
from streamer.engine.acoustics.streaming_model import Floats, ModelState
from streamer.engine.networks.acoustic_network import weights_of
from streamer.engine.networks.activity_network import ActivityNetwork
from tests.engine.small_encoders import CONFORMER as SMALL
from tests.engine.used_slots import used


def energies_of(streams: int) -> Floats:
    """Return random energies for 16 frames."""
    return 3 * np.random.default_rng(1).standard_normal((streams, 64, 80)).astype(np.float32)


def stream(network: CompiledActivity, state: ModelState, slots: list[int], energies: Floats, frames: int) -> Floats:
    """Return the outputs for these energies, in parts of this many frames."""
    parts = (energies[:, first : first + 4 * frames] for first in range(0, 64, 4 * frames))
    return np.concatenate([network.step(state, slots, part) for part in parts], axis=1)


@pytest.mark.parametrize("frames", [1, 2, 3, 5, 8, 31])
def test_heads_give_a_frame_the_same_bits_in_any_company(frames: int) -> None:
    """The log-probabilities of a frame depend neither on its place nor on the number of frames and streams."""
    heads = CompiledHeads(SMALL.config, weights_of(SMALL.network()))
    inputs = np.random.default_rng(3).standard_normal((7, 62, SMALL.config.frame_width)).astype(np.float32) * 3
    together = heads.emissions(inputs)["characters"]
    for row, first in product(range(7), range(0, 62, frames)):
        part = heads.emissions(inputs[row : row + 1, first : first + frames])["characters"]
        assert np.array_equal(part[0], together[row, first : first + frames])
    np.testing.assert_allclose(np.exp(together).sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize("frames", [1, 2, 8])
def test_the_activity_network_computes_what_torch_computes(frames: int) -> None:
    """Streams in a batch get the log-probabilities of the whole recording, in slots that were used before."""
    torch.manual_seed(0)
    network = ActivityNetwork(mels=80, width=8, memory=12).eval().requires_grad_(False)
    compiled = CompiledActivity(weights_of(network))
    energies, slots = energies_of(3), [3, 1, 0]
    state = used(compiled, 4, slots)
    kept = {name: array[2].copy() for name, array in state.items()}
    found = stream(compiled, state, slots, energies, frames)
    np.testing.assert_allclose(found, network(torch.from_numpy(energies)), atol=1e-5)
    assert all(np.array_equal(state[name][2], array) for name, array in kept.items())


@pytest.mark.parametrize("frames", [1, 3, 8])
def test_company_and_parts_do_not_matter(frames: int) -> None:
    """A stream gets the same bits alone and in a batch, and in parts of any length."""
    torch.manual_seed(1)
    compiled = CompiledActivity(weights_of(ActivityNetwork()))
    energies = energies_of(5)
    whole = compiled.step(compiled.make_state(5), range(5), energies)
    for row in range(5):
        parts = stream(compiled, compiled.make_state(1), [0], energies[row : row + 1], frames)
        assert np.array_equal(parts, whole[row : row + 1])
