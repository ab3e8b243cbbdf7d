"""Decides whether a reading is believed, or the words of the second pass.

A reader hears strangers far better than the recogniser, but it writes likely sentences where it hears badly: learners
of the language above all. What tells both apart is how sure it is, how well its words fit the phones that the first
pass heard, and how sure the first pass is. `scripts/train/fit_reader.py` finds the weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streamer.engine.reader.reading import Reading
from streamer.engine.search.search import HypothesisWord

_WORST_FIT: Final = -6.0  # so that one odd word in a short segment does not outweigh everything


@dataclass(frozen=True)
class Evidence:
    """What speaks for a reading.

    `certainty`: the mean log-probability of its tokens. `fit`: how much likelier its words make the phones than those
    of the first pass do, as a natural log for each word. `agreement`: the part of the words that both have.
    `confidence`: how sure the first pass is of its words.
    """

    certainty: float
    fit: float
    agreement: float
    confidence: float


@dataclass(frozen=True)
class Gate:
    """The weights of the evidence. A reading is believed if their sum is positive."""

    constant: float
    certainty: float
    fit: float
    agreement: float
    confidence: float

    def score(self, evidence: Evidence) -> float:
        """Return the weighted sum of the evidence."""
        return self.constant + sum(value * getattr(self, name) for name, value in vars(evidence).items())


TINY: Final = Gate(1.65, 4.13, 0.51, -0.78, 1.59)
BASE: Final = Gate(3.31, 6.9, 0.48, -2.57, 4.16)
# By the width of the reader. A larger reader is surer of its tokens.
_GATES: Final[Mapping[int, Gate]] = {288: TINY, 416: BASE}


def gate_of(reading: Reading) -> Gate:
    """Return the gate for the reader of this reading; the strictest one for an unknown reader."""
    return _GATES.get(reading.width, TINY)


def evidence_of(
    reading: Reading, words: Sequence[HypothesisWord], first: Sequence[HypothesisWord], gain: float
) -> Evidence:
    """Return the evidence for the words of a reading, beside those of the first pass.

    `gain`: the natural log of how much likelier the words of the reading make all phones of the segment.
    """
    count = max(1, len(first))
    texts, others = [word.text for word in words], [word.text for word in first]
    return Evidence(
        certainty=sum(token.log_probability for token in reading.tokens) / max(1, len(reading.tokens)),
        fit=max(_WORST_FIT, gain / count),
        agreement=1 - _distance(texts, others) / max(1, len(texts), len(others)),
        confidence=sum(word.confidence * word.share for word in first) / count,
    )


def _distance(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the number of words to insert, remove or replace in one text to get the other."""
    before = list(range(len(other) + 1))
    for place, word in enumerate(one, 1):
        row = [place]
        for column, other_word in enumerate(other, 1):
            row.append(min(before[column] + 1, row[-1] + 1, before[column - 1] + (word != other_word)))
        before = row
    return before[-1]
