"""Decides, wherever a reading and the recogniser differ, whose words are taken.

A reader hears strangers far better than the recogniser, but it writes likely sentences where it hears badly: learners
of the language above all. So each difference is judged by both, and by the language model, as a log-linear mixture.
`scripts/train/fit_reader.py` finds the weights.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from streamer.engine.reader.reading import Reading

READER_FILE: Final = "reader.json"
_MOST: Final = 20.0  # of each logarithm, so that one odd word does not outweigh everything


@dataclass(frozen=True)
class Evidence:
    """What speaks for the words of the recogniser where a reading differs from them, mostly as natural logs.

    `gain`: how much likelier the reader finds them. `own`: how sure it is of what it has read instead. `fit`: how much
    likelier they make the phones of the segment. `language`: how much likelier the language model finds them. `longer`:
    how many words more they are.
    """

    gain: float
    own: float
    fit: float
    language: float
    longer: float


@dataclass(frozen=True)
class Mixture:
    """The weights of the evidence. The words of the recogniser are taken if the sum is positive."""

    constant: float
    gain: float = 0.0
    own: float = 0.0
    fit: float = 0.0
    language: float = 0.0
    longer: float = 0.0

    def score(self, evidence: Evidence) -> float:
        """Return the weighted sum of the evidence: the log-odds that the words of the recogniser are better."""
        return self.constant + sum(value * getattr(self, name) for name, value in vars(evidence).items())


class Mixtures:
    """The mixtures of a bundle, by the width of the reader. A larger reader is surer of its tokens."""

    def __init__(self, by_width: Mapping[int, Mixture]) -> None:
        self.by_width = dict(sorted(by_width.items()))

    @classmethod
    def load(cls, path: Path) -> Mixtures:
        """Read `reader.json`; ValueError says what is wrong with it."""
        try:
            content: dict[str, dict[str, float]] = json.loads(path.read_text(encoding="utf-8"))
            mixtures = {int(width): Mixture(**weights) for width, weights in content.items()}
            numbers = [float(weight) for mixture in mixtures.values() for weight in vars(mixture).values()]
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} has no weights for readers: {error}") from error
        if not mixtures or not all(map(math.isfinite, numbers)):
            raise ValueError(f"{path} has no weights for readers, or weights that are no numbers")
        return cls(mixtures)

    def save(self, path: Path) -> None:
        """Write the mixtures as JSON."""
        content = {str(width): asdict(mixture) for width, mixture in self.by_width.items()}
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    def of(self, reading: Reading) -> Mixture:
        """Return the mixture for the reader of this reading; for an unknown reader, that of the smallest."""
        return self.by_width.get(reading.width, next(iter(self.by_width.values())))


def bounded(logarithm: float) -> float:
    """Return a difference of logarithms within the bounds of evidence."""
    return max(-_MOST, min(_MOST, logarithm))


def log_odds(probability: float) -> float:
    """Return the log-odds of a probability, within bounds."""
    within = min(0.999, max(0.001, probability))
    return math.log(within / (1 - within))


def logistic(odds: float) -> float:
    """Return the probability with these log-odds."""
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, odds))))
