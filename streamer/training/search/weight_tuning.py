"""Tunes the weights of the search one after another, in steps that become smaller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from streamer.engine.search.beam_options import BeamOptions

# The weights that are tuned, each with its first and its smallest step.
TUNED = {
    "language_weight": (0.4, 0.1),
    "word_bonus": (1.0, 0.25),
    "blank_penalty": (0.8, 0.2),
    "end_weight": (0.4, 0.2),
}
# Those of the neural language model.
RESCORING = {
    "neural_share": (0.2, 0.1),
    "neural_weight": (0.4, 0.1),
    "neural_end_weight": (0.8, 0.2),
}


def tune(
    judge: Callable[[BeamOptions], float],
    start: BeamOptions,
    tell: Callable[[str], None],
    tuned: Mapping[str, tuple[float, float]] = TUNED,
) -> BeamOptions:
    """Return the options with the fewest errors. Tries each weight up and down, and reports every improvement."""
    best, fewest = start, judge(start)
    steps = {name: first for name, (first, _) in tuned.items()}
    while steps:
        better = False
        for name, step in steps.items():
            for move in (step, -step):
                trial = replace(best, **{name: round(getattr(best, name) + move, 3)})
                errors = judge(trial)
                while errors < fewest:
                    best, fewest, better = trial, errors, True
                    tell(f"{errors:6.2f}  {described(best, tuned)}")
                    trial = replace(best, **{name: round(getattr(best, name) + move, 3)})
                    errors = judge(trial)
        if not better:
            steps = {name: step / 2 for name, step in steps.items() if step > tuned[name][1]}
    return best


def described(options: BeamOptions, tuned: Mapping[str, tuple[float, float]] = TUNED) -> str:
    """Return a text with the tuned weights."""
    return ", ".join(f"{name} {getattr(options, name):g}" for name in tuned)
