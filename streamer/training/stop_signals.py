"""Handles SIGTERM and Ctrl-C as a request to stop. The work then ends in order."""

from __future__ import annotations

import signal
from collections.abc import Callable

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StoppedError(Exception):
    """The work was not finished, because the process was asked to stop."""


def stop_signals() -> Callable[[], bool]:
    """Make these signals only request a stop. Returns a function that says whether one has arrived."""
    stopped = False

    def request_stop(*_: object) -> None:
        nonlocal stopped
        stopped = True

    for number in STOP_SIGNALS:
        signal.signal(number, request_stop)
    return lambda: stopped
