"""Steps in padded batches are those of the network alone, in any company. On a CPU nothing is recorded.

The rest, the recording itself, is what `scripts/measure/gpu.py` compares where there is a GPU.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from streamer.engine.networks import step_graphs
from streamer.engine.networks.acoustic_network import AcousticNetwork
from streamer.engine.networks.activity_network import ActivityNetwork
from streamer.engine.networks.step_graphs import GraphedNetwork, sizes_up_to
from tests.engine.networks.small_network import DESCRIPTION

SLOTS = 11
STEP_SAMPLES = {step_ms: 16 * step_ms for step_ms in DESCRIPTION.step_ms}


@pytest.fixture
def networks() -> tuple[AcousticNetwork, GraphedNetwork]:
    """Provide the same small untrained network, alone and in padded batches."""
    torch.manual_seed(0)
    alone, graphed = AcousticNetwork(DESCRIPTION), GraphedNetwork(DESCRIPTION)
    graphed.load_state_dict(alone.state_dict())
    activity = ActivityNetwork()
    for each in (alone, graphed):
        each.set_activity(activity)
        each.eval().requires_grad_(False)
    return alone, graphed


@pytest.mark.parametrize("largest", [4, 2048])
@pytest.mark.parametrize("step_ms", DESCRIPTION.step_ms)
def test_streams_in_any_company(
    networks: tuple[AcousticNetwork, GraphedNetwork], step_ms: int, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random streams in random batches have what each has alone, whatever was in their slots and in the padding."""
    monkeypatch.setattr(step_graphs, "LARGEST_BATCH", largest)
    random = np.random.default_rng(0)
    alone, graphed = networks
    states = [network.make_state(SLOTS) for network in networks]
    for round_number in range(12):
        slots = random.permutation(SLOTS)[: random.integers(1, SLOTS + 1)].tolist()
        audio = random.integers(-30_000, 30_000, (len(slots), STEP_SAMPLES[step_ms])).astype(np.int16)
        if round_number == 6:
            for network, state in zip(networks, states, strict=True):
                network.reset(state, slots[:1])
        expected = [alone.step(states[0], [slot], own[None]) for slot, own in zip(slots, audio, strict=True)]
        found = graphed.step(states[1], slots, audio)
        assert found.keys() == expected[0].keys()
        for name, emissions in found.items():
            for row, own in zip(emissions, expected, strict=True):
                np.testing.assert_allclose(row, own[name][0], atol=2e-4)


def test_results_stay(networks: tuple[AcousticNetwork, GraphedNetwork]) -> None:
    """What a step has given does not change when the next one is computed."""
    _, graphed = networks
    state = graphed.make_state(2)
    audio = np.random.default_rng(0).integers(-9000, 9000, (2, 2, STEP_SAMPLES[320])).astype(np.int16)
    first = graphed.step(state, [0, 1], audio[0])
    kept = {name: emissions.copy() for name, emissions in first.items()}
    graphed.step(state, [1, 0], audio[1])
    for name, emissions in first.items():
        assert np.array_equal(emissions, kept[name])


def test_other_states_and_steps(networks: tuple[AcousticNetwork, GraphedNetwork]) -> None:
    """A state of another network is computed without padding. A step of no right length is refused."""
    alone, graphed = networks
    state, own = alone.make_state(2), graphed.make_state(2)
    audio = np.zeros((1, STEP_SAMPLES[320]), np.int16)
    assert graphed.step(state, [1], audio)["characters"].shape == graphed.step(own, [1], audio)["characters"].shape
    with pytest.raises(ValueError, match="multiple of 640 samples"):
        graphed.step(own, [1], audio[:, :-1])
    assert graphed.step(own, [1], audio[:, : 640 * 2])["characters"].shape[:2] == (1, 2)


@pytest.mark.parametrize(("most", "sizes"), [(1, [1]), (2, [1, 2]), (33, [1, 2, 4, 8, 16, 32, 64])])
def test_sizes(most: int, sizes: list[int]) -> None:
    """Every batch finds a size that is less than twice as large."""
    assert sizes_up_to(most) == sizes
