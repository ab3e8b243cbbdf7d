"""Requests of streams that are being prepared."""

from __future__ import annotations

import threading

import pytest

from streamer.engine.adapters.held_requests import MOST_REQUESTS, HeldRequests, Precedence, in_turns
from streamer.engine.recogniser import StreamError


def test_in_order_and_one_at_a_time() -> None:
    """Once a stream is prepared its requests are due, one at a time and in order."""
    held: HeldRequests[str] = HeldRequests(16_000)
    for stream in (1, 2):
        held.put_back(stream, f"{stream} start")
    held.hold(1, "1 audio", 5120)
    held.hold(1, "1 end", 0)
    assert held.due(lambda stream: stream == 1) == ["2 start"]
    assert 2 not in held
    assert held.due(lambda stream: False) == ["1 start"]
    held.put_back(1, "1 start again")
    assert [held.due(lambda stream: False) for _ in range(4)] == [["1 start again"], ["1 audio"], ["1 end"], []]
    assert not held


def test_bounds() -> None:
    """A stream can have at most half a minute of audio, and a limited number of requests, held."""
    held: HeldRequests[int] = HeldRequests(100)
    held.put_back(1, 0)
    held.hold(1, 1, 3000)
    with pytest.raises(StreamError, match="at most 30 s") as caught:
        held.hold(1, 2, 1)
    assert caught.value.code == "too_long"
    for number in range(MOST_REQUESTS - 2):
        held.hold(1, number, 0)
    with pytest.raises(StreamError, match="64 requests"):
        held.hold(1, 3, 0)
    held.hold(2, 4, 3000)
    assert len(held.clear()) == MOST_REQUESTS + 1
    assert not held


def test_callers_take_turns() -> None:
    """The first requests of all callers come first, then their second ones, in the order in which they arrived."""
    requests = ["a1", "a2", "a3", "b1", "a4", "c1", "b2"]
    assert in_turns(requests, lambda request: request[0]) == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]
    assert in_turns([], str) == []


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
