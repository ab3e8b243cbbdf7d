"""An encoder as a graph computes what the modules of torch compute, and no stream depends on its company."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from streamer.engine.acoustics.encoder_graphs import CompiledEncoder, compiled_encoder
from streamer.engine.acoustics.head_graphs import CompiledHeads
from streamer.engine.acoustics.streaming_model import Floats, ModelState, SlotNetwork
from streamer.engine.network_graphs import Precision
from streamer.engine.networks.acoustic_network import weights_of
from streamer.engine.networks.encoder import Encoder
from streamer.engine.networks.host_arrays import host_array
from streamer.engine.networks.moonshine_encoder import MoonshineEncoder
from streamer.engine.waiting import finish
from tests.engine.small_encoders import CONFORMER, MOONSHINES, SmallEncoder
from tests.engine.used_slots import used


@pytest.fixture(scope="module", params=[CONFORMER, *MOONSHINES], ids=["features", "samples", "pooled"])
def small(request: pytest.FixtureRequest) -> SmallEncoder:
    """Provide an encoder of each kind."""
    own: SmallEncoder = request.param
    return own


@pytest.fixture(scope="module")
def encoder(small: SmallEncoder) -> Encoder | MoonshineEncoder:
    """Provide it in torch."""
    return small.network()


@pytest.fixture(scope="module")
def exact(small: SmallEncoder, encoder: Encoder | MoonshineEncoder) -> CompiledEncoder:
    """Provide it as a graph that computes in fractions."""
    return compiled_encoder(small.config, weights_of(encoder), Precision.FULL)


@pytest.fixture(scope="module")
def compiled(small: SmallEncoder, encoder: Encoder | MoonshineEncoder) -> CompiledEncoder:
    """Provide it as the graph that is served, which multiplies bytes."""
    return compiled_encoder(small.config, weights_of(encoder))


class InTorch:
    """A network in torch as one that takes and gives arrays, so that both can be compared."""

    def __init__(self, network: Encoder | MoonshineEncoder) -> None:
        self._network = network

    def make_state(self, slots: int) -> ModelState:
        """Return a fresh state."""
        return self._network.make_state(slots)

    def step(self, state: ModelState, slots: Sequence[int], inputs: Floats) -> Floats:
        """Return the output of torch."""
        return host_array(self._network.step(state, torch.tensor(slots), torch.from_numpy(inputs)))


@pytest.mark.parametrize("chunk", [4, 8, 16])
def test_it_computes_what_torch_computes(
    small: SmallEncoder,
    encoder: Encoder | MoonshineEncoder,
    exact: CompiledEncoder,
    compiled: CompiledEncoder,
    chunk: int,
) -> None:
    """Emissions differ by less than 1e-4, for longer than the window of the past; in bytes, by a little more."""
    inputs, slots, reference = small.inputs(3, 96), [6, 0, 3], InTorch(encoder)
    heads = CompiledHeads(small.config, weights_of(encoder))
    found, rounded = (
        heads.emissions(small.stream(graph, used(graph, 8, slots), slots, inputs, chunk)) for graph in (exact, compiled)
    )
    frames = small.stream(reference, reference.make_state(8), slots, inputs, chunk)
    expected = encoder.emissions(torch.from_numpy(frames))
    assert found.keys() == rounded.keys() == expected.keys()
    np.testing.assert_allclose(found["characters"], expected["characters"], atol=1e-4)
    away = rounded["characters"] - expected["characters"].numpy()
    assert 1e-4 < np.abs(away).max() < 0.5
    assert away.std() < 0.03 * expected["characters"].numpy().std()


@pytest.mark.parametrize("taken", [[4, 0, 6, 2, 5], [2, 3, 4, 5, 6]])
def test_company_and_slot_do_not_matter(small: SmallEncoder, compiled: CompiledEncoder, taken: list[int]) -> None:
    """A stream gets the same bits alone and in a batch whose streams are older, in any slots, also side by side."""
    inputs = small.inputs(5, 48)
    expected = small.stream(compiled, used(compiled, 2, [1]), [1], inputs[2:3], 8)
    state = used(compiled, 7, taken)
    compiled.step(state, [taken[0], taken[4]], small.inputs(2, 16, seed=2))
    assert np.array_equal(small.stream(compiled, state, taken, inputs, 8)[2:3], expected)


def test_steps_of_different_lengths_follow_one_another(
    small: SmallEncoder, encoder: Encoder | MoonshineEncoder, exact: CompiledEncoder
) -> None:
    """The length of a step may change within a stream."""
    networks: list[SlotNetwork] = [exact, InTorch(encoder)]
    states = [network.make_state(1) for network in networks]
    for seed, chunk in enumerate((8, 4, 16, 1, 4, 16, 16, 8)):
        inputs = small.inputs(1, chunk, seed)
        found, expected = (network.step(state, [0], inputs) for network, state in zip(networks, states, strict=True))
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_slots_that_take_no_part_in_a_step_keep_their_state(small: SmallEncoder, compiled: CompiledEncoder) -> None:
    """A step writes only to the slots that it was given."""
    state = used(compiled, 4, [0])
    before = {name: array.copy() for name, array in state.items()}
    compiled.step(state, [2], small.inputs(1, 8))
    for name, array in state.items():
        assert np.array_equal(array[[0, 1, 3]], before[name][[0, 1, 3]])
        assert not np.array_equal(array[2], before[name][2])


def test_a_step_of_the_wrong_length_is_refused(small: SmallEncoder, compiled: CompiledEncoder) -> None:
    """A step that is not a multiple of a frame, or longer than the largest chunk, is refused."""
    longest = small.inputs(1, 17)
    for wrong in (longest, longest[:, : small.context + small.per_frame * 3 // 2]):
        with pytest.raises(ValueError, match=f"multiple of {small.config.frame_samples} samples"):
            compiled.step(compiled.make_state(1), [0], wrong)


def test_a_window_shorter_than_a_step_is_refused(small: SmallEncoder) -> None:
    """The ring of the past must have room for the longest step."""
    with pytest.raises(ValueError, match="left_frames"):
        compiled_encoder(replace(small.config, left_frames=8), {})


@pytest.mark.parametrize("frames", [1, 40, 512, 700])
def test_a_whole_segment_is_what_torch_computes(
    small: SmallEncoder, encoder: Encoder | MoonshineEncoder, exact: CompiledEncoder, frames: int
) -> None:
    """Every frame sees the whole segment, up to the length of the longest step, also if that is passed."""
    inputs = small.inputs(1, frames)
    found, expected = finish(exact.whole(inputs)), encoder.whole(torch.from_numpy(inputs))
    assert found.shape == (1, frames, small.config.frame_width)
    np.testing.assert_allclose(found, expected, atol=1e-4)
