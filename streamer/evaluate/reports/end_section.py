"""The section of a report about the delays of the last finals. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamer.evaluate.measures.end_delays import EndDelays
from streamer.evaluate.reports.table import table


def ends_text(delays: Mapping[str, EndDelays]) -> str:
    """Return how long clients waited, as a table; empty if there are no delays."""
    if not delays:
        return ""
    rows = [
        [
            f"{kind} to final",
            str(summary.number),
            *(f"{value:.0f}" for value in (summary.median_ms, summary.p95_ms, summary.longest_ms)),
        ]
        for kind, summary in delays.items()
    ]
    return table(["wait for the last final, ms", "number", "median", "95th %", "longest"], rows)


def ends_json(delays: Mapping[str, EndDelays]) -> dict[str, Any] | None:
    """Return the delays as JSON values."""
    if not delays:
        return None
    return {kind: {name: round(value, 1) for name, value in vars(summary).items()} for kind, summary in delays.items()}
