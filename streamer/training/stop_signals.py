"""SIGTERM and Ctrl-C as a wish: what runs is brought to a good end first."""

from __future__ import annotations

import signal
from collections.abc import Callable

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StoppedError(Exception):
    """What was to be done was not, because the process was asked to stop."""


def stop_signals() -> Callable[[], bool]:
    """From now on these signals only ask; the function that comes back says whether they did."""
    asked = False

    def ask(*_: object) -> None:
        nonlocal asked
        asked = True

    for number in STOP_SIGNALS:
        signal.signal(number, ask)
    return lambda: asked
