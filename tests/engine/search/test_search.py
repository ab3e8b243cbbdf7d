"""The options of the search in a file: those of both passes, and those of the second alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from streamer.engine.search.search import BeamOptions


def written(folder: Path, content: object) -> Path:
    path = folder / "search.json"
    path.write_text(json.dumps(content))
    return path


def test_each_pass_has_its_own(tmp_path: Path) -> None:
    """Options that the file does not have for the second pass are those of the first."""
    path = written(tmp_path, {"beam": 8, "tokens": 4, "second_pass": {"beam": 20, "end_weight": 1.5}})
    assert BeamOptions.load(path) == BeamOptions(beam=8, tokens=4)
    assert BeamOptions.load(path, second_pass=True) == BeamOptions(beam=20, tokens=4, end_weight=1.5)


def test_without_any_both_are_the_same(tmp_path: Path) -> None:
    """Without options for the second pass, both passes have the same."""
    path = written(tmp_path, {"beam": 8})
    assert BeamOptions.load(path) == BeamOptions.load(path, second_pass=True) == BeamOptions(beam=8)


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ([], "second_pass must be a JSON object"),
        ({"hotword_bonus": 3.0, "language_weight": 2.0}, "hotword_bonus, language_weight must be the same"),
        ({"width": 3}, "unknown options: width"),
        ({"beam": 1.5}, "beam must be a whole number"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, second: object, words: str) -> None:
    """Options for the second pass that must be the same in both, or are unknown, are refused."""
    with pytest.raises(ValueError, match=words):
        BeamOptions.load(written(tmp_path, {"second_pass": second}), second_pass=True)


def test_tuning_keeps_those_of_the_second_pass(tmp_path: Path) -> None:
    """Saving the options keeps those of the second pass."""
    path = written(tmp_path, {"beam": 8, "second_pass": {"beam": 20}})
    replace(BeamOptions.load(path), word_bonus=0.7).save(path)
    assert BeamOptions.load(path) == BeamOptions(beam=8, word_bonus=0.7)
    assert BeamOptions.load(path, second_pass=True) == BeamOptions(beam=20, word_bonus=0.7)
    BeamOptions().save(tmp_path / "new.json")
    assert BeamOptions.load(tmp_path / "new.json") == BeamOptions()
