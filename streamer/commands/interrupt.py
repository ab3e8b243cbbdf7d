"""Runs the work of a command until it is done or a signal comes, and ends it in order."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

AGAIN: Final = "Press Ctrl-C again to quit at once."


def run_until_signal(
    work: Coroutine[Any, Any, int],
    hurry: Callable[[], None] | None = None,
    refresh: Callable[[], None] | None = None,
    tell: Callable[[], None] | None = None,
) -> int:
    """Run the work, and return its exit status: 130 after Ctrl-C and 143 after SIGTERM, which cancel it.

    The first signal calls `tell`, which says what the program waits for. A second Ctrl-C ends the work at once.
    With `hurry`, a second signal of any kind calls that instead; the work then ends soon and in order. A Ctrl-C after
    that ends it at once.

    With `refresh`, SIGHUP calls that and does not end the work. But if it comes because the terminal was closed, it
    cancels the work (129), unless the command was started with nohup.
    """
    return asyncio.run(_run_until_signal(work, hurry, refresh, tell))


async def _run_until_signal(
    work: Coroutine[Any, Any, int],
    hurry: Callable[[], None] | None,
    refresh: Callable[[], None] | None,
    tell: Callable[[], None] | None,
) -> int:
    task = asyncio.ensure_future(work)
    signals: list[signal.Signals] = []

    def cancel(number: signal.Signals) -> None:
        signals.append(number)
        if len(signals) == 1:  # a second cancellation would interrupt the clean-up after the first
            task.cancel()
            if tell is not None:
                tell()
        elif len(signals) == 2 and hurry is not None:
            hurry()
        if hurry is None or len(signals) > 1:
            off_signal(signal.SIGINT)

    for number in (signal.SIGINT, signal.SIGTERM):
        on_signal(number, partial(cancel, number))
    stop_handling = _on_hangup(refresh, lambda: cancel(signal.SIGHUP) if not signals else None) if refresh else None
    try:
        return await task
    except asyncio.CancelledError:
        if not signals:
            raise
        return 128 + signals[0]
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            off_signal(number)
        if stop_handling is not None:
            stop_handling()


def _on_hangup(refresh: Callable[[], None], end: Callable[[], None]) -> Callable[[], None]:
    """Handle SIGHUP. Return a function that stops this."""
    before = signal.getsignal(signal.SIGHUP)
    ends_with_terminal = before is not signal.SIG_IGN and _has_terminal()

    def hang_up() -> None:
        if not ends_with_terminal or _has_terminal():
            refresh()
        else:
            end()  # shells send it twice, which must not count as a second signal

    def stop_handling() -> None:
        off_signal(signal.SIGHUP)
        signal.signal(signal.SIGHUP, before)

    on_signal(signal.SIGHUP, hang_up)
    return stop_handling


def on_signal(number: signal.Signals, react: Callable[[], None]) -> None:
    """Call `react` in the running loop whenever the signal comes."""
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(number, react)
    except NotImplementedError:  # Windows
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(react) and None)


def off_signal(number: signal.Signals) -> None:
    """Restore the default reaction to the signal."""
    loop = asyncio.get_running_loop()
    try:
        loop.remove_signal_handler(number)
    except NotImplementedError:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
