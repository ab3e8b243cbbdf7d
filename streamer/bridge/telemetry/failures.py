"""Unexpected failures inside the service: they are counted, and logged with their traceback."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from typing import Any

from streamer.bridge.telemetry.logs import Log

log = Log("streamer.bridge")

# The same failure is logged at most once in this time, because a client may cause it a thousand times.
AGAIN_S = 60.0
_MOST_KINDS = 256


class Failures:
    """The failures of one part of the service. Two are the same if they were raised at the same line."""

    def __init__(self, count: Callable[[], None]) -> None:
        self._count = count
        self._kinds: dict[tuple[str, str, int | None], tuple[float, int]] = {}  # when logged, and how often since then

    def report(self, event: str, error: BaseException, **fields: Any) -> None:
        """Count a failure, and log it with this `event` and these `fields`."""
        self._count()
        frames = traceback.extract_tb(error.__traceback__)
        last = frames[-1] if frames else None
        kind = (type(error).__name__, last.filename if last else event, last.lineno if last else None)
        now = time.monotonic()
        logged_at, repeats = self._kinds.get(kind, (None, 0))
        if logged_at is not None and now - logged_at < AGAIN_S:
            self._kinds[kind] = logged_at, repeats + 1
            return
        if len(self._kinds) >= _MOST_KINDS:
            self._kinds.clear()
        self._kinds[kind] = now, 0
        if repeats:
            fields["unsaid"] = repeats
        log.error(event, exc_info=error, **fields)
