"""Measures how long a client waits for the final that it asked for: after a flush, and after `stop`. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np


class Asked(str, Enum):
    """How a client asks for the final of what was said last."""

    FLUSH = "flush"
    STOP = "stop"


@dataclass(frozen=True)
class EndDelay:
    """From the request to its last final, by the wall clock."""

    asked: Asked
    wall_ms: float


@dataclass(frozen=True)
class EndDelays:
    """The delays after many requests of one kind, in milliseconds."""

    number: int
    median_ms: float
    p95_ms: float
    longest_ms: float


def summarise_end_delays(found: Sequence[EndDelay | None]) -> dict[str, EndDelays]:
    """Return the delays by the kind of the request, as far as there are any."""
    summary = {}
    for kind in Asked:
        delays = [each.wall_ms for each in found if each is not None and each.asked is kind]
        if delays:
            median, high = np.percentile(delays, (50, 95))
            summary[kind.value] = EndDelays(len(delays), float(median), float(high), max(delays))
    return summary
