"""The level meter."""

from __future__ import annotations

import pytest

from streamer.audio.level_meter import CELLS, level_bar


@pytest.mark.parametrize(
    ("peak", "drawn"),
    [
        (0.0, ""),
        (0.001, ""),
        (10 ** (-27 / 20), "████"),
        (10 ** (-26 / 20), "████▏"),
        (0.95, "███████▉"),
        (1.0, "████████!"),
    ],
)
def test_a_bar_is_as_long_as_it_is_loud(peak: float, drawn: str) -> None:
    """The bar shows decibels, has a constant width, and a mark where audio is clipped."""
    assert level_bar(peak).rstrip() == drawn
    assert len(level_bar(peak)) == CELLS + 1


def test_a_bar_without_special_characters() -> None:
    """The plain bar is ASCII."""
    assert level_bar(10 ** (-27 / 20), plain=True) == "####     "
