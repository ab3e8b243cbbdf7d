"""The network of a reader ends every reading, and says how it ended."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.engine.reader.graph_files import ReaderGraphs
from streamer.engine.reader.graphs import encoder_graph, step_graph
from streamer.engine.reader.network import Network, repeated
from tests.engine.reader.random_reader import log_probabilities_of, random_weights, sound_of


@pytest.fixture(scope="module")
def network() -> Network:
    weights = random_weights()
    return Network(ReaderGraphs(encoder_graph(weights, signed=False), step_graph(weights)))


def _noise(samples: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return (np.random.default_rng(2).normal(size=samples) / 10).astype(np.float32)


def test_a_reading_has_the_log_probability_of_each_token(network: Network) -> None:
    """They are those of a computation in full numbers, up to rounding."""
    weights, samples = random_weights(), _noise(16_000)
    run = network.read(samples, 5)
    expected = log_probabilities_of(weights, sound_of(weights, samples), [1, *run.tokens[:-1]])
    right = [row[token] for row, token in zip(expected, run.tokens, strict=True)]
    assert list(run.log_probabilities) == pytest.approx(right, abs=0.3)


def test_the_bound_ends_a_reading(network: Network) -> None:
    """A reading with as many tokens as allowed is not complete."""
    run = network.read(_noise(16_000), 3)
    assert (len(run.tokens), len(run.log_probabilities), run.complete) == (3, 3, False)
    assert not network.read(_noise(16_000), 0).tokens


def test_the_same_segment_is_read_the_same(network: Network) -> None:
    """What was read before changes nothing."""
    first = network.read(_noise(16_000), 6)
    network.read(_noise(40_000), 6)
    assert network.read(_noise(16_000), 6) == first


@pytest.mark.parametrize(
    ("tokens", "copies"),
    [
        ([], 0),
        ([7] * 12, 0),
        ([7] * 13, 12),
        ([3, 4, 5] * 4, 0),
        ([9, 9, *[3, 4, 5] * 5], 12),
        ([*range(16)] * 5, 64),
        ([*range(17)] * 5, 0),
        ([1, 2, 3, 1, 2, 3, 1, 2, 3], 0),
    ],
)
def test_circles_are_found(tokens: list[int], copies: int) -> None:
    """At least four copies with at least twelve tokens are a circle; what people repeat is none."""
    assert repeated(tokens) == copies
