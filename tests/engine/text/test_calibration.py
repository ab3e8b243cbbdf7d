"""Times and confidences corrected by a hand-made calibration."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from streamer.engine.search.search import HypothesisWord
from streamer.engine.text.calibration import Calibration, ConfidenceWeights, StepCalibration

WORD = HypothesisWord("cat", 10, 15, 0.8, 0.5)
EVIDENCE = ConfidenceWeights(constant=-0.5, confidence=0.7, share=0.4, frames=0.3, letters=-0.1)
FITS = Calibration(
    {"lexicon": {160: StepCalibration(-80.0, -30.0, EVIDENCE), 640: StepCalibration(-240.0, -90.0, EVIDENCE)}}
)


def test_without_a_calibration_words_are_as_they_were_found() -> None:
    """Without measurements times stay as emitted, and the confidence is the posterior times the share."""
    for calibration, search in ((Calibration(), "lexicon"), (FITS, "greedy")):
        assert calibration.start_ms(320, search) == calibration.end_ms(320, search) == 0.0
        assert calibration.confidence(WORD, 320, search) == pytest.approx(0.4)
        assert calibration.spans([WORD], 40.0, 320, search) == [(400.0, 600.0)]


@pytest.mark.parametrize(("step_ms", "start_ms"), [(80, -80), (160, -80), (200, -80), (480, -240), (640, -240)])
def test_the_nearest_step_counts(step_ms: int, start_ms: float) -> None:
    """A step length that was not measured takes the measurements of the nearest one."""
    assert FITS.start_ms(step_ms) == start_ms


def test_more_evidence_never_means_less_sure() -> None:
    """Confidence grows with posterior and share, and stays within 0..1."""
    dice = random.Random(3)
    for _ in range(200):
        one, other = sorted((dice.random(), dice.random()))
        low = FITS.confidence(replace(WORD, confidence=one), 160)
        assert 0 < low <= FITS.confidence(replace(WORD, confidence=other), 160) < 1
        low = FITS.confidence(replace(WORD, share=one), 160)
        assert 0 < low <= FITS.confidence(replace(WORD, share=other), 160) < 1
    for extreme in (0.0, 1.0, 1.5):
        assert 0 < FITS.confidence(HypothesisWord("", 5, 5, extreme, extreme), 160) < 1


def test_a_final_is_as_sure_as_its_words_are_likely_right() -> None:
    """The confidence of a final is the mean of its words."""
    assert FITS.final([0.5, 1.0]) == 0.75
    assert FITS.final([]) == 0.0


def test_spans_follow_one_another() -> None:
    """Corrected words do not overlap, end before they start, or start before the segment."""
    words = [
        HypothesisWord("a", 1, 2, 1.0),
        HypothesisWord("b", 2, 3, 1.0),
        HypothesisWord("c", 3, 9, 1.0),
        HypothesisWord("d", 20, 21, 1.0),
    ]
    assert FITS.spans(words, 40.0, 160) == [(0.0, 0.0), (0.0, 40.0), (40.0, 330.0), (720.0, 810.0)]
    early_ends = Calibration({"lexicon": {320: StepCalibration(0.0, -100.0)}})
    assert early_ends.spans(words[:1], 40.0, 320) == [(40.0, 40.0)]
    assert FITS.spans([], 40.0, 160) == []


def test_it_is_kept_in_a_file(tmp_path: Path) -> None:
    """A calibration that was saved loads the same."""
    calibration = Calibration({**FITS.fits, "greedy": {320: StepCalibration(1.0, 2.0)}})
    calibration.save(tmp_path / "calibration.json")
    assert Calibration.load(tmp_path / "calibration.json") == calibration


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"lexicon": {"a": {}}}',
        '{"lexicon": {"320": {"start_ms": 1}}}',
        '{"lexicon": {"320": {"start_ms": 1, "end_ms": NaN, "evidence": null}}}',
        json.dumps({"lexicon": {"320": {"start_ms": 0, "end_ms": 0, "evidence": {"share": -1}}}}),
        json.dumps({"lexicon": {"320": {"start_ms": 0, "end_ms": 0, "evidence": {"size": 1}}}}),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, content: str) -> None:
    """A bad file is refused in one sentence that says what is wrong."""
    path = tmp_path / "calibration.json"
    path.write_text(content)
    with pytest.raises(ValueError, match="is not a calibration") as error:
        Calibration.load(path)
    assert str(path) in str(error.value)
