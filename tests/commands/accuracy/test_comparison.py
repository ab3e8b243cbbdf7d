"""The comparison of several settings: a line for each, and the differences in errors, from hand-made results."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from streamer.commands.accuracy.comparison import comparison_json, comparison_text, setting_combinations
from streamer.commands.accuracy.report import Evaluation
from streamer.commands.accuracy.word_errors import score_utterance
from tests.commands.accuracy.handmade_evaluation import evaluation


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


def with_dogs() -> Evaluation:
    """The same recordings by a better recogniser, which also hears the dogs."""
    found = evaluation()
    cat, dog = found.scored
    return replace(found, scored=[cat, score_utterance(dog.utterance, dog.utterance.words)])


def test_each_setting_is_compared_with_the_first() -> None:
    """Below the table stands how many more words are wrong than with the first setting, with paired intervals."""
    off, better_one, same_one = evaluation(), with_dogs(), evaluation()
    settings = [(("--reader", "off"), off), (("--reader", "a"), better_one), (("--reader", "b"), same_one)]
    shown = comparison_text(settings)
    header, better, same = (line.split("  ") for line in shown.split("\n\n")[2].splitlines()[:3])
    assert [cell.strip() for cell in header if cell] == [
        "against reader off",
        "corpus",
        "words wrong",
        "points",
        "% of its errors",
        "drawn",
    ]
    wanted = ["reader a", "pets", "-2", "-40.0 [-100.0, +0.0]", "-66.7 [-100.0, +0.0]", "utterances"]
    assert [cell.strip() for cell in better if cell] == wanted
    assert [cell.strip() for cell in same if cell][1:5] == ["pets", "0", "+0.0 [+0.0, +0.0]", "+0.0 [+0.0, +0.0]"]


def test_a_single_setting_is_compared_with_nothing() -> None:
    """Without a second setting there are no differences."""
    shown = comparison_text([(("--reader", "off"), evaluation())])
    assert "against" not in shown
    assert comparison_json([(("--reader", "off"), evaluation())], 0)["differences"] == []


def test_programs_get_the_differences() -> None:
    """The JSON names each setting, and has the differences from the first one in percent."""
    settings = [(("--reader", "off"), evaluation()), (("--reader", "a"), with_dogs())]
    found = json.loads(json.dumps(comparison_json(settings, 1)))
    assert [each["setting"] for each in found["settings"]] == ["reader off", "reader a"]
    assert [each["all"]["wer"]["value"] for each in found["settings"]] == [60.0, 20.0]
    [difference] = found["differences"]
    assert (difference["setting"], difference["against"]) == ("reader a", "reader off")
    assert difference["all"] == difference["corpora"]["pets"]
    assert difference["all"]["word_errors"] == -2
    assert difference["all"]["points"] == {"value": -40.0, "low": -100.0, "high": 0.0}
    assert difference["all"]["relative"] == {"value": -66.67, "low": -100.0, "high": 0.0}
