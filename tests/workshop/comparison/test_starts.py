"""What the comparison of starts reports, and the plan that both follow."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

from workshop.comparison.starts import MOONSHINE, NOTHING, read_results, report, schedule, write_results
from workshop.comparison.trainings import JudgedUtterance

JUDGED = [JudgedUtterance(f"u{number}", "x", f"s{number}", 4, 10) for number in range(30)]


@pytest.mark.parametrize(
    ("errors", "verdict"),
    [
        (2, "0.50 times as many errors; the gate of 0.75 is passed"),
        (3, "0.75 times as many errors; the gate of 0.75 is passed"),
        (4, "1.00 times as many errors; the gate of 0.75 is not passed"),
    ],
)
def test_the_gate(errors: int, verdict: str) -> None:
    """The table has both starts, and the gate compares their errors."""
    better = [replace(one, errors=errors) for one in JUDGED]
    told = report({NOTHING: {"dev, lexicon": JUDGED}, MOONSHINE: {"dev, lexicon": better}}).splitlines()
    assert told[0] == "dev, lexicon"
    assert [line.split()[0] for line in told[2:4]] == [NOTHING, MOONSHINE]
    assert told[4] == verdict


def test_one_start_has_no_verdict() -> None:
    """Before both are judged, the table has one line."""
    told = report({NOTHING: {"dev, letters": JUDGED}})
    assert "letters wrong %" in told
    assert "gate" not in told


def test_both_follow_the_same_plan() -> None:
    """The plans differ only in how fast the body learns, and a short plan has all parts, too."""
    for steps in (40, 600, 20_000):
        plans = [schedule(start, steps) for start in (NOTHING, MOONSHINE)]
        different = [
            each.name for each in fields(plans[0]) if getattr(plans[0], each.name) != getattr(plans[1], each.name)
        ]
        assert different == ["body_rate"]
        assert plans[0].crf_from is not None
        assert plans[0].aligned_steps + plans[0].crossfade_steps < plans[0].crf_from < steps


def test_results_are_kept(tmp_path: Path) -> None:
    """Results are kept in the folder of the run; before, there are none."""
    assert read_results(tmp_path) == {}
    write_results(tmp_path, {"dev, letters": JUDGED})
    assert read_results(tmp_path) == {"dev, letters": JUDGED}
