"""Requests of streams that are being prepared."""

from __future__ import annotations

import threading
from operator import methodcaller

import pytest

from streamer.engine.adapters.held_requests import (
    MOST_REQUESTS,
    HeldRequests,
    Precedence,
    Turn,
    in_turns,
    together_with_awaited,
    whose_turn,
)
from streamer.engine.recogniser import StreamError


def test_in_order_and_one_at_a_time() -> None:
    """Once a stream is prepared its requests are due, one at a time and in order."""
    held: HeldRequests[str] = HeldRequests(16_000)
    for stream in (1, 2):
        held.put_back(stream, f"{stream} start")
    held.hold(1, "1 audio", 5120)
    held.hold(1, "1 end", 0)
    assert held.any_due(lambda stream: stream == 1)
    assert held.due(lambda stream: stream == 1) == ["2 start"]
    assert not held.any_due(lambda stream: stream == 1)
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


def nobody(request: str) -> bool:
    """Return that the answer of this request is not awaited."""
    return False


def test_callers_take_turns() -> None:
    """The first requests of all callers come first, then their second ones, in the order in which they arrived."""
    requests = ["a1", "a2", "a3", "b1", "a4", "c1", "b2"]
    nothing = dict.fromkeys("abc", 0.0).__getitem__
    assert in_turns(requests, lambda request: request[0], nothing, 0.1, nobody) == [
        "a1",
        "b1",
        "c1",
        "a2",
        "b2",
        "a3",
        "a4",
    ]
    assert in_turns([], str, nothing, 0.1, nobody) == []


def test_who_has_used_less_time_comes_first() -> None:
    """A caller's requests come before all of those of callers that have used more, until it has used as much."""
    requests = ["a1", "a2", "b1", "a3", "b2", "b3"]
    used_s = {"a": 7.21, "b": 7.0}.__getitem__
    assert in_turns(requests, lambda request: request[0], used_s, 0.1, nobody) == ["b1", "b2", "b3", "a1", "a2", "a3"]
    assert in_turns(requests, lambda request: request[0], used_s, 0.2, nobody) == ["b1", "b2", "a1", "b3", "a2", "a3"]


def test_awaited_last_words_come_first() -> None:
    """Of one caller, a request with awaited last words comes before each other one, which go on meanwhile."""
    awaited = methodcaller("endswith", ".")
    nothing = dict.fromkeys("abc", 0.0).__getitem__
    ordered = in_turns(["a1", "a2", "a3.", "a4.", "a5."], lambda request: request[0], nothing, 0.1, awaited)
    assert ordered == ["a3.", "a1", "a4.", "a2", "a5."]


def test_awaited_last_words_wait_for_callers_who_have_used_less_time() -> None:
    """Requests with awaited last words do not come before those of callers that have used less time."""
    requests = ["a1", "a2", "b1", "a3.", "b2.", "a4."]
    same = dict.fromkeys("ab", 0.0).__getitem__
    awaited = methodcaller("endswith", ".")
    ordered = in_turns(requests, lambda request: request[0], same, 0.1, awaited)
    assert ordered == ["a3.", "b2.", "a1", "b1", "a2", "a4."]
    used_s = {"a": 7.21, "b": 7.0}.__getitem__
    ordered = in_turns(requests, lambda request: request[0], used_s, 0.1, awaited)
    assert ordered == ["b2.", "b1", "a3.", "a1", "a2", "a4."]


@pytest.mark.parametrize(
    ("due", "awaited", "together"),
    [(20, 0, 16), (20, 1, 4), (20, 2, 4), (20, 3, 6), (20, 9, 16), (32, 1, 4), (33, 1, 16)],
)
def test_awaited_last_words_are_computed_in_small_batches(due: int, awaited: int, together: int) -> None:
    """A batch with awaited last words is small, unless much more is due than is usually computed together."""
    assert together_with_awaited(16, due, awaited) == together
    assert together_with_awaited(2, due, awaited) == 2


@pytest.mark.parametrize(
    ("second_pass", "steps", "turn"),
    [
        (None, [], Turn.STEPS),
        (None, ["light", "heavy"], Turn.STEPS),
        ("heavy", [], Turn.SECOND_PASSES),
        ("heavy", ["heavy"], Turn.BOTH),
        ("heavy", ["heavy", "light"], Turn.STEPS),
        ("light", ["heavy"], Turn.SECOND_PASSES),
        ("light", ["heavy", "light"], Turn.BOTH),
    ],
)
def test_second_passes_and_steps(second_pass: str | None, steps: list[str], turn: Turn) -> None:
    """Whatever belongs to the caller that has used less comes first; within one caller, both get time."""
    assert whose_turn(second_pass, steps, {"light": 1.0, "heavy": 1.5}.__getitem__) is turn


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


def test_others_have_the_turn_meanwhile() -> None:
    """A step may give its turn to others, and goes on after theirs, also if what it does meanwhile fails."""
    precedence, order = Precedence(), list[str]()
    begun, release = threading.Event(), threading.Event()

    def other() -> None:
        with precedence.other():
            order.append("other")
            begun.set()
            release.wait(30)
            order.append("end of other")

    worker = threading.Thread(target=other)
    with precedence.step():
        try:
            with precedence.meanwhile():
                worker.start()
                assert begun.wait(30)
                release.set()
                raise ValueError
        except ValueError:
            pass
        order.append("step")
        assert precedence._busy
    worker.join(30)
    assert order == ["other", "end of other", "step"]
