"""Precedence at the recogniser: steps go before other work."""

from __future__ import annotations

import threading

from streamer.adapters.precedence import Precedence


def test_a_step_waits_for_one_turn_of_other_work_at_most() -> None:
    """Other work gets no second turn while a step waits, and gets one after it."""
    precedence, order = Precedence(), list[str]()
    working, release = threading.Event(), threading.Event()

    def work() -> None:
        for number in range(3):
            with precedence.other():
                order.append("other")
                if not number:
                    working.set()
                    release.wait(30)

    def step() -> None:
        with precedence.step():
            order.append("step")

    worker, stepper = threading.Thread(target=work), threading.Thread(target=step)
    worker.start()
    assert working.wait(30)
    stepper.start()
    while not precedence._steps:  # it is at the door
        pass
    release.set()
    for thread in (worker, stepper):
        thread.join(30)
    assert order == ["other", "step", "other", "other"]


def test_a_turn_ends_with_an_error() -> None:
    """A turn ends even if its work raises an exception."""
    precedence = Precedence()
    for turn in (precedence.step, precedence.other, precedence.step):
        try:
            with turn():
                raise ValueError
        except ValueError:
            pass
    with precedence.other():
        assert precedence._busy
