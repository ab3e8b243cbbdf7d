"""Corrects the times and confidences of the words that a search finds.

A model emits a word some time after it was said, and the confidences of a search are too high. The script
scripts/train/calibrate.py measures both for each search and step length, and writes `calibration.json` in the bundle.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from streamer.engine.search.search import HypothesisWord

CALIBRATION_FILE = "calibration.json"
LEXICON = "lexicon"
GREEDY = "greedy"
# The highest probability in a logit, so that logits stay finite and the effect of every weight is bounded.
SUREST = 0.999


@dataclass(frozen=True)
class ConfidenceWeights:
    """The weights of a logistic regression for the probability that a word is right.

    The weights of confidence and share are not negative, so a better posterior or share never lowers the result.
    """

    constant: float = 0.0
    confidence: float = 0.0
    share: float = 0.0
    frames: float = 0.0
    letters: float = 0.0

    def __post_init__(self) -> None:
        if not all(math.isfinite(weight) for weight in vars(self).values()):
            raise ValueError("a weight of the evidence is not a finite number")
        if self.confidence < 0 or self.share < 0:
            raise ValueError("the weights of confidence and share cannot be negative")

    def probability(self, word: HypothesisWord) -> float:
        """Return the probability that the word is right, from 0 to 1."""
        logit = sum(weight * sign for weight, sign in zip(vars(self).values(), confidence_features(word), strict=True))
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, logit))))


def confidence_features(word: HypothesisWord) -> tuple[float, float, float, float, float]:
    """Return the features of a word, in the order of the fields of ConfidenceWeights."""
    return (
        1.0,
        _logit(word.confidence),
        _logit(word.share),
        math.log(max(word.end - word.start, 1)),
        math.log(max(len(word.text), 1)),
    )


@dataclass(frozen=True)
class StepCalibration:
    """The calibration for one step length: corrections of the times, and weights for the confidence.

    Without weights, the confidence is the product of the posterior and the share.
    """

    start_ms: float = 0.0
    end_ms: float = 0.0
    evidence: ConfidenceWeights | None = None

    def confidence(self, word: HypothesisWord) -> float:
        """Return the probability that the word is right, from 0 to 1."""
        if self.evidence is None:
            return max(0.0, min(1.0, word.confidence * word.share))
        return self.evidence.probability(word)


@dataclass(frozen=True)
class Calibration:
    """Calibrations by search and step length. Words of a search without a calibration are not corrected."""

    fits: Mapping[str, Mapping[int, StepCalibration]] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path | str) -> Calibration:
        """Read `calibration.json`; ValueError says what is wrong with it."""
        path = Path(path)
        try:
            content: dict[str, dict[str, dict[str, Any]]] = json.loads(path.read_text(encoding="utf-8"))
            return cls(
                {
                    search: {int(step): _fit(values) for step, values in by_step.items()}
                    for search, by_step in content.items()
                }
            )
        except KeyError as error:
            raise ValueError(f"{path} is not a calibration: {error} is missing") from error
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is not a calibration: {error}") from error

    def save(self, path: Path) -> None:
        """Write the calibration as JSON."""
        content = {
            search: {str(step): asdict(fit) for step, fit in sorted(by_step.items())}
            for search, by_step in self.fits.items()
        }
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    def fit(self, step_ms: int, search: str = LEXICON) -> StepCalibration:
        """Return the calibration for the nearest step length."""
        by_step = self.fits.get(search)
        if not by_step:
            return StepCalibration()
        if step_ms in by_step:
            return by_step[step_ms]
        return by_step[min(by_step, key=lambda step: (abs(math.log(step / step_ms)), step))]

    def start_ms(self, step_ms: int, search: str = LEXICON) -> float:
        """Return the correction of the start of a word."""
        return self.fit(step_ms, search).start_ms

    def end_ms(self, step_ms: int, search: str = LEXICON) -> float:
        """Return the correction of the end of a word."""
        return self.fit(step_ms, search).end_ms

    def confidence(self, word: HypothesisWord, step_ms: int, search: str = LEXICON) -> float:
        """Return the probability that the word is right, from 0 to 1."""
        return self.fit(step_ms, search).confidence(word)

    def final(self, confidences: Sequence[float]) -> float:
        """Return the confidence of a final, which is the expected share of right words."""
        return sum(confidences) / len(confidences) if confidences else 0.0

    def spans(
        self, words: Sequence[HypothesisWord], frame_ms: float, step_ms: int, search: str = LEXICON
    ) -> list[tuple[float, float]]:
        """Return the start and end of consecutive words in milliseconds of their segment, without overlap."""
        fit = self.fit(step_ms, search)
        starts = [max(0.0, word.start * frame_ms + fit.start_ms) for word in words]
        spans = []
        for index, word in enumerate(words):
            end = max(starts[index], word.end * frame_ms + fit.end_ms)
            # Frames are in order, but the corrections of start and end differ, so the corrected times need not be.
            if index + 1 < len(starts):
                starts[index + 1] = max(starts[index + 1], starts[index])
                end = min(end, starts[index + 1])
            spans.append((starts[index], end))
        return spans


def _fit(values: Mapping[str, Any]) -> StepCalibration:
    evidence = values["evidence"]
    fit = StepCalibration(
        float(values["start_ms"]), float(values["end_ms"]), None if evidence is None else ConfidenceWeights(**evidence)
    )
    if not (math.isfinite(fit.start_ms) and math.isfinite(fit.end_ms)):
        raise ValueError("a delay is not a finite number")
    return fit


def _logit(probability: float) -> float:
    bounded = max(1 - SUREST, min(SUREST, probability))
    return math.log(bounded / (1 - bounded))
