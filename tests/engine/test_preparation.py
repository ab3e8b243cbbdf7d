"""The preparation of streams, with work that takes a known time: slices, turns and limits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamer.engine.preparation import PREPARATION_LIMIT_S, SLICE_S, Preparations
from streamer.engine.work import NotNow, Work

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


def ends(preparations: Preparations) -> Iterator[tuple[int, Exception | None]]:
    """Return the streams whose preparation ended, in order."""
    while preparations:
        yield from preparations.advance()


def test_a_slice_is_short(clock: Clock) -> None:
    """A slice does as many parts as fit into its time, however much there is to do."""
    preparations = Preparations(clock)
    preparations.add(1, clock.work("a", 1000), "anna", 1.0)
    for number in range(1, 200):
        assert preparations.advance() == []
        assert len(clock.parts) == 4 * number
    assert list(ends(preparations)) == [(1, None)]
    assert 1 not in preparations


def test_short_lists_go_first(clock: Clock) -> None:
    """A caller's short list is prepared before the long lists of others, which follow one after another."""
    preparations = Preparations(clock)
    for stream, caller in enumerate(("anna", "anna", "ben", "cleo")):
        preparations.add(stream, clock.work(f"{stream}", 40), caller, 40 * PART_S)
    preparations.advance()
    preparations.add(9, clock.work("short", 6), "dora", 6 * PART_S)
    assert [stream for stream, _ in ends(preparations)] == [9, 0, 2, 3, 1]
    assert clock.parts == ["0"] * 4 + ["short"] * 6 + ["0"] * 36 + ["2"] * 40 + ["3"] * 40 + ["1"] * 40


def test_who_comes_again_waits_for_those_who_have_had_less(clock: Clock) -> None:
    """However often one caller asks, another caller gets its share."""
    preparations = Preparations(clock)
    preparations.add(0, clock.work("anna", 200), "anna", 200 * PART_S)
    for stream in range(1, 100):
        preparations.add(stream, clock.work("mallory", 20), "mallory", 20 * PART_S)
    done = [stream for stream, _ in ends(preparations)]
    assert done.index(0) <= 10


def test_what_cannot_be_prepared(clock: Clock) -> None:
    """An error ends one preparation, and so does a wait that is too long."""
    preparations = Preparations(clock)
    preparations.add(1, clock.work("a", 1, ValueError("no letter")), "", 0.1)
    preparations.add(2, clock.work("b", 1), "", 0.1)
    preparations.add(3, clock.work("c", 10**6), "", 0.1)
    ended = dict(ends(preparations))
    assert str(ended[1]) == "no letter"
    assert ended[2] is None
    assert isinstance(ended[3], NotNow)
    assert len(clock.parts) * PART_S < PREPARATION_LIMIT_S + 2 * SLICE_S


def test_dropped_and_hurried(clock: Clock) -> None:
    """A stream that is gone costs no more work; one that cannot wait is prepared before the others."""
    preparations = Preparations(clock)
    for stream in (1, 2, 3):
        preparations.add(stream, clock.work(str(stream), 8), "", 0.1)
    preparations.drop(1)
    preparations.finish(3)
    assert clock.parts == ["3"] * 8
    assert list(ends(preparations)) == [(2, None)]
    assert len(clock.parts) == 16
    preparations.drop(1)
    preparations.finish(1)
