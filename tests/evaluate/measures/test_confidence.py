"""Reliability of confidences whose truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streamer.evaluate.measures.confidence import BINS, JudgedConfidence, reliability


def test_what_is_as_sure_as_it_is_right_has_no_error() -> None:
    """Honest confidences give ten bins of equal size, each as right as it says, and no error."""
    judged = [JudgedConfidence(share / 10, number < share) for share in range(1, 11) for number in range(10)]
    found = reliability(judged[::-1])
    assert found is not None
    assert found.number == 100
    assert found.error == pytest.approx(0.0)
    assert found.confidence == pytest.approx(found.right) == pytest.approx(0.55)
    assert [(each.number, round(each.confidence, 6), round(each.right, 6)) for each in found.bins] == [
        (10, share / 10, share / 10) for share in range(1, 11)
    ]


def test_the_error_is_the_mean_distance_over_the_bins() -> None:
    """The error of an overconfident recogniser is its excess; finals may be right in part."""
    found = reliability([JudgedConfidence(0.9, 0.5)] * 40)
    assert found is not None
    assert found.error == pytest.approx(0.4)
    assert len(found.bins) == BINS
    assert math.isnan(found.ranking)


def test_ranking_does_not_depend_on_the_scale() -> None:
    """The ranking is 1 if right words are always surer, and a half if chance decides or all are equally sure."""
    dice = np.random.default_rng(1)
    cases = [
        ([JudgedConfidence(0.9, True), JudgedConfidence(0.8, True), JudgedConfidence(0.1, False)], 1.0),
        ([JudgedConfidence(0.5, True), JudgedConfidence(0.5, False)], 0.5),
        ([JudgedConfidence(float(dice.random()), bool(dice.random() < 0.5)) for _ in range(4000)], 0.5),
    ]
    for judged, ranking in cases:
        found = reliability(judged)
        assert found is not None
        assert found.ranking == pytest.approx(ranking, abs=0.03)


def test_few_words_make_few_bins() -> None:
    """Without confidences there is no reliability."""
    found = reliability([JudgedConfidence(0.5, True)])
    assert found is not None
    assert len(found.bins) == 1
    assert reliability([]) is None
