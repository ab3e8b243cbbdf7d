"""Settings that are compared differ in one thing, and their runs have the same utterances and seeds."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

from workshop.comparison.trainings import (
    BASELINE,
    SETTINGS,
    WRITTEN_TEXT,
    JudgedUtterance,
    chosen,
    comparison,
    read_judged,
    settings,
    write_judged,
)
from workshop.data.corpus import CorpusError

JUDGED = [JudgedUtterance(f"u{number}", "x", "", number % 3, 10) for number in range(30)]
WORSE = [replace(one, errors=one.errors + 1) for one in JUDGED]


def test_what_was_judged_is_kept(tmp_path: Path) -> None:
    """Results are kept in the folder of the run; before, there are none."""
    assert read_judged(tmp_path) is None
    write_judged(tmp_path, JUDGED)
    assert read_judged(tmp_path) == JUDGED


def test_a_setting_is_compared_on_the_seeds_that_both_have() -> None:
    """A rate is over all seeds of a setting, and a change over the seeds that both have."""
    found = {("crf", 1): JUDGED, ("ctc", 1): WORSE, ("ctc", 2): WORSE, ("bigram", 2): JUDGED}
    head, base, other, alone = comparison(found, "crf").splitlines()
    assert head.endswith("against crf on the same seeds, in % of its errors")
    assert base.split()[:3] == ["crf", "1", "10.0"]
    assert other.split()[:3] == ["ctc", "1,2", "20.0"]
    assert "+100.0 [+7" in other
    assert alone.split()[:3] == ["bigram", "2", "10.0"]
    assert "+" not in alone


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
