"""Measures how long a client waits for the final that it requests: after a flush, and after `stop`. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np


class FinalRequest(str, Enum):
    """The messages with which a client requests the final of the last words."""

    FLUSH = "flush"
    STOP = "stop"


@dataclass(frozen=True)
class EndDelay:
    """The time from a request to its last final, by the wall clock."""

    request: FinalRequest
    wall_ms: float


@dataclass(frozen=True)
class EndDelays:
    """The delays after many requests of one kind, in milliseconds."""

    number: int
    median_ms: float
    p95_ms: float
    longest_ms: float


def summarise_end_delays(end_delays: Sequence[EndDelay | None]) -> dict[str, EndDelays]:
    """Return the delays by the kind of the request, without kinds that did not occur."""
    summary = {}
    for kind in FinalRequest:
        delays = [each.wall_ms for each in end_delays if each is not None and each.request is kind]
        if delays:
            median, high = np.percentile(delays, (50, 95))
            summary[kind.value] = EndDelays(len(delays), float(median), float(high), max(delays))
    return summary
