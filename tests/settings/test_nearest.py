"""Suggestions for names that do not exist."""

from __future__ import annotations

import pytest

from streamer.settings.nearest import QUOTED, as_sentence, did_you_mean, did_you_mean_one_of

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


@pytest.mark.parametrize(
    ("name", "likely"),
    [
        ("zipformer-en", "; did you mean sherpa-zipformer-en-2023 or sherpa-zipformer-small-en?"),
        ("ZIPFORMER-de", "; did you mean sherpa-zipformer-de?"),
        ("zipformer", "; did you mean sherpa-zipformer-en-2023 or sherpa-zipformer-small-en or sherpa-zipformer-de?"),
        ("sherpa-zipfomer-de", "; did you mean sherpa-zipformer-de?"),
        ("conformer", ""),
    ],
)
def test_parts_of_a_long_name(name: str, likely: str) -> None:
    """All names with these parts are offered, up to three; without one, a slip is understood as usual."""
    known = ["sherpa-zipformer-en-2023", "sherpa-zipformer-small-en", "sherpa-zipformer-de", "sherpa-zipformer-fr"]
    assert did_you_mean_one_of(name, known) == likely


@pytest.mark.parametrize("whole", ["it is wrong.", "it is wrong; did you mean right?"])
def test_a_sentence_ends_once(whole: str) -> None:
    """A full stop is added only to an error that has none and is no question."""
    assert as_sentence(whole) == whole
    assert as_sentence(ValueError("it is wrong")) == "it is wrong."
