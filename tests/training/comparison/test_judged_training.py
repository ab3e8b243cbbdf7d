"""Runs are compared on the same utterances and seeds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from streamer.training.comparison.judged_training import JudgedUtterance, comparison, read_judged, write_judged

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
