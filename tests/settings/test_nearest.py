"""Suggestions for names that do not exist."""

from __future__ import annotations

import pytest

from streamer.settings.nearest import QUOTED, did_you_mean

NAMES = ("port", "mic", "format", "tls-cert", "tls-key", "triton-metadata")


@pytest.mark.parametrize(
    ("name", "likely"),
    [
        ("prot", "port"),
        ("tls_key", "tls-key"),
        ("triton-meta", "triton-metadata"),
        ("fromat", "format"),
        ("mik", "mic"),
    ],
)
def test_a_slip_is_understood(name: str, likely: str) -> None:
    """Swapped letters and incomplete names are understood."""
    assert did_you_mean(name, NAMES) == f"; did you mean {likely}?"
    assert did_you_mean(name, NAMES, QUOTED) == f"; did you mean '{likely}'?"


@pytest.mark.parametrize("name", ["tls", "zebra", ""])
def test_nothing_is_guessed(name: str) -> None:
    """Nothing is suggested if two names are as likely, or none is."""
    assert did_you_mean(name, NAMES) == ""
