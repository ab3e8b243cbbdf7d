"""Settings that are compared differ in one thing."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from streamer.training.comparison.training_settings import BASELINE, SETTINGS, WRITTEN_TEXT, chosen, settings
from streamer.training.data.corpus import CorpusError


def test_every_setting_differs_from_the_baseline_and_has_equal_steps() -> None:
    """Each setting differs from the baseline only in what its description says."""
    baseline = SETTINGS[BASELINE]
    for name, setting in SETTINGS.items():
        different = [
            each.name for each in fields(setting) if getattr(setting, each.name) != getattr(baseline, each.name)
        ]
        assert different == [] if name == BASELINE else "says" in different
        assert len(different) <= 3
        run = setting.run(Path("work"), Path("run"), Path("start"), 600, 7, 2)
        assert (run.schedule.steps, run.seed, run.schedule.rate) == (600, 7, 1.25e-3)


def test_all_settings_come_once_before_any_comes_twice() -> None:
    """The slowest setting runs only on request, and an unknown one is named."""
    order = list(chosen(None, [1, 2]))
    assert [seed for _, seed in order] == sorted(seed for _, seed in order)
    assert {name for name, _ in order} == set(SETTINGS) - {"4-gram"}
    assert list(chosen(["4-gram"], [3])) == [("4-gram", 3)]
    with pytest.raises(CorpusError, match="there is no setting 'five'; there are crf, ctc, "):
        list(chosen(["five"], [1]))


def test_written_text_is_a_setting_where_there_is_some() -> None:
    """The setting that counts the phones of written text needs a text, and has it in its phone model."""
    with pytest.raises(CorpusError, match="written-text needs --phone-text"):
        list(chosen([WRITTEN_TEXT], [1]))
    among = settings([Path("novel.txt")])
    assert list(chosen([WRITTEN_TEXT], [1], among)) == [(WRITTEN_TEXT, 1)]
    assert among[WRITTEN_TEXT].phone_model.texts == (Path("novel.txt"),)
