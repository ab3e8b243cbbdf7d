"""Runs a command's work until it is done or the user has had enough; either way it ends in order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


def run_until_signal(work: Coroutine[Any, Any, int]) -> int:
    """The exit status of the work; 130 after Ctrl-C and 143 after SIGTERM, which cancel it.

    A second Ctrl-C does not wait for the order.
    """
    return asyncio.run(_watched(work))


async def _watched(work: Coroutine[Any, Any, int]) -> int:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    received: list[signal.Signals] = []

    def cancel(number: signal.Signals) -> None:
        if not received:  # a second cancellation would break the order that the first one began
            task.cancel()
        received.append(number)
        loop.remove_signal_handler(signal.SIGINT)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, cancel, number)
    try:
        return await task
    except asyncio.CancelledError:
        if not received:
            raise
        return 128 + received[0]
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
