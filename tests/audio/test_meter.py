"""The level as a bar."""

from __future__ import annotations

import pytest

from streamer.audio.meter import CELLS, bar


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
    """In decibels, always as wide, and with a mark where sound is cut off."""
    assert bar(peak).rstrip() == drawn
    assert len(bar(peak)) == CELLS + 1


def test_a_bar_without_special_characters() -> None:
    """For a terminal that has none."""
    assert bar(10 ** (-27 / 20), plain=True) == "####     "
