"""The work for which streams wait: slices, turns and limits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamer.engine.waiting import PREPARATION_LIMIT_S, SLICE_S, NotNow, Wait, WaitingWork, Work

PART_S = SLICE_S / 3.5  # so four of them fill a slice


class Clock:
    """Time passes with the work that is done."""

    def __init__(self) -> None:
        self.now = 100.0
        self.parts: list[str] = []

    def __call__(self) -> float:
        return self.now

    def work(self, name: str, parts: int, error: Exception | None = None) -> Work[None]:
        """Return work of this many parts, perhaps with an error at the end."""
        for _ in range(parts):
            self.now += PART_S
            self.parts.append(name)
            yield
        if error is not None:
            raise error


@pytest.fixture
def clock() -> Clock:
    return Clock()


def ends(waiting: WaitingWork) -> Iterator[tuple[int, Exception | None]]:
    """Return the streams that wait no longer, in order."""
    while waiting:
        yield from waiting.advance()


def test_a_slice_is_short(clock: Clock) -> None:
    """A slice does as many parts as fit into its time, however much there is to do."""
    waiting = WaitingWork(clock)
    waiting.add(1, Wait.PREPARATION, clock.work("a", 1000), "anna", 1.0)
    for number in range(1, 200):
        assert waiting.advance() == []
        assert len(clock.parts) == 4 * number
    assert list(ends(waiting)) == [(1, None)]
    assert 1 not in waiting


def test_short_lists_go_first(clock: Clock) -> None:
    """A caller's short list is prepared before the long lists of others, which follow one after another."""
    waiting = WaitingWork(clock)
    for stream, caller in enumerate(("anna", "anna", "ben", "cleo")):
        waiting.add(stream, Wait.PREPARATION, clock.work(f"{stream}", 40), caller, 40 * PART_S)
    waiting.advance()
    waiting.add(9, Wait.PREPARATION, clock.work("short", 6), "dora", 6 * PART_S)
    assert [stream for stream, _ in ends(waiting)] == [9, 0, 2, 3, 1]
    assert clock.parts == ["0"] * 4 + ["short"] * 6 + ["0"] * 36 + ["2"] * 40 + ["3"] * 40 + ["1"] * 40


def test_who_comes_again_waits_for_those_who_have_had_less(clock: Clock) -> None:
    """However often one caller asks, another caller gets its share."""
    waiting = WaitingWork(clock)
    waiting.add(0, Wait.PREPARATION, clock.work("anna", 200), "anna", 200 * PART_S)
    for stream in range(1, 100):
        waiting.add(stream, Wait.PREPARATION, clock.work("mallory", 20), "mallory", 20 * PART_S)
    done = [stream for stream, _ in ends(waiting)]
    assert done.index(0) <= 10


def test_second_passes_may_have_more_time(clock: Clock) -> None:
    """Second passes get the time of the argument of `advance`; preparations always get a slice."""
    waiting = WaitingWork(clock)
    waiting.add(1, Wait.PREPARATION, clock.work("a", 1000), "anna", 1000 * PART_S)
    waiting.add(2, Wait.SECOND_PASS, clock.work("b", 1000), "ben", 2000 * PART_S)
    waiting.advance()
    assert clock.parts == ["a"] * 4
    waiting.advance(20 * PART_S)
    assert clock.parts == ["a"] * 8 + ["b"] * 16
    assert [waiting.find(stream) for stream in (1, 2, 3)] == [Wait.PREPARATION, Wait.SECOND_PASS, None]


def test_second_passes_are_not_given_up(clock: Clock) -> None:
    """Second passes that wait for long are not cancelled, because their words were shown."""
    waiting = WaitingWork(clock)
    waiting.add(1, Wait.SECOND_PASS, clock.work("a", 2 * int(PREPARATION_LIMIT_S / PART_S)), "", 0.1)
    assert list(ends(waiting)) == [(1, None)]


def test_what_cannot_be_prepared(clock: Clock) -> None:
    """An error ends one preparation, and so does a wait that is too long."""
    waiting = WaitingWork(clock)
    waiting.add(1, Wait.PREPARATION, clock.work("a", 1, ValueError("no letter")), "", 0.1)
    waiting.add(2, Wait.PREPARATION, clock.work("b", 1), "", 0.1)
    waiting.add(3, Wait.PREPARATION, clock.work("c", 10**6), "", 0.1)
    ended = dict(ends(waiting))
    assert str(ended[1]) == "no letter"
    assert ended[2] is None
    assert isinstance(ended[3], NotNow)
    assert len(clock.parts) * PART_S < PREPARATION_LIMIT_S + 2 * SLICE_S


def test_dropped_and_hurried(clock: Clock) -> None:
    """A stream that is gone costs no more work; one that cannot wait is prepared before the others."""
    waiting = WaitingWork(clock)
    for stream in (1, 2, 3):
        waiting.add(stream, Wait.PREPARATION, clock.work(str(stream), 8), "", 0.1)
    waiting.drop(1)
    waiting.finish(3)
    assert clock.parts == ["3"] * 8
    assert list(ends(waiting)) == [(2, None)]
    assert len(clock.parts) == 16
    waiting.drop(1)
    waiting.finish(1)
