"""The encoder as a graph computes what the modules of torch compute, and no stream depends on its company."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from streamer.engine import file_cache, network_graphs
from streamer.engine.acoustics.bundle_files import Weights
from streamer.engine.acoustics.encoder_config import CtcHead, EncoderConfig
from streamer.engine.acoustics.streaming_model import Floats, ModelState, SlotNetwork
from streamer.engine.language.neural_model import SENTENCE_START, NeuralWeights
from streamer.engine.memory.footprint import footprint
from streamer.engine.network_graphs import CompiledActivity, CompiledEncoder, CompiledHeads, CompiledReading
from streamer.engine.networks.acoustic_network import weights_of
from streamer.engine.networks.activity_network import ActivityNetwork
from streamer.engine.networks.encoder import Encoder
from streamer.engine.networks.host_arrays import host_array
from streamer.engine.networks.neural_network import NeuralNetwork
from streamer.engine.waiting import finish

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
    return CompiledEncoder(CONFIG, weights_of(encoder))


def features(streams: int, frames: int, seed: int = 1) -> Floats:
    """Return random features for this many frames."""
    return np.random.default_rng(seed).standard_normal((streams, 4 * frames, CONFIG.mels)).astype(np.float32)


def used(network: SlotNetwork, slots: int, cleaned: Sequence[int]) -> ModelState:
    """Return a state with remains of other streams, in which these slots were reset."""
    state, dice = network.make_state(slots), np.random.default_rng(0)
    for array in state.values():
        array[:] = dice.integers(1, 99, array.shape)
        array[list(cleaned)] = 0
    return state


def stream(network: SlotNetwork, state: ModelState, slots: Sequence[int], inputs: Floats, chunk: int) -> Floats:
    """Return the outputs for these inputs, chunk by chunk."""
    size = 4 * chunk
    parts = [inputs[:, first : first + size] for first in range(0, inputs.shape[1], size)]
    return np.concatenate([network.step(state, slots, part) for part in parts], axis=1)


class InTorch:
    """A network in torch as one that takes and gives arrays, so that both can be compared."""

    def __init__(self, network: Encoder) -> None:
        self._network = network

    def make_state(self, slots: int) -> ModelState:
        """Return a fresh state."""
        return self._network.make_state(slots)

    def step(self, state: ModelState, slots: Sequence[int], inputs: Floats) -> Floats:
        """Return the output of torch."""
        return host_array(self._network.step(state, torch.tensor(slots), torch.from_numpy(inputs)))


@pytest.mark.parametrize("chunk", [4, 8, 16])
def test_it_computes_what_torch_computes(encoder: Encoder, compiled: CompiledEncoder, chunk: int) -> None:
    """Emissions differ by less than 1e-4, for longer than the window of the past."""
    mel, slots, reference = features(3, 96), [6, 0, 3], InTorch(encoder)
    heads = CompiledHeads(CONFIG, weights_of(encoder))
    found = heads.emissions(stream(compiled, used(compiled, 8, slots), slots, mel, chunk))
    frames = stream(reference, reference.make_state(8), slots, mel, chunk)
    expected = encoder.emissions(torch.from_numpy(frames))
    assert found.keys() == expected.keys()
    np.testing.assert_allclose(found["characters"], expected["characters"], atol=1e-4)


@pytest.mark.parametrize("taken", [[4, 0, 6, 2, 5], [2, 3, 4, 5, 6]])
def test_company_and_slot_do_not_matter(compiled: CompiledEncoder, taken: list[int]) -> None:
    """A stream gets the same bits alone and in a batch whose streams are older, in any slots, also side by side."""
    mel = features(5, 48)
    expected = stream(compiled, used(compiled, 2, [1]), [1], mel[2:3], 8)
    state = used(compiled, 7, taken)
    compiled.step(state, [taken[0], taken[4]], features(2, 16, seed=2))
    assert np.array_equal(stream(compiled, state, taken, mel, 8)[2:3], expected)


@pytest.mark.parametrize("frames", [1, 2, 3, 5, 8, 31])
def test_heads_give_a_frame_the_same_bits_in_any_company(encoder: Encoder, frames: int) -> None:
    """The log-probabilities of a frame depend neither on its place nor on the number of frames and streams."""
    heads = CompiledHeads(CONFIG, weights_of(encoder))
    inputs = np.random.default_rng(3).standard_normal((7, 62, CONFIG.width)).astype(np.float32) * 3
    together = heads.emissions(inputs)["characters"]
    for row, first in product(range(7), range(0, 62, frames)):
        part = heads.emissions(inputs[row : row + 1, first : first + frames])["characters"]
        assert np.array_equal(part[0], together[row, first : first + frames])
    np.testing.assert_allclose(np.exp(together).sum(-1), 1, atol=1e-5)


def test_steps_of_different_lengths_follow_one_another(encoder: Encoder, compiled: CompiledEncoder) -> None:
    """The length of a step may change within a stream."""
    networks: list[SlotNetwork] = [compiled, InTorch(encoder)]
    states = [network.make_state(1) for network in networks]
    for seed, chunk in enumerate((8, 4, 16, 1, 4, 16, 16, 8)):
        mel = features(1, chunk, seed)
        found, expected = (network.step(state, [0], mel) for network, state in zip(networks, states, strict=True))
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_slots_that_take_no_part_in_a_step_keep_their_state(compiled: CompiledEncoder) -> None:
    """A step writes only to the slots that it was given."""
    state = used(compiled, 4, [0])
    before = {name: array.copy() for name, array in state.items()}
    compiled.step(state, [2], features(1, 8))
    for name, array in state.items():
        assert np.array_equal(array[[0, 1, 3]], before[name][[0, 1, 3]])
        assert not np.array_equal(array[2], before[name][2])


def test_a_step_of_the_wrong_length_is_refused(compiled: CompiledEncoder) -> None:
    """A step that is not a multiple of a frame, or longer than the largest chunk, is refused."""
    for hops in (6, 4 * 17):
        with pytest.raises(ValueError, match="4 to 64 feature frames"):
            compiled.step(compiled.make_state(1), [0], np.zeros((1, hops, CONFIG.mels), np.float32))


def test_a_window_shorter_than_a_step_is_refused() -> None:
    """The ring of the past must have room for the longest step."""
    with pytest.raises(ValueError, match="left_frames"):
        CompiledEncoder(EncoderConfig(outputs=(), left_frames=8), {})


@pytest.mark.parametrize("frames", [1, 40, 512, 700])
def test_a_whole_segment_is_what_torch_computes(encoder: Encoder, compiled: CompiledEncoder, frames: int) -> None:
    """Every frame sees the whole segment, up to the length of the longest step, also if that is passed."""
    mel = features(1, frames)
    found, expected = finish(compiled.whole(mel)), encoder.whole(torch.from_numpy(mel))
    assert found.shape == (1, frames, CONFIG.width)
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("frames", [1, 2, 8])
def test_compiled_activity_it_computes_what_torch_computes(frames: int) -> None:
    """Streams in a batch get the log-probabilities of the whole recording, in slots that were used before."""
    torch.manual_seed(0)
    network = ActivityNetwork(mels=80, width=8, memory=12).eval().requires_grad_(False)
    compiled = CompiledActivity(weights_of(network))
    energies, slots = features(3, 16) * 3, [3, 1, 0]
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
    energies = features(5, 16) * 3
    whole = compiled.step(compiled.make_state(5), range(5), energies)
    for row in range(5):
        parts = stream(compiled, compiled.make_state(1), [0], energies[row : row + 1], frames)
        assert np.array_equal(parts, whole[row : row + 1])


SIZE, ROWS = 20, 67


@pytest.fixture
def weights() -> NeuralWeights:
    """Provide random weights, of sizes whose products are quick."""
    torch.manual_seed(0)
    return NeuralNetwork(SIZE, 64, 128).weights()


def test_compiled_reading_it_computes_what_torch_computes(weights: NeuralWeights) -> None:
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


# The weights of large graphs lie in the cache, where all processes share them.


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide an empty cache that also takes small graphs."""
    monkeypatch.setattr(file_cache, "folders_for_files", lambda: [tmp_path / "files"])
    monkeypatch.setattr(file_cache, "LEAST", 0)
    monkeypatch.setattr(network_graphs, "LEAST", 0)
    return tmp_path / "files"


