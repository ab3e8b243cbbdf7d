"""The encoder as a graph computes what the modules of torch compute, and no stream depends on its company."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from streamer.engine.acoustics.encoder import CtcHead, Encoder, EncoderConfig
from streamer.engine.acoustics.speech_detector import ActivityNetwork
from streamer.engine.acoustics.streaming_model import ModelState, SlotNetwork
from streamer.engine.language.neural_model import SENTENCE_START, NeuralWeights
from streamer.engine.network_graphs import CompiledActivity, CompiledEncoder, CompiledReading
from streamer.engine.networks.neural_network import NeuralNetwork

CONFIG = EncoderConfig(
    outputs=(CtcHead("characters", 3, 5),), stem=16, width=32, layers=3, heads=2, feedforward=48, left_frames=24
)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    """Provide a small untrained encoder, whose layers of normalisation have random weights, too."""
    torch.manual_seed(0)
    made = Encoder(CONFIG).eval().requires_grad_(False)
    for module in made.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.weight.normal_(1, 0.2)
            module.bias.normal_(0, 0.2)
    return made


@pytest.fixture(scope="module")
def compiled(encoder: Encoder) -> CompiledEncoder:
    """Provide the same encoder as a graph."""
    return CompiledEncoder(encoder)


def used(network: SlotNetwork, slots: int, cleaned: Tensor) -> ModelState:
    """Return a state with remains of other streams, in which these slots were reset."""
    state = network.make_state(slots)
    for tensor in state.values():
        tensor.copy_(torch.randint(1, 99, tensor.shape))
        tensor.index_fill_(0, cleaned, 0)
    return state


def stream(network: SlotNetwork, state: ModelState, slots: Tensor, mel: Tensor, chunk: int) -> Tensor:
    """Return the frames of these features, chunk by chunk."""
    return torch.cat([network.step(state, slots, piece) for piece in mel.split(4 * chunk, dim=1)], dim=1)


@pytest.mark.parametrize("chunk", [4, 8, 16])
def test_it_computes_what_torch_computes(encoder: Encoder, compiled: CompiledEncoder, chunk: int) -> None:
    """Emissions differ by less than 1e-4, for longer than the window of the past."""
    torch.manual_seed(1)
    mel, slots = torch.randn(3, 4 * 96, CONFIG.mels), torch.tensor([6, 0, 3])
    found, expected = (
        encoder.emissions(stream(network, used(network, 8, slots), slots, mel, chunk))["characters"]
        for network in (compiled, encoder)
    )
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("taken", [[4, 0, 6, 2, 5], [2, 3, 4, 5, 6]])
def test_company_and_slot_do_not_matter(compiled: CompiledEncoder, taken: list[int]) -> None:
    """A stream gets the same bits alone and in a batch whose streams are older, in any slots, also side by side."""
    torch.manual_seed(2)
    mel = torch.randn(5, 4 * 48, CONFIG.mels)
    alone = torch.tensor([1])
    expected = stream(compiled, used(compiled, 2, alone), alone, mel[2:3], 8)
    slots = torch.tensor(taken)
    state = used(compiled, 7, slots)
    compiled.step(state, slots[[0, 4]], torch.randn(2, 64, CONFIG.mels))
    assert torch.equal(stream(compiled, state, slots, mel, 8)[2:3], expected)


def test_steps_of_different_lengths_follow_one_another(encoder: Encoder, compiled: CompiledEncoder) -> None:
    """The length of a step may change within a stream."""
    torch.manual_seed(3)
    slots = torch.tensor([0])
    state, reference = compiled.make_state(1), encoder.make_state(1)
    for chunk in (8, 4, 16, 1, 4, 16, 16, 8):
        mel = torch.randn(1, 4 * chunk, CONFIG.mels)
        found, expected = compiled.step(state, slots, mel), encoder.step(reference, slots, mel)
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_slots_that_take_no_part_in_a_step_keep_their_state(compiled: CompiledEncoder) -> None:
    """A step writes only to the slots that it was given."""
    state = used(compiled, 4, torch.tensor([0]))
    before = {name: tensor.clone() for name, tensor in state.items()}
    compiled.step(state, torch.tensor([2]), torch.randn(1, 32, CONFIG.mels))
    others = torch.tensor([0, 1, 3])
    for name, tensor in state.items():
        assert torch.equal(tensor[others], before[name][others])
        assert not torch.equal(tensor[2], before[name][2])


def test_a_step_of_the_wrong_length_is_refused(compiled: CompiledEncoder) -> None:
    """A step that is not a multiple of a frame, or longer than the largest chunk, is refused."""
    for hops in (6, 4 * 17):
        with pytest.raises(ValueError, match="4 to 64 feature frames"):
            compiled.step(compiled.make_state(1), torch.tensor([0]), torch.zeros(1, hops, CONFIG.mels))


def test_a_window_shorter_than_a_step_is_refused() -> None:
    """The ring of the past must have room for the longest step."""
    with pytest.raises(ValueError, match="left_frames"):
        CompiledEncoder(Encoder(EncoderConfig(outputs=(), left_frames=8)))


@pytest.mark.parametrize("frames", [1, 40, 512, 700])
def test_a_whole_segment_is_what_torch_computes(encoder: Encoder, compiled: CompiledEncoder, frames: int) -> None:
    """Every frame sees the whole segment, up to the length of the longest step, also if that is passed."""
    torch.manual_seed(5)
    mel = torch.randn(1, 4 * frames, CONFIG.mels)
    found, expected = (network.whole(mel) for network in (compiled, encoder))
    assert found.shape == (1, frames, CONFIG.width)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("frames", [1, 2, 8])
def test_compiled_activity_it_computes_what_torch_computes(frames: int) -> None:
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


SIZE, ROWS = 20, 67


@pytest.fixture
def weights() -> NeuralWeights:
    """Provide random weights, of sizes whose products are quick."""
    torch.manual_seed(0)
    return NeuralNetwork(SIZE, 64, 128).weights()


def test_compiled_reading_it_computes_what_torch_computes(weights: NeuralWeights) -> None:
    """The memories after several words are those that torch computes."""
    compiled, network = CompiledReading(weights), NeuralNetwork.of(weights)
    found = expected = torch.zeros(ROWS, 2 * 128 + 64)
    for words in (torch.full([ROWS], SENTENCE_START), *torch.randint(SIZE, (6, ROWS))):
        vectors = network.vectors(words).detach()
        found = torch.from_numpy(compiled(found.numpy(), vectors.numpy()))
        expected = network.read_vectors(expected, vectors).detach()
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 16, 31])
def test_company_does_not_matter(weights: NeuralWeights, rows: int) -> None:
    """The bits of a row depend neither on its place nor on the number of rows."""
    compiled, dice = CompiledReading(weights), np.random.default_rng(0)
    memories, vectors = (dice.normal(size=(ROWS, size)).astype(np.float32) for size in (2 * 128 + 64, 64))
    together = compiled(memories, vectors)
    for start in range(0, ROWS, rows):
        some = slice(start, start + rows)
        assert np.array_equal(compiled(memories[some], vectors[some]), together[some])
