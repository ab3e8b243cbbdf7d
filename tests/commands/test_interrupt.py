"""Work that a signal ends in order."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from streamer.commands.interrupt import run_until_signal


def send(number: signal.Signals) -> None:
    """Send a signal to this process."""
    os.kill(os.getpid(), number)


def test_the_work_has_its_own_status() -> None:
    """Without a signal, the result of the work is the exit status, and its exceptions are raised."""

    async def work() -> int:
        return 3

    async def fail() -> int:
        raise ValueError("no")

    assert run_until_signal(work()) == 3
    with pytest.raises(ValueError, match="no"):
        run_until_signal(fail())


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_cancels_and_the_work_tidies_up(number: signal.Signals, status: int) -> None:
    """Clean-up is completed, even if a second SIGTERM comes meanwhile."""
    done = []

    async def work() -> int:
        try:
            send(number)
            await asyncio.sleep(30)
        finally:
            send(signal.SIGTERM)
            await asyncio.sleep(0.05)
            done.append("tidy")
        return 0

    assert run_until_signal(work()) == status
    assert done == ["tidy"]


def test_a_second_ctrl_c_does_not_wait() -> None:
    """A second Ctrl-C ends it at once."""

    async def work() -> int:
        send(signal.SIGINT)
        try:
            await asyncio.sleep(30)
        finally:
            send(signal.SIGINT)
            await asyncio.sleep(30)
        return 0

    with pytest.raises(KeyboardInterrupt):
        run_until_signal(work())


def test_the_handlers_are_gone_afterwards() -> None:
    """Afterwards the process has its earlier signal handlers."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    async def work() -> int:
        return 0

    run_until_signal(work())
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_hurries(second: signal.Signals) -> None:
    """A second signal hurries the work once, and it still ends in order. The first signal decides the status."""
    called, done = [], []

    async def work() -> int:
        hurried = asyncio.Event()
        called.append(hurried)
        send(signal.SIGTERM)
        try:
            await asyncio.sleep(30)
        finally:
            send(second)
            await asyncio.wait_for(hurried.wait(), 60)
            done.append("tidy")
        return 0

    assert run_until_signal(work(), lambda: called[0].set()) == 143
    assert done == ["tidy"]


def test_a_third_ctrl_c_does_not_wait() -> None:
    """A third Ctrl-C ends it at once, even if the work hurries."""
    hurried = []

    async def work() -> int:
        send(signal.SIGTERM)
        try:
            await asyncio.sleep(30)
        finally:
            for _ in range(2):
                send(signal.SIGINT)
                await asyncio.sleep(0.1)
            await asyncio.sleep(30)
        return 0

    with pytest.raises(KeyboardInterrupt):
        run_until_signal(work(), lambda: hurried.append(True))
    assert hurried == [True]
