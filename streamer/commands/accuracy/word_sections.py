"""The sections of a report about single words: a paragraph for each kind of figures, and all of them as JSON."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final

from streamer.commands.accuracy.results import PartialCounts
from streamer.commands.accuracy.word_figures import DelaySummary, ErrorSpread, Reliability, TimeErrors, WordFigures

Figures = Mapping[str, WordFigures]


def delays_text(figures: Figures, paced: bool) -> str:
    """Return the delays of words. The wall clock counts only if audio was sent as fast as it was spoken."""
    rows = []
    for name, group in figures.items():
        if group.delays:
            rows.append(_delays_row(name, group.delays))
        if group.delays_by_wall and paced:
            rows.append(_delays_row(f"{name}, by the wall clock", group.delays_by_wall))
    header = ["delay after a word's end, ms", "words", "shown", "90th %", "stable", "90th %", "final", "90th %"]
    note = "'At the end': shown only because the recording was over."
    return f"{table([*header, 'at the end'], rows)}\n{note}" if rows else ""


def times_text(figures: Figures) -> str:
    """Return the errors of word times against the alignment."""
    rows = []
    for name, group in figures.items():
        if group.times:
            cells = [_whole(value) for each in (group.times.start, group.times.end) for value in vars(each).values()]
            rows.append([name, str(group.times.words), *cells])
    header = ["error of a word's time, ms", "words", "start", "90th %", "signed", "end", "90th %", "signed"]
    return table(header, rows) if rows else ""


def partials_text(figures: Figures) -> str:
    """Return how many words of partials were shown, and how many of these changed."""
    rows = []
    for name, group in figures.items():
        counts = group.partials
        if counts.shown:
            changed = f"{counts.changed} ({_percent(changed_share(counts))} %)"
            rows.append([name, str(counts.shown), changed, str(counts.broken)])
    return table(["words in partials", "shown", "changed later", "stable and changed"], rows) if rows else ""


def confidence_text(figures: Figures) -> str:
    """Return how reliable confidence is, by corpus, and for all words in bins of ascending confidence."""
    rows = [
        [name, *_reliability_cells(group.words), *_reliability_cells(group.finals)]
        for name, group in figures.items()
        if group.words
    ]
    if not rows:
        return ""
    header = ["confidence", "words", "sure %", "right %", "error", "ranking", "finals", "sure %", "right %", "error"]
    parts = [table(header, [row[:-1] for row in rows])]
    *_, last = figures.values()
    for name, reliability in (("words", last.words), ("finals", last.finals)):
        if reliability and reliability.number >= len(reliability.bins) > 1:
            bins = [
                [f"sure of {name}, %", *(_percent(each.confidence) for each in reliability.bins)],
                ["right, %", *(_percent(each.right) for each in reliability.bins)],
            ]
            parts.append(table(bins[0], bins[1:]))
    note = (
        "'Error': the expected calibration error, the mean distance of confidence and truth over ten bins of equal "
        "size. 'Ranking': how often a right word has more confidence than a wrong one; a half is chance. The truth of "
        "a final is the share of its words that are right."
    )
    return "\n".join([*parts, textwrap.fill(note, LINE)])


def changed_share(counts: PartialCounts) -> float:
    """Return the part of the shown words that was changed."""
    return counts.changed / counts.shown if counts.shown else 0.0


def words_json(figures: Figures, aligned: int | None, paced: bool) -> dict[str, object]:
    """Return the figures as JSON values. Delays and times are None without an alignment."""
    content: dict[str, object] = {
        "partials": {
            name: {**asdict(group.partials), "changed_share": round(changed_share(group.partials), 4)}
            for name, group in figures.items()
        },
        "confidence": {
            name: {"words": _reliability_content(group.words), "finals": _reliability_content(group.finals)}
            for name, group in figures.items()
        },
        "delay": None,
        "times": None,
    }
    if aligned is not None:
        content["delay"] = {
            "utterances_placed": aligned,
            "audio": {name: _delays_content(group.delays) for name, group in figures.items() if group.delays},
            "wall": {
                name: _delays_content(group.delays_by_wall)
                for name, group in figures.items()
                if paced and group.delays_by_wall
            },
        }
        content["times"] = {name: _times_content(group.times) for name, group in figures.items() if group.times}
    return content


def _delays_row(name: str, delays: DelaySummary) -> list[str]:
    values = (*delays.shown, *delays.stable, *delays.final)
    return [name, str(delays.words), *map(_whole, values), str(delays.at_end)]


def _delays_content(delays: DelaySummary) -> dict[str, object]:
    content: dict[str, object] = {"words": delays.words, "at_end": delays.at_end}
    for name in ("shown", "stable", "final"):
        middle, high = getattr(delays, name)
        content |= {f"{name}_median_ms": round(middle, 1), f"{name}_p90_ms": round(high, 1)}
    return content


def _times_content(errors: TimeErrors) -> dict[str, object]:
    def spread(values: ErrorSpread) -> dict[str, float]:
        return {f"{name}_ms": round(value, 1) for name, value in vars(values).items()}

    return {"words": errors.words, "start": spread(errors.start), "end": spread(errors.end)}


def _reliability_cells(reliability: Reliability | None) -> list[str]:
    if reliability is None:
        return ["-"] * 5
    ranking = "-" if math.isnan(reliability.ranking) else f"{reliability.ranking:.3f}"
    return [
        str(reliability.number),
        _percent(reliability.confidence),
        _percent(reliability.right),
        f"{reliability.error:.3f}",
        ranking,
    ]


def _reliability_content(reliability: Reliability | None) -> dict[str, object] | None:
    if reliability is None:
        return None
    return {
        "number": reliability.number,
        "confidence": round(reliability.confidence, 4),
        "right": round(reliability.right, 4),
        "calibration_error": round(reliability.error, 4),
        "ranking": None if math.isnan(reliability.ranking) else round(reliability.ranking, 4),
        "bins": [
            {"number": each.number, "confidence": round(each.confidence, 4), "right": round(each.right, 4)}
            for each in reliability.bins
        ],
    }


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _whole(value: float) -> str:
    return f"{value:.0f}"


# Tables in plain text.

LINE: Final = 100


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with columns as wide as needed. The first is aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = []
    for row in (header, *rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
