"""Signals request a stop, and do not end the process."""

from __future__ import annotations

import os
import signal

import pytest

from streamer.training.stop_signals import STOP_SIGNALS, stop_signals


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
