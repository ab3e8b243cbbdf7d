"""Runs a command's work until it is done or the user has had enough; either way it ends in order."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any


def run_until_signal(
    work: Coroutine[Any, Any, int],
    hurry: Callable[[], None] | None = None,
    refresh: Callable[[], None] | None = None,
) -> int:
    """The exit status of the work; 130 after Ctrl-C and 143 after SIGTERM, which cancel it.

    A second Ctrl-C does not wait for the order. With `hurry` a second signal, whichever, only calls that: the work then
    ends soon, still in order; a Ctrl-C after it does not wait.

    With `refresh` SIGHUP calls that and ends nothing. Only if it comes because the terminal is closed, it cancels, too
    (129); not even then if the command was started to outlive it (nohup).
    """
    return asyncio.run(_watched(work, hurry, refresh))


async def _watched(
    work: Coroutine[Any, Any, int], hurry: Callable[[], None] | None, refresh: Callable[[], None] | None
) -> int:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    received: list[signal.Signals] = []
    before = signal.getsignal(signal.SIGHUP)
    ends_with_terminal = before is not signal.SIG_IGN and _has_terminal()

    def cancel(number: signal.Signals) -> None:
        received.append(number)
        if len(received) == 1:  # a second cancellation would break the order that the first one began
            task.cancel()
        elif len(received) == 2 and hurry is not None:
            hurry()
        if hurry is None or len(received) > 1:
            loop.remove_signal_handler(signal.SIGINT)

    def hang_up() -> None:
        if not ends_with_terminal or _has_terminal():
            assert refresh is not None
            refresh()
        elif not received:  # shells send it twice, and mean no hurry
            cancel(signal.SIGHUP)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, cancel, number)
    if refresh is not None:
        loop.add_signal_handler(signal.SIGHUP, hang_up)
    try:
        return await task
    except asyncio.CancelledError:
        if not received:
            raise
        return 128 + received[0]
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        if refresh is not None:
            loop.remove_signal_handler(signal.SIGHUP)
            signal.signal(signal.SIGHUP, before)


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
