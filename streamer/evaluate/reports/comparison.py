"""Compares several settings on the same recordings: one line for each, so that a user can choose. Pure."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Sequence
from dataclasses import replace

from streamer.evaluate.measures.error_rates import corpus_rates
from streamer.evaluate.measures.word_figures import WordFigures
from streamer.evaluate.reports.report import Evaluation, rate_text, report_heading
from streamer.evaluate.reports.table import LINE, table
from streamer.evaluate.reports.word_sections import changed_share

Setting = tuple[str, ...]
"""Options as they are typed, such as ("--step-ms", "160")."""

_NOTHING = "-"


def setting_combinations(comparisons: Sequence[str]) -> list[Setting]:
    """Return all combinations of the compared options: "step-ms=160,320" gives two. ValueError if one is not valid."""
    choices = []
    for one in comparisons:
        name, _, values = one.partition("=")
        if not name or not all(values.split(",")):
            raise ValueError(f"'{one}' compares nothing: it is an option and its values, such as step-ms=160,320")
        choices.append([(f"--{name.removeprefix('--')}", value) for value in values.split(",")])
    return [tuple(itertools.chain(*combination)) for combination in itertools.product(*choices)]


def comparison_text(evaluations: Sequence[tuple[Setting, Evaluation]]) -> str:
    """Return the comparison as a table: errors, delays, times, changes and CPU time over all recordings."""
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
    columns = [index for index in range(len(header)) if any(row[index] != _NOTHING for row in rows)]
    lines = table([header[index] for index in columns], [[row[index] for index in columns] for row in rows])
    [*_, (setting, last)] = evaluations
    compared = {name.removeprefix("--").replace("-", "_") for name in setting[::2]}
    alike = {name: value for name, value in last.options.items() if name not in compared}
    return f"{report_heading(replace(last, options=alike))}\n\n{lines}\n{textwrap.fill(_NOTE, LINE)}"


_NOTE = (
    "In milliseconds: medians and 90th percentiles from a word's end until it is shown, stable and final; median "
    "errors of where words start and end. Changed: words that were shown and did not stay. Confidence: the expected "
    "calibration error of words. CPU: seconds for a second of audio."
)


def _name(setting: Setting) -> str:
    return ", ".join(
        f"{name.removeprefix('--')} {value}" for name, value in zip(setting[::2], setting[1::2], strict=True)
    )


def _cells(evaluation: Evaluation) -> list[str]:
    *_, everything = corpus_rates(evaluation.scored)
    run = evaluation.run
    cpu = f"{sum(run.cpu.values()) / run.seconds:.3f}" if run.cpu and run.seconds else _NOTHING
    figures = list(evaluation.word_figures().values())
    return [rate_text(everything.wer), *(_word_cells(figures[-1]) if figures else [_NOTHING] * 10), cpu]


def _word_cells(figures: WordFigures) -> list[str]:
    delays = [*figures.delays.shown, *figures.delays.stable, *figures.delays.final] if figures.delays else []
    times = [figures.times.start.median, figures.times.end.median] if figures.times else []
    return [
        *([f"{value:.0f}" for value in delays] or [_NOTHING] * 6),
        *([f"{value:.0f}" for value in times] or [_NOTHING] * 2),
        f"{100 * changed_share(figures.partials):.1f}" if figures.partials.shown else _NOTHING,
        f"{figures.words.error:.3f}" if figures.words else _NOTHING,
    ]
