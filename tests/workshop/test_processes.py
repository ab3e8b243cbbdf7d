"""Signals that request a stop, and the same work in one process and in several."""

from __future__ import annotations

import os
import signal

import pytest

from workshop.processes import STOP_SIGNALS, Workers, stop_signals


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_only_asks(number: signal.Signals) -> None:
    """After a signal the process continues, and knows of the request."""
    before = {each: signal.getsignal(each) for each in STOP_SIGNALS}
    try:
        stopped = stop_signals()
        assert not stopped()
        os.kill(os.getpid(), number)
        assert stopped()
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


_offset = 0


def prepare(offset: int) -> None:
    """Prepare a process for `add`."""
    global _offset
    _offset = offset


def add(one: int, other: int) -> tuple[int, int]:
    """Return the sum with what was prepared, and the process."""
    return one + other + _offset, os.getpid()


@pytest.mark.parametrize("processes", [1, 2])
def test_results_are_in_order(processes: int) -> None:
    """Every process is prepared, and the results come in the order of what they are for."""
    with Workers(processes, prepare, 100) as workers:
        found = list(workers.map(add, range(9), range(9), chunk=2))
    assert [result for result, _ in found] == [100 + 2 * number for number in range(9)]
    here = {process == os.getpid() for _, process in found}
    assert here == {processes == 1}


def test_no_worker() -> None:
    """No worker at all is an error."""
    with pytest.raises(ValueError, match="max_workers must be greater than 0"), Workers(0):
        pass
