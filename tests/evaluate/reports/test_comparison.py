"""The comparison of several settings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamer.evaluate.reports.comparison import comparison_text, setting_combinations
from tests.evaluate.handmade_evaluation import evaluation


def test_settings_are_all_combinations() -> None:
    """Settings are all combinations; without any there is one, the options as they are."""
    assert setting_combinations(["step-ms=160,320", "search=greedy"]) == [
        ("--step-ms", "160", "--search", "greedy"),
        ("--step-ms", "320", "--search", "greedy"),
    ]
    assert setting_combinations([]) == [()]


@pytest.mark.parametrize("wrong", ["step-ms", "step-ms=", "=1", "step-ms=160,,320", ""])
def test_what_compares_nothing_is_refused(wrong: str) -> None:
    """A malformed comparison is refused with an example."""
    with pytest.raises(ValueError, match="such as step-ms=160,320"):
        setting_combinations([wrong])


def test_a_line_for_each_setting() -> None:
    """The table has errors, delays, times, changes, confidence and CPU time; empty columns are left out."""
    found = replace(evaluation(), options={"step_ms": 320, "sessions": 8})
    shown = comparison_text([(("--step-ms", "160"), found), (("--step-ms", "320", "--stability", "low"), found)])
    header, one, other = [line.split("  ") for line in shown.splitlines()[2:5]]
    assert [cell.strip() for cell in header if cell] == [
        "setting",
        "word errors %",
        "shown",
        "90th %",
        "stable",
        "90th %",
        "final",
        "90th %",
        "start",
        "end",
        "changed %",
        "confidence",
        "CPU",
    ]
    assert [cell.strip() for cell in one if cell] == [
        "step-ms 160",
        "60.0 [33.3, 100.0]",
        "100",
        "100",
        "300",
        "300",
        "600",
        "600",
        "20",
        "10",
        "25.0",
        "0.444",
        "0.250",
    ]
    assert other[0] == "step-ms 320, stability low"
    # Of the options only those that all have in common are told.
    assert shown.splitlines()[0] == "2 utterances of pets.tsv through the engine (sessions 8)"
    without = comparison_text([(("--search", "greedy"), replace(found, alignments=None))])
    assert "shown" not in without.splitlines()[2]
    assert "CPU" in without.splitlines()[2]
