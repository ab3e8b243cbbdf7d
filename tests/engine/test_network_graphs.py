"""The weights of large graphs lie in the cache, where all processes share them, and their layers multiply bytes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from streamer.engine import file_cache, network_graphs
from streamer.engine.acoustics.bundle_files import Weights
from streamer.engine.acoustics.encoder_graphs import compiled_encoder
from streamer.engine.acoustics.streaming_model import Floats
from streamer.engine.language.reading_graph import CompiledReading
from streamer.engine.memory.footprint import footprint
from streamer.engine.network_graphs import BATCH, Precision
from streamer.engine.networks.acoustic_network import weights_of
from streamer.engine.networks.neural_network import NeuralNetwork
from streamer.engine.public.sessions import new_session
from streamer.engine.waiting import finish
from tests.engine.small_encoders import CONFORMER as SMALL


def use_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use an empty cache in this folder that also takes small graphs."""
    monkeypatch.setattr(file_cache, "folders_for_files", lambda: [folder / "files"])
    monkeypatch.setattr(file_cache, "LEAST", 0)
    monkeypatch.setattr(network_graphs, "LEAST", 0)
    return folder / "files"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide such a cache."""
    return use_cache(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def weights() -> Weights:
    """Provide the weights of a small encoder."""
    return weights_of(SMALL.network())


def encoded(weights: Weights) -> Floats:
    """Return what a graph with these weights computes."""
    graph = compiled_encoder(SMALL.config, weights)
    return SMALL.stream(graph, graph.make_state(3), [0, 1, 2], SMALL.inputs(3, 24), 8)


def test_shared_weights_give_the_same_bits(weights: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph from the cache computes the same as one in the memory of the process, and holds no weights of its own."""
    own, expected = compiled_encoder(SMALL.config, weights), encoded(weights)
    folder = use_cache(tmp_path, monkeypatch)
    for _ in range(2):
        assert np.array_equal(encoded(weights), expected)
    [files] = folder.iterdir()
    graph = compiled_encoder(SMALL.config, weights)
    assert str(files / "weights.bin") in Path("/proc/self/maps").read_text(encoding="utf-8")
    assert sys.getsizeof(graph) < 1000 < sys.getsizeof(own)
    assert sum(array.nbytes for array in weights.values()) < 3 * footprint(graph).mapped


def test_other_weights_have_other_files(weights: Weights, cache: Path) -> None:
    """A change of a single weight is another graph."""
    before = encoded(weights)
    others = {**weights, "stem.first.bias": weights["stem.first.bias"] + 1}
    assert not np.array_equal(encoded(others), before)
    assert len(list(cache.iterdir())) == 2


def test_a_damaged_file_is_made_anew(weights: Weights, cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If the files of a graph are damaged, this process computes without them, and the next one writes them again."""
    expected = encoded(weights)
    [folder] = cache.iterdir()
    (folder / "weights.bin").write_bytes(b"damaged")
    assert np.array_equal(encoded(weights), expected)
    assert "not shared" in caplog.text
    assert list(cache.iterdir()) == []
    assert np.array_equal(encoded(weights), expected)
    assert list(cache.iterdir()) == [folder]


def test_without_a_cache_the_weights_are_in_the_process(weights: Weights, cache: Path) -> None:
    """If nothing can be written, each process has its own weights."""
    cache.write_text("no folder")
    graph = compiled_encoder(SMALL.config, weights)
    assert sys.getsizeof(graph) > 1000
    other = compiled_encoder(SMALL.config, weights)
    assert np.array_equal(finish(graph.whole(SMALL.inputs(1, 8))), finish(other.whole(SMALL.inputs(1, 8))))


def layer_in_bytes(weight: Floats, bias: Floats) -> Callable[[Floats], Floats]:
    """Return what computes a linear layer in bytes."""
    graph = Precision.BYTES.writer()
    rows = graph.input("rows", [BATCH, weight.shape[1]])
    graph.output(graph.linear(rows, weight, bias), [BATCH, len(weight)])
    session = new_session(graph.content())
    return lambda rows: session.run(None, {"rows": rows})[0]


def test_bytes_are_near_fractions() -> None:
    """A layer is right to a fiftieth of what it gives, however loud a row is. Rows of zeros give the bias."""
    dice = np.random.default_rng(3)
    weight, bias = (dice.standard_normal(shape).astype(np.float32) for shape in ((50, 70), (50,)))
    loudness = np.logspace(-6, 14, 24, dtype=np.float32)[:, None]
    rows = dice.standard_normal((24, 70)).astype(np.float32) * loudness
    expected = rows @ weight.T
    found = layer_in_bytes(weight, 0 * bias)(rows)
    away, size = (np.sqrt(np.square(each).mean(1)) for each in (found - expected, expected))
    assert (away < 0.02 * size).all()
    silent = layer_in_bytes(weight, bias)(np.zeros((6, 70), np.float32))
    assert np.array_equal(silent, np.broadcast_to(bias, (6, 50)))


def test_rows_of_bytes_depend_on_no_other() -> None:
    """A row has the same bits alone and beside others, of which some are far louder."""
    dice = np.random.default_rng(5)
    compute = layer_in_bytes(dice.standard_normal((96, 200)).astype(np.float32), np.ones(96, np.float32))
    rows = dice.standard_normal((70, 200)).astype(np.float32)
    rows[::3] *= 1e4
    together = compute(rows)
    for first, count in ((0, 1), (1, 1), (4, 3), (10, 17), (69, 1)):
        assert np.array_equal(compute(rows[first : first + count]), together[first : first + count])


def test_the_largest_bytes_do_not_overflow() -> None:
    """Pairs of the largest products fit into 16 bits, where some processors add them up."""
    signs = np.sign(np.random.default_rng(7).standard_normal((8, 64))).astype(np.float32)
    found = layer_in_bytes(signs, np.zeros(8, np.float32))(signs)
    np.testing.assert_allclose(found, signs @ signs.T, atol=1e-4)


def test_layers_that_read_the_same_rows_share_their_bytes() -> None:
    """Rows are rounded once, however many layers read them."""
    graph = Precision.BYTES.writer()
    rows = graph.input("rows", [BATCH, 4])
    for number in range(3):
        graph.output(graph.linear(rows, np.full((2, 4), number, np.float32), np.zeros(2, np.float32)), [BATCH, 2])
    assert graph.content().count(b"_QuantizeLinear") == 1  # in the name of its node


def test_the_neural_model_is_shared(cache: Path) -> None:
    """The weights with which the neural language model reads are in the cache as well."""
    torch.manual_seed(0)
    weights = NeuralNetwork(20, 64, 128).weights()
    memories, vectors = np.ones((3, 2 * 128 + 64), np.float32), weights.bytes_of("vectors.weight", np.arange(3))
    first = CompiledReading(weights)(memories, *vectors)
    assert [path.name.partition("-")[0] for path in cache.iterdir()] == ["reading"]
    assert np.array_equal(CompiledReading(weights)(memories, *vectors), first)
