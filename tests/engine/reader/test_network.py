"""The network of a reader ends every reading, and says how it ended."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.engine.reader.graph_files import ReaderGraphs
from streamer.engine.reader.graphs import encoder_graph, step_graph
from streamer.engine.reader.network import Change, Network, changed, repeated
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
    run = network.read(samples, 5).run
    expected = log_probabilities_of(weights, sound_of(weights, samples), [1, *run.tokens[:-1]])
    right = [row[token] for row, token in zip(expected, run.tokens, strict=True)]
    assert list(run.log_probabilities) == pytest.approx(right, abs=0.3)


def test_the_bound_ends_a_reading(network: Network) -> None:
    """A reading with as many tokens as allowed is not complete."""
    run = network.read(_noise(16_000), 3).run
    assert (len(run.tokens), len(run.log_probabilities), run.complete) == (3, 3, False)
    assert not network.read(_noise(16_000), 0).run.tokens


def test_the_same_segment_is_read_the_same(network: Network) -> None:
    """What was read before changes nothing."""
    first = network.read(_noise(16_000), 6).run
    network.read(_noise(40_000), 6)
    assert network.read(_noise(16_000), 6).run == first


def test_changes_are_as_likely_as_in_a_text_of_their_own(network: Network) -> None:
    """Several changes in one step have the log-probabilities of a computation in full numbers, up to rounding."""
    weights, samples = random_weights(), _noise(16_000)
    read = network.read(samples, 6)
    changes = [Change(0, (5, 6, 7)), Change(2, (9,)), Change(6, (11, 12)), Change(3, ())]
    sound = sound_of(weights, samples)
    for change, found in zip(changes, read.compare(changes), strict=True):
        rows = log_probabilities_of(weights, sound, [1, *read.run.tokens[: change.place], *change.tokens[:-1]])
        own = rows[len(rows) - len(change.tokens) :]
        right = [row[token] for row, token in zip(own, change.tokens, strict=False)] if change.tokens else []
        assert found.tolist() == pytest.approx(right, abs=0.3)
    assert network.read(samples, 6).run == read.run
    assert read.compare([]) == []


def test_what_was_read_is_as_likely_as_it_was(network: Network) -> None:
    """A change that is none has the log-probabilities of the reading."""
    read = network.read(_noise(16_000), 6)
    [found] = read.compare([Change(1, read.run.tokens[1:])])
    assert found.tolist() == pytest.approx(list(read.run.log_probabilities[1:]), abs=0.05)


@pytest.mark.parametrize(
    ("first", "last", "new", "place", "tokens", "until"),
    [
        (1, 2, [50], 1, (50, 12, 13, 14), 5),
        (1, 1, [50], 1, (50, 11, 12, 13), 4),
        (1, 3, [], 1, (13, 14, 15), 6),
        (1, 3, [11, 50], 2, (50, 13, 14, 15), 6),
        (5, 6, [50], 5, (50, 2), 7),
        (6, 6, [50, 51], 6, (50, 51, 2), 7),
        (0, 6, [50], 0, (50, 2), 7),
        (2, 3, [12], 7, (), 7),
    ],
)
def test_a_change_has_some_tokens_after_it(
    first: int, last: int, new: list[int], place: int, tokens: tuple[int, ...], until: int
) -> None:
    """It begins with the first token that differs and ends three tokens after the last one, or at the end."""
    assert changed([10, 11, 12, 13, 14, 15], first, last, new) == (Change(place, tokens), until)


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
