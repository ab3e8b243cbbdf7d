"""What a search finds, put right: where its words lie in the audio, and how likely they are to be right.

A model emits a word some time after it was said, and what a search holds for certain is not right as often. Both were
measured for each search and step by scripts/train/calibrate.py and lie in the bundle as `calibration.json`.
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
# Nothing is surer than this, or a word would count as proven: logits stay finite and every weight bounded in effect.
SUREST = 0.999


@dataclass(frozen=True)
class Evidence:
    """How much each sign of a word's being right counts, in logits; more posterior or share never means less sure."""

    constant: float = 0.0
    confidence: float = 0.0
    share: float = 0.0
    frames: float = 0.0
    letters: float = 0.0

    def __post_init__(self) -> None:
        if not all(math.isfinite(weight) for weight in vars(self).values()):
            raise ValueError("a weight of the evidence is no finite number")
        if self.confidence < 0 or self.share < 0:
            raise ValueError("the weights of confidence and share cannot be negative")

    def probability(self, word: HypothesisWord) -> float:
        """That the word is right: 0..1."""
        found = sum(weight * sign for weight, sign in zip(vars(self).values(), signs(word), strict=True))
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, found))))


def signs(word: HypothesisWord) -> tuple[float, float, float, float, float]:
    """What tells about a word, in the order of the weights of Evidence."""
    return (
        1.0,
        _logit(word.confidence),
        _logit(word.share),
        math.log(max(word.end - word.start, 1)),
        math.log(max(len(word.text), 1)),
    )


@dataclass(frozen=True)
class Fit:
    """What was measured at one step: what is added to the emitted times, and the evidence (None: as it was found)."""

    start_ms: float = 0.0
    end_ms: float = 0.0
    evidence: Evidence | None = None

    def confidence(self, word: HypothesisWord) -> float:
        """How likely the word is right: 0..1."""
        if self.evidence is None:
            return max(0.0, min(1.0, word.confidence * word.share))
        return self.evidence.probability(word)


@dataclass(frozen=True)
class Calibration:
    """Fits by search and step; where a search has none, words are as they were found."""

    fits: Mapping[str, Mapping[int, Fit]] = field(default_factory=dict)

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
            raise ValueError(f"{path} is no calibration: it lacks {error}") from error
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is no calibration: {error}") from error

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        content = {
            search: {str(step): asdict(fit) for step, fit in sorted(by_step.items())}
            for search, by_step in self.fits.items()
        }
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    def fit(self, step_ms: int, search: str = LEXICON) -> Fit:
        """That of the nearest step."""
        by_step = self.fits.get(search)
        if not by_step:
            return Fit()
        return by_step[min(by_step, key=lambda step: (abs(math.log(step / step_ms)), step))]

    def start_ms(self, step_ms: int, search: str = LEXICON) -> float:
        """What is added to the time of a word's first frame."""
        return self.fit(step_ms, search).start_ms

    def end_ms(self, step_ms: int, search: str = LEXICON) -> float:
        """What is added to the time behind a word's last frame."""
        return self.fit(step_ms, search).end_ms

    def confidence(self, word: HypothesisWord, step_ms: int, search: str = LEXICON) -> float:
        """How likely the word is right: 0..1."""
        return self.fit(step_ms, search).confidence(word)

    def final(self, confidences: Sequence[float]) -> float:
        """The share of a final's words that are expected to be right."""
        return sum(confidences) / len(confidences) if confidences else 0.0

    def spans(
        self, words: Sequence[HypothesisWord], frame_ms: float, step_ms: int, search: str = LEXICON
    ) -> list[tuple[float, float]]:
        """Where words that follow one another lie, in milliseconds of their segment: in order, without overlap."""
        fit = self.fit(step_ms, search)
        starts = [max(0.0, word.start * frame_ms + fit.start_ms) for word in words]
        found = []
        for place, word in enumerate(words):
            end = max(starts[place], word.end * frame_ms + fit.end_ms)
            # StepFrames frames are in order, corrected by two constants they need not be.
            if place + 1 < len(starts):
                starts[place + 1] = max(starts[place + 1], starts[place])
                end = min(end, starts[place + 1])
            found.append((starts[place], end))
        return found


def _fit(values: Mapping[str, Any]) -> Fit:
    evidence = values["evidence"]
    fit = Fit(float(values["start_ms"]), float(values["end_ms"]), None if evidence is None else Evidence(**evidence))
    if not (math.isfinite(fit.start_ms) and math.isfinite(fit.end_ms)):
        raise ValueError("a delay is no finite number")
    return fit


def _logit(probability: float) -> float:
    bounded = max(1 - SUREST, min(SUREST, probability))
    return math.log(bounded / (1 - bounded))