def encoded(weights: Weights) -> Floats:
    """Return what a graph with these weights computes."""
    graph = CompiledEncoder(CONFIG, weights)
    return stream(graph, graph.make_state(3), [0, 1, 2], features(3, 24), 8)


def test_shared_weights_give_the_same_bits(encoder: Encoder, compiled: CompiledEncoder, cache: Path) -> None:
    """A graph from the cache computes the same as one in the memory of the process, and holds no weights of its own."""
    expected = stream(compiled, compiled.make_state(3), [0, 1, 2], features(3, 24), 8)
    for _ in range(2):
        assert np.array_equal(encoded(weights_of(encoder)), expected)
    [folder] = cache.iterdir()
    graph = CompiledEncoder(CONFIG, weights_of(encoder))
    assert str(folder / "weights.bin") in Path("/proc/self/maps").read_text(encoding="utf-8")
    assert sys.getsizeof(graph) < 1000 < sys.getsizeof(compiled)
    weights = sum(array.nbytes for array in weights_of(encoder).values())
    assert weights < 3 * footprint(graph).mapped


def test_other_weights_have_other_files(encoder: Encoder, cache: Path) -> None:
    """A change of a single weight is another graph."""
    weights = weights_of(encoder)
    before = encoded(weights)
    weights["stem.first.bias"] = weights["stem.first.bias"] + 1
    assert not np.array_equal(encoded(weights), before)
    assert len(list(cache.iterdir())) == 2


def test_a_damaged_file_is_made_anew(encoder: Encoder, cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If the files of a graph are damaged, this process computes without them, and the next one writes them again."""
    expected = encoded(weights_of(encoder))
    [folder] = cache.iterdir()
    (folder / "weights.bin").write_bytes(b"damaged")
    assert np.array_equal(encoded(weights_of(encoder)), expected)
    assert "not shared" in caplog.text
    assert list(cache.iterdir()) == []
    assert np.array_equal(encoded(weights_of(encoder)), expected)
    assert list(cache.iterdir()) == [folder]


def test_without_a_cache_the_weights_are_in_the_process(encoder: Encoder, cache: Path) -> None:
    """If nothing can be written, each process has its own weights."""
    cache.write_text("no folder")
    graph = CompiledEncoder(CONFIG, weights_of(encoder))
    assert sys.getsizeof(graph) > 1000
    other = CompiledEncoder(CONFIG, weights_of(encoder))
    assert np.array_equal(finish(graph.whole(features(1, 8))), finish(other.whole(features(1, 8))))


def test_the_neural_model_is_shared(weights: NeuralWeights, cache: Path) -> None:
    """The weights with which the neural language model reads are in the cache as well."""
    memories, vectors = np.ones((3, 2 * 128 + 64), np.float32), weights.bytes_of("vectors.weight", np.arange(3))
    first = CompiledReading(weights)(memories, *vectors)
    assert [path.name.partition("-")[0] for path in cache.iterdir()] == ["reading"]
    assert np.array_equal(CompiledReading(weights)(memories, *vectors), first)
