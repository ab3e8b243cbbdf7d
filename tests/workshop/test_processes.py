"""Signals that request a stop, the same work in one process and in several, and the average of models."""

from __future__ import annotations

import os
import signal

import pytest
import torch
from torch import nn

from workshop.processes import STOP_SIGNALS, Workers, averaged, stop_signals


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


def test_each_model_has_its_share() -> None:
    """Shares need not add up to one."""
    models = [nn.Linear(3, 2) for _ in range(3)]
    parts = [model.weight.detach().clone() for model in models]
    average = averaged(models, [2.0, 1.0, 1.0])
    torch.testing.assert_close(average.weight.detach(), 0.5 * parts[0] + 0.25 * parts[1] + 0.25 * parts[2])


def test_what_cannot_be_averaged() -> None:
    """Models of different shapes, and shares that are nothing in all."""
    with pytest.raises(ValueError, match="same shape"):
        averaged([nn.Linear(3, 2), nn.Linear(2, 2)], [1.0, 1.0])
    for shares in ([0.0, 0.0], [2.0, -1.0]):
        with pytest.raises(ValueError, match="no share may be below zero"):
            averaged([nn.Linear(3, 2), nn.Linear(3, 2)], shares)
