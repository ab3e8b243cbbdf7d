"""Which text an utterance gets."""

from __future__ import annotations

import pytest

from streamer.engine.search.search import HypothesisWord
from streamer.training.labelling.labels import FOUND, HEARD, Label, Thresholds, choose

LIMITS = Thresholds(found=((0.2, 0.2), (0.4, 0.5)), heard=0.6, fewest_words=3)


def words(text: str, *shares: float) -> list[HypothesisWord]:
    """Return recognised words with these shares."""
    return [HypothesisWord(word, 0, 1, 1.0, share) for word, share in zip(text.split(), shares, strict=True)]


@pytest.mark.parametrize(
    ("known", "taken"),
    [
        ({"it rains again": -1.1, "it is raining": -1.5}, True),
        ({"it rains again": -1.1, "it rained again": -1.2}, False),
        ({"it rains again": -1.3, "it is raining": -1.6}, False),
        ({"it rains again": -1.3, "it is raining": -1.9}, True),
        ({"it rains again": -1.5}, False),
        ({"it rains again": -1.0}, True),
        ({}, False),
    ],
)
def test_a_known_sentence_is_taken_if_it_fits_and_stands_out(known: dict[str, float], taken: bool) -> None:
    """A sentence may be slightly less likely than the recognised words, and must be likelier than others."""
    found = choose(words("it rains a gain", 1, 1, 0.2, 0.2), -1.0, known, LIMITS)
    assert found == (Label(FOUND, "it rains again") if taken else None)


@pytest.mark.parametrize(
    ("score", "shares", "taken"),
    [(-0.2, (1.0, 0.9, 0.6), True), (-0.2, (1.0, 0.9, 0.4), False), (-0.3, (1.0, 0.9, 0.6), False)],
)
def test_words_heard_are_taken_if_they_fit_and_are_sure(score: float, shares: tuple[float, ...], taken: bool) -> None:
    """Recognised words are not taken if they are unsure, or if their phones do not fit."""
    label = choose(words("it rains again", *shares), score, {}, LIMITS)
    assert label == (Label(HEARD, "it rains again") if taken else None)


def test_a_few_words_heard_are_not_taken() -> None:
    """Too few recognised words are not reliable."""
    assert choose(words("it rains", 1, 1), -0.1, {}, LIMITS) is None
