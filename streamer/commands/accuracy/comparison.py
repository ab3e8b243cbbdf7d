"""Compares several settings on the same recordings, so that a user can choose. Pure.

A line for each setting, and how far the word errors of each differ from those of the first one.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from streamer.commands.accuracy.report import Evaluation, rate_text, report_heading, report_json
from streamer.commands.accuracy.word_errors import (
    INTERVAL_PERCENT,
    RESAMPLES,
    Interval,
    corpus_differences,
    corpus_rates,
    differences_as_dict,
)
from streamer.commands.accuracy.word_figures import WordFigures
from streamer.commands.accuracy.word_sections import LINE, changed_share, table

Setting = tuple[str, ...]
"""Options as they are typed, such as ("--step-ms", "160")."""

Evaluations = Sequence[tuple[Setting, Evaluation]]

_NO_FIGURE: Final = "-"


def setting_combinations(comparisons: Sequence[str]) -> list[Setting]:
    """Return all combinations of the compared options: "step-ms=160,320" gives two. ValueError if one is not valid."""
    choices = []
    for one in comparisons:
        name, _, values = one.partition("=")
        if not name or not all(values.split(",")):
            raise ValueError(f"'{one}' compares nothing: it is an option and its values, such as step-ms=160,320")
        choices.append([(f"--{name.removeprefix('--')}", value) for value in values.split(",")])
    return [tuple(itertools.chain(*combination)) for combination in itertools.product(*choices)]


def comparison_text(evaluations: Evaluations) -> str:
    """Return the comparison as tables: errors, delays, times, changes and CPU time, and the differences in errors."""
    header = [
        "setting",
        "word errors %",
        "shown",
        "90th %",
        "stable",
        "90th %",
        "final",
        "90th %",
        "start",
        "end",
        "changed %",
        "confidence",
        "CPU",
    ]
    rows = [[_name(setting), *_cells(evaluation)] for setting, evaluation in evaluations]
    columns = [index for index in range(len(header)) if any(row[index] != _NO_FIGURE for row in rows)]
    lines = table([header[index] for index in columns], [[row[index] for index in columns] for row in rows])
    [*_, (setting, last)] = evaluations
    compared = {name.removeprefix("--").replace("-", "_") for name in setting[::2]}
    alike = {name: value for name, value in last.options.items() if name not in compared}
    parts = [report_heading(replace(last, options=alike)), f"{lines}\n{textwrap.fill(_NOTE, LINE)}"]
    return "\n\n".join([*parts, *_differences(evaluations)])


def comparison_json(evaluations: Evaluations, number_of_worst: int) -> dict[str, object]:
    """Return the whole report of each setting, and the differences, for programs."""
    (first_setting, first), *others = evaluations
    return {
        "settings": [
            {"setting": _name(setting), **report_json(evaluation, number_of_worst)}
            for setting, evaluation in evaluations
        ],
        "differences": [
            {
                "setting": _name(setting),
                "against": _name(first_setting),
                **differences_as_dict(corpus_differences(first.scored, evaluation.scored)),
            }
            for setting, evaluation in others
        ],
    }


_NOTE: Final = (
    "In milliseconds: medians and 90th percentiles from a word's end until it is shown, stable and final; median "
    "errors of where words start and end. Changed: words that were shown and did not stay. Confidence: the expected "
    "calibration error of words. CPU: seconds for a second of audio."
)

_DIFFERENCES_NOTE: Final = (
    f"Word errors less those of the first setting; below zero there are fewer. In brackets: {INTERVAL_PERCENT} % "
    f"intervals of the difference, by a paired bootstrap of {RESAMPLES} resamples, each of which draws the same "
    "speakers or utterances for both. An interval with zero in it says that the difference may be chance."
)


def _differences(evaluations: Evaluations) -> list[str]:
    """Return a table of how far the errors of each further setting differ from those of the first; none for one."""
    (first_setting, first), *others = evaluations
    rows = [
        [_name(setting), line.name, str(line.errors), _signed(line.points), _signed(line.relative), line.drawn]
        for setting, evaluation in others
        for line in corpus_differences(first.scored, evaluation.scored)
    ]
    if not rows:
        return []
    header = [f"against {_name(first_setting)}", "corpus", "words wrong", "points", "% of its errors", "drawn"]
    return [f"{table(header, rows)}\n{textwrap.fill(_DIFFERENCES_NOTE, LINE)}"]


def _signed(interval: Interval) -> str:
    """Return a difference in percent with its bounds."""
    value, low, high = interval
    bounds = "" if low is None or high is None else f" [{100 * low:+.1f}, {100 * high:+.1f}]"
    return f"{100 * value:+.1f}{bounds}"


def _name(setting: Setting) -> str:
    return ", ".join(
        f"{name.removeprefix('--')} {value}" for name, value in zip(setting[::2], setting[1::2], strict=True)
    )


def _cells(evaluation: Evaluation) -> list[str]:
    *_, everything = corpus_rates(evaluation.scored)
    run = evaluation.run
    cpu = f"{sum(run.cpu.values()) / run.seconds:.3f}" if run.cpu and run.seconds else _NO_FIGURE
    figures = list(evaluation.word_figures().values())
    return [rate_text(everything.wer), *(_word_cells(figures[-1]) if figures else [_NO_FIGURE] * 10), cpu]


def _word_cells(figures: WordFigures) -> list[str]:
    delays = [*figures.delays.shown, *figures.delays.stable, *figures.delays.final] if figures.delays else []
    times = [figures.times.start.median, figures.times.end.median] if figures.times else []
    return [
        *([f"{value:.0f}" for value in delays] or [_NO_FIGURE] * 6),
        *([f"{value:.0f}" for value in times] or [_NO_FIGURE] * 2),
        f"{100 * changed_share(figures.partials):.1f}" if figures.partials.shown else _NO_FIGURE,
        f"{figures.words.error:.3f}" if figures.words else _NO_FIGURE,
    ]
