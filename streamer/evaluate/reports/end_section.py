"""The part of a report that is about the finals for which a client waits. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamer.evaluate.measures.end_delays import EndDelays
from streamer.evaluate.reports.table import table


def ends_text(found: Mapping[str, EndDelays]) -> str:
    """Return how long clients waited; empty if nobody was measured."""
    if not found:
        return ""
    rows = [
        [f"{asked} to final", str(of.number), *(f"{value:.0f}" for value in (of.median_ms, of.p95_ms, of.longest_ms))]
        for asked, of in found.items()
    ]
    return table(["wait for the last final, ms", "number", "median", "95th %", "longest"], rows)


def ends_json(found: Mapping[str, EndDelays]) -> dict[str, Any] | None:
    """Return the same figures as JSON values."""
    if not found:
        return None
    return {
        asked: {name: round(value, 1) for name, value in vars(of).items()}
        for asked, of in found.items()
    }  # fmt: skip
