"""Decides which text an utterance gets: a known sentence that fits well, the recognised words, or no text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streamer.engine.search.search import HypothesisWord

FOUND, HEARD = "found", "heard"


@dataclass(frozen=True)
class Thresholds:
    """How sure a text must be. docs/how-to/training.md has figures for these values on speech whose text is known."""

    # Pairs of limits in nats per frame. A known sentence may be less likely than the recognised words by the first
    # number, if it is likelier than the next sentence by the second number.
    found: tuple[tuple[float, float], ...] = ((0.05, 0.1), (0.15, 0.3), (0.3, 0.6))
    heard: float = 0.6  # the least sureness of recognised words
    fewest_words: int = 3  # fewer words are not reliable


@dataclass(frozen=True)
class Label:
    """The text of an utterance and where it comes from: FOUND or HEARD."""

    kind: str
    text: str


def sureness(words: Sequence[HypothesisWord], own_score: float) -> float:
    """Return how sure recognised words are.

    It is the sum of two figures: the log-likelihood of the words per frame, which shows how well the phones fit, and
    the words' mean share of the search's probability.
    """
    return own_score + sum(word.share for word in words) / len(words)


def choose(
    words: Sequence[HypothesisWord], own_score: float, scores: Mapping[str, float], limits: Thresholds
) -> Label | None:
    """Return the label of an utterance, if there is a sure one.

    Scores are log-likelihoods per frame: `own_score` of the recognised words, `scores` of the possible sentences.
    """
    ranked = sorted(scores, key=scores.__getitem__, reverse=True)
    if ranked:
        loss = own_score - scores[ranked[0]]
        lead = scores[ranked[0]] - scores[ranked[1]] if len(ranked) > 1 else math.inf
        if any(loss <= most and lead >= least for most, least in limits.found):
            return Label(FOUND, ranked[0])
    if len(words) < limits.fewest_words:
        return None
    if sureness(words, own_score) >= limits.heard:
        return Label(HEARD, " ".join(word.text for word in words))
    return None
