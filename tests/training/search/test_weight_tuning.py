"""Tuning finds the best weights."""

from __future__ import annotations

import pytest

from streamer.engine.search.beam_options import BeamOptions
from streamer.training.search.weight_tuning import tune


def test_tuning_finds_the_bottom() -> None:
    """Weights are tuned one after another, in smaller and smaller steps, until the best is found."""

    def judge(options: BeamOptions) -> float:
        distance = (options.language_weight - 1.7) ** 2 + (options.word_bonus + 2) ** 2
        return distance + (options.blank_penalty - 0.6) ** 2

    told: list[str] = []
    found = tune(judge, BeamOptions(language_weight=1.0, blank_penalty=1.0), told.append)
    assert found.language_weight == pytest.approx(1.7, abs=0.1)
    assert found.word_bonus == pytest.approx(-2.0, abs=0.2)
    assert found.blank_penalty == pytest.approx(0.6, abs=0.2)
    assert all("language_weight" in line for line in told)
    assert told
