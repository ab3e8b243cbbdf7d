"""Threads that take turns at batches."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue

import pytest

from streamer.engine.adapters.batch_threads import BatchThreads

LIMIT_S = 60.0


@contextmanager
def threads(
    number: int, take_turn: Callable[[], None], patience_s: float = 0.001
) -> Iterator[tuple[BatchThreads, SimpleQueue[Exception]]]:
    """Threads that are stopped at the end, and the exceptions of their turns."""
    failures: SimpleQueue[Exception] = SimpleQueue()
    running = BatchThreads(number, take_turn, failures.put, patience_s)
    try:
        yield running, failures
    finally:
        running.stop(LIMIT_S)


def test_another_thread_takes_what_becomes_due_meanwhile() -> None:
    """While one thread computes, another one is woken; if all compute, the first that is ready looks again."""
    began: SimpleQueue[str] = SimpleQueue()
    go_on = {name: threading.Event() for name in ("batches 0", "batches 1")}

    def take_turn() -> None:
        name = threading.current_thread().name
        began.put(name)
        assert go_on[name].wait(LIMIT_S)

    with threads(2, take_turn) as (running, _):
        running.wake()
        first = began.get(timeout=LIMIT_S)
        running.wake()
        second = began.get(timeout=LIMIT_S)
        assert {first, second} == set(go_on)
        running.wake()
        with pytest.raises(Empty):
            began.get_nowait()
        go_on[second].set()
        assert began.get(timeout=LIMIT_S) == second
        go_on[first].set()


def test_a_batch_beside_another_one_is_worth_some_patience() -> None:
    """While a thread computes, no other one begins before something has been due for a while; afterwards one does."""
    began, go_on = SimpleQueue[int](), threading.Semaphore(0)

    def take_turn() -> None:
        began.put(running.turns)
        assert go_on.acquire(timeout=LIMIT_S)

    with threads(2, take_turn, patience_s=2 * LIMIT_S) as (running, _):
        running.wake()
        assert began.get(timeout=LIMIT_S) == 0
        running.wake()
        go_on.release()
        assert began.get(timeout=LIMIT_S) == 1, "a second turn has begun before the first one ended"
        go_on.release()


def test_a_turn_may_come_later_unless_something_cannot_wait() -> None:
    """A turn begins when the time is up after which somebody wanted it, the soonest of all who did."""
    with threads(1, lambda: None) as (running, _):
        running.wake(after_s=0.001)
        running.wait_for_turn(0)
        running.wake(after_s=10 * LIMIT_S)
        running.wake()
        running.wait_for_turn(1)
        running.wake()
        running.wake(after_s=10 * LIMIT_S)
        running.wait_for_turn(2)


def test_what_may_wait_does_so_beside_another_batch() -> None:
    """While a thread computes, what may wait longer than the patience does so; another thread stays without a turn."""
    began, go_on = SimpleQueue[int](), threading.Semaphore(0)

    def take_turn() -> None:
        began.put(running.turns)
        assert go_on.acquire(timeout=LIMIT_S)

    with threads(2, take_turn) as (running, _):
        running.wake()
        assert began.get(timeout=LIMIT_S) == 0
        running.wake(after_s=10 * LIMIT_S)
        go_on.release()
        running.wait_for_turn(0)
        with pytest.raises(Empty):
            began.get_nowait()
        running.wake()
        assert began.get(timeout=LIMIT_S) == 1
        go_on.release()


def test_a_turn_may_let_another_one_begin_beside_it() -> None:
    """With endless patience, another turn begins when this one says so, or when it has ended, and with what is due."""
    began, go_on = SimpleQueue[str](), threading.Semaphore(0)
    pass_on = {name: threading.Event() for name in ("batches 0", "batches 1")}

    def take_turn() -> None:
        name = threading.current_thread().name
        began.put(name)
        assert pass_on[name].wait(LIMIT_S)
        running.let_another_begin()
        assert go_on.acquire(timeout=LIMIT_S)

    with threads(2, take_turn, patience_s=math.inf) as (running, _):
        running.wake()
        first = began.get(timeout=LIMIT_S)
        running.wake()
        with pytest.raises(Empty):
            began.get_nowait()
        pass_on[first].set()
        second = began.get(timeout=LIMIT_S)
        assert second != first
        running.wake()
        go_on.release()  # the first turn ends, and no other one begins, because the second one has said nothing yet
        running.wait_for_turn(0)
        with pytest.raises(Empty):
            began.get_nowait()
        pass_on[second].set()
        assert began.get(timeout=LIMIT_S) == first
        go_on.release(2)


def test_a_failure_ends_no_thread() -> None:
    """An exception of a turn is told, and the next turn comes as usual."""

    def fails() -> None:
        raise ZeroDivisionError

    results: Iterator[Callable[[], None]] = iter([fails, lambda: None])
    with threads(1, lambda: next(results)()) as (running, failures):
        running.wake()
        running.wait_for_turn(0)
        assert isinstance(failures.get(timeout=LIMIT_S), ZeroDivisionError)
        running.wake()
        running.wait_for_turn(1)


def test_the_end_comes_after_the_present_turns() -> None:
    """A turn that has begun is completed, no other one begins, and nobody waits for one any more."""
    began, ended, go_on = threading.Event(), threading.Event(), threading.Event()

    def take_turn() -> None:
        assert not ended.is_set()
        began.set()
        assert go_on.wait(LIMIT_S)
        ended.set()

    with threads(1, take_turn) as (running, failures):
        running.wake()
        assert began.wait(LIMIT_S)
        stopping = threading.Thread(target=running.stop, args=(LIMIT_S,))
        stopping.start()
        running.wait_for_turn(10)
        go_on.set()
        stopping.join(LIMIT_S)
        assert ended.is_set()
        running.wake()
        assert failures.empty()
