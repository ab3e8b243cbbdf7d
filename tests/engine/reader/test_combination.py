"""What speaks for each side of a difference, and which side is taken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from streamer.engine.reader.combination import (
    READER_FILE,
    Evidence,
    Mixture,
    Mixtures,
    bounded,
    log_odds,
    logistic,
)
from streamer.engine.reader.reading import Reading
from tests.project import BUNDLE

NOTHING = Evidence(gain=0.0, own=0.0, fit=0.0, language=0.0, longer=0.0)


def test_the_score_is_the_weighted_sum() -> None:
    """Each weight counts with its evidence, and the constant alone."""
    mixture = Mixture(0.5, gain=1.0, own=10.0, fit=100.0, language=1000.0, longer=10_000.0)
    assert mixture.score(Evidence(gain=2.0, own=3.0, fit=4.0, language=5.0, longer=6.0)) == 65432.5
    assert mixture.score(NOTHING) == 0.5


@pytest.mark.parametrize("width", [288, 416], ids=["tiny", "base"])
def test_all_witnesses_count(width: int) -> None:
    """With the weights as they are, what the reader, the phones and the language model like better is rather taken."""
    mixture = Mixtures.load(BUNDLE / READER_FILE).by_width[width]
    for name, value in (("gain", 5.0), ("own", -5.0), ("fit", 5.0), ("language", 5.0)):
        assert mixture.score(replace(NOTHING, **{name: value})) > mixture.score(NOTHING)


def test_each_reader_has_its_mixture(tmp_path: Path) -> None:
    """Readers are told apart by their width; an unknown one gets the mixture of the smallest."""
    one, other = Mixture(1.0), Mixture(2.0, gain=0.5)
    path = tmp_path / READER_FILE
    Mixtures({416: other, 288: one}).save(path)
    mixtures = Mixtures.load(path)
    assert mixtures.by_width == {288: one, 416: other}
    assert [mixtures.of(Reading(width=width)) for width in (288, 416, 0)] == [one, other, one]


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"288":{}}', '{"288":{"constant":1,"gate":2}}', '{"x":{"constant":1}}', '{"1":{"constant":NaN}}'],
)
def test_damaged_weights_are_refused(tmp_path: Path, content: str) -> None:
    """The message names the file."""
    path = tmp_path / READER_FILE
    path.write_text(content)
    with pytest.raises(ValueError, match=r"reader\.json has no weights"):
        Mixtures.load(path)


def test_one_odd_word_does_not_outweigh_everything() -> None:
    """Logarithms of what is practically impossible have a bound."""
    assert (bounded(-1e9), bounded(float("-inf")), bounded(3.5)) == (-20.0, -20.0, 3.5)
    assert logistic(log_odds(0.3)) == pytest.approx(0.3)
    assert logistic(log_odds(0.0)) == pytest.approx(0.001)
