"""Offsets for the scores of the marks. The likeliest mark is too often none: with offsets, F1 is higher."""

from __future__ import annotations

from torch import Tensor, zeros

from streamer.training.punctuation.labelled_text import UNLABELLED

_STEPS = tuple(0.15 * step for step in range(13))
_ROUNDS = 2


def best_offsets(scores: Tensor, labels: Tensor) -> Tensor:
    """Return what to add to the scores [words, marks] of each mark for the best F1. Labels are [words]."""
    labelled = labels != UNLABELLED
    scores, labels = scores[labelled], labels[labelled]
    offsets = zeros(scores.shape[1])
    for _ in range(_ROUNDS):
        for mark in range(1, len(offsets)):
            trials = []
            for offset in _STEPS:
                offsets[mark] = offset
                trials.append((_mean_f1(scores + offsets, labels), offset))
            offsets[mark] = max(trials)[1]
    return offsets


def _mean_f1(scores: Tensor, labels: Tensor) -> float:
    likeliest, marks = scores.argmax(1), scores.shape[1]
    right = likeliest[likeliest == labels].bincount(minlength=marks)
    ratios = 2 * right / (likeliest.bincount(minlength=marks) + labels.bincount(minlength=marks)).clamp(min=1)
    return float(ratios[1:].mean())
