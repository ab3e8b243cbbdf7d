"""The section of a report about marks and capitals. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from streamer.evaluate.measures.mark_errors import MarkCounts
from streamer.evaluate.reports.table import LINE, table

Figures = Mapping[str, Mapping[str, MarkCounts]]


def marks_text(figures: Figures) -> str:
    """Return a table of how well marks and capitals agree with the references; empty if these have none."""
    if not figures:
        return ""
    rows = [
        [
            name,
            kind,
            str(counts.expected),
            str(counts.written),
            *map(_percent, (counts.precision, counts.recall, counts.f1)),
        ]
        for name, kinds in figures.items()
        for kind, counts in kinds.items()
    ]
    header = ["marks and capitals", "kind", "expected", "written", "right %", "found %", "F1 %"]
    note = (
        "At words that were recognised right. 'Right': the part of the written ones that the references have too. "
        "'Found': the part of those of the references that were written. 'F1': the harmonic mean of both."
    )
    return f"{table(header, rows)}\n{textwrap.fill(note, LINE)}"


def marks_json(figures: Figures) -> dict[str, Any] | None:
    """Return the figures as JSON values."""
    if not figures:
        return None
    return {
        name: {
            kind: {
                "expected": counts.expected,
                "written": counts.written,
                "right": counts.right,
                "precision": _round(counts.precision),
                "recall": _round(counts.recall),
                "f1": _round(counts.f1),
            }
            for kind, counts in kinds.items()
        }
        for name, kinds in figures.items()
    }


def _round(share: float | None) -> float | None:
    return None if share is None else round(share, 4)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"
