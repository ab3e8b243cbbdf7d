"""Tunes the weights of the search one after another, in steps that become smaller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from streamer.engine.search.beam_options import BeamOptions

# The weights that are tuned, each with its first and its smallest step.
TUNED = {
    "language_weight": (0.4, 0.1),
    "word_bonus": (1.0, 0.25),
    "blank_penalty": (0.8, 0.2),
    "end_weight": (0.4, 0.2),
}


def tune(judge: Callable[[BeamOptions], float], start: BeamOptions, tell: Callable[[str], None]) -> BeamOptions:
    """Return the options with the fewest errors. Tries each weight up and down, and reports every improvement."""
    best, fewest = start, judge(start)
    steps = {name: first for name, (first, _) in TUNED.items()}
    while steps:
        better = False
        for name, step in steps.items():
            for move in (step, -step):
                trial = replace(best, **{name: round(getattr(best, name) + move, 3)})
                errors = judge(trial)
                while errors < fewest:
                    best, fewest, better = trial, errors, True
                    tell(f"{errors:6.2f}  {described(best)}")
                    trial = replace(best, **{name: round(getattr(best, name) + move, 3)})
                    errors = judge(trial)
        if not better:
            steps = {name: step / 2 for name, step in steps.items() if step > TUNED[name][1]}
    return best


def described(options: BeamOptions) -> str:
    """Return a text with the tuned weights."""
    return ", ".join(f"{name} {getattr(options, name):g}" for name in TUNED)
