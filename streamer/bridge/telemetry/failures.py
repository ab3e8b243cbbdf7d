"""Unexpected failures inside the service: they are counted, and logged with their traceback."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from typing import Any

from streamer.bridge.telemetry.logs import Log

log = Log("streamer.bridge")

# The same failure is logged once in so many seconds, because a client may cause it a thousand times.
AGAIN_S = 60.0
_MOST_KNOWN = 256


class Failures:
    """The failures of one part of the service. Two are the same if they were raised at the same line."""

    def __init__(self, count: Callable[[], None]) -> None:
        self._count = count
        self._known: dict[tuple[str, str, int | None], tuple[float, int]] = {}  # time logged, and how often since

    def report(self, event: str, error: BaseException, **fields: Any) -> None:
        """Count a failure, and log it with this `event` and these `fields`."""
        self._count()
        frames = traceback.extract_tb(error.__traceback__)
        last = frames[-1] if frames else None
        kind = (type(error).__name__, last.filename if last else event, last.lineno if last else None)
        now = time.monotonic()
        logged, unsaid = self._known.get(kind, (None, 0))
        if logged is not None and now - logged < AGAIN_S:
            self._known[kind] = logged, unsaid + 1
            return
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[kind] = now, 0
        if unsaid:
            fields["unsaid"] = unsaid
        log.error(event, exc_info=error, **fields)
