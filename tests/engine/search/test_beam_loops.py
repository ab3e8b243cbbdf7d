"""Loops that find rows by two numbers, and rank values, compared with Python."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.engine.search.beam_loops import NOBODY, best_of, find, index_for, put


@pytest.mark.parametrize("seed", range(20))
def test_the_best_come_first(seed: int) -> None:
    """The greatest values come first, as many as requested or all. Equal ones stay in their order."""
    dice = np.random.default_rng(seed)
    values = (dice.random(dice.integers(0, 400)) ** dice.integers(1, 200)).round(dice.integers(1, 60))
    most = int(dice.integers(1, 300))
    places = best_of(values, most)
    assert places.tolist() == sorted(range(len(values)), key=lambda place: -values[place])[:most]


@pytest.mark.parametrize(
    "values", [np.arange(5000.0), 5000 - np.arange(5000.0), np.ones(5000)], ids=["up", "down", "equal"]
)
def test_order_does_not_slow_it_down(values: np.ndarray) -> None:  # type: ignore[type-arg]
    """Many values that are sorted or equal are ranked, too."""
    assert values[best_of(values, 10)].tolist() == sorted(values, reverse=True)[:10]


@pytest.mark.parametrize("seed", range(10))
def test_rows_are_found_by_both_numbers(seed: int) -> None:
    """A row is found by its numbers and by no others, whatever they have in common."""
    dice = np.random.default_rng(seed)
    pairs = {(int(first), int(second)) for first, second in dice.integers(-9, 9, (60, 2)) * (1 << 40)}
    index = index_for(len(pairs))
    for row, pair in enumerate(pairs):
        assert find(index, *pair) == NOBODY
        put(index, row, *pair)
    assert [find(index, *pair) for pair in pairs] == list(range(len(pairs)))
    assert find(index, 1, 1) == NOBODY
    put(index, 1000, *next(iter(pairs)))
    assert find(index, *next(iter(pairs))) == 1000
