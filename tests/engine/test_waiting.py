"""The work for which streams wait: slices, turns and limits."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from streamer.engine.waiting import (
    LIMITS_S,
    LONGEST_WAIT_S,
    LOOK_AGAIN_S,
    MOST_CREDIT_S,
    PREPARATION_LIMIT_S,
    SECOND_PASS_LIMIT_S,
    SLICE_S,
    NotNow,
    OutsideWork,
    Shares,
    Wait,
    WaitingWork,
    Work,
)
from tests.project import ROOT

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
    waiting.advance(None)
    assert clock.parts == ["a"] * 8 + ["b"] * 16 + ["a"] * 4
    assert [waiting.find(stream) for stream in (1, 2, 3)] == [Wait.PREPARATION, Wait.SECOND_PASS, None]


def test_second_passes_give_way_to_their_fallback(clock: Clock) -> None:
    """A second pass that is not done in time is given up, and its fallback is called.

    One that has not begun is given up as soon as there is less time than it takes.
    """
    waiting, fallen, began = WaitingWork(clock), list[str](), clock.now
    long = 2 * int(SECOND_PASS_LIMIT_S / PART_S)
    for stream, name in ((1, "begun"), (2, "waiting")):
        waiting.add(stream, Wait.SECOND_PASS, clock.work(name, long), "", 0.1, lambda name=name: fallen.append(name))  # type: ignore[misc]
    ended: list[tuple[int, float]] = []
    while waiting:
        ended += [(stream, clock.now - began) for stream, _ in waiting.advance()]
    assert ended == [
        (2, pytest.approx(SECOND_PASS_LIMIT_S - 0.1, abs=2 * SLICE_S)),
        (1, pytest.approx(SECOND_PASS_LIMIT_S, abs=2 * SLICE_S)),
    ]
    assert fallen == ["waiting", "begun"]
    assert "waiting" not in clock.parts


def test_a_fallback_may_fail(clock: Clock) -> None:
    """The error of a fallback ends its stream alone."""

    def fail() -> None:
        raise ValueError("no words")

    waiting = WaitingWork(clock)
    waiting.add(1, Wait.SECOND_PASS, clock.work("a", 10), "", 0.1, fail)
    waiting.add(2, Wait.SECOND_PASS, clock.work("b", 10), "", 0.1, lambda: None)
    clock.now += SECOND_PASS_LIMIT_S + 1
    [(first, error), second] = waiting.advance()
    assert (first, str(error), second) == (1, "no words", (2, None))


def test_who_was_given_up_does_not_pay(clock: Clock) -> None:
    """A caller whose work was given up is not served later because of that."""
    waiting = WaitingWork(clock)
    for stream in range(10):
        waiting.add(stream, Wait.SECOND_PASS, clock.work("anna", 10**6), "anna", 1.0, lambda: None)
    waiting.add(20, Wait.PREPARATION, clock.work("ben", 10**6), "ben", 1000.0)
    clock.now += SECOND_PASS_LIMIT_S + 1
    assert len(waiting.advance()) == 10
    waiting.add(30, Wait.SECOND_PASS, clock.work("cleo", 4), "cleo", 0.9)
    waiting.add(31, Wait.SECOND_PASS, clock.work("anna", 4), "anna", 0.5)
    assert [stream for _ in range(3) for stream, _ in waiting.advance()] == [31, 30]


def test_who_has_used_less_time_elsewhere_comes_first(clock: Clock) -> None:
    """The time of steps counts. So the second passes of a caller that lets the machine compute much are done last."""
    shares = Shares()
    shares.charge("mallory", 10.0)
    waiting = WaitingWork(clock, shares)
    for stream in range(5):
        waiting.add(stream, Wait.SECOND_PASS, clock.work("mallory", 4), "mallory", 4 * PART_S)
    assert waiting.next_second_pass == "mallory"
    waiting.add(5, Wait.SECOND_PASS, clock.work("anna", 40), "anna", 40 * PART_S)
    assert waiting.next_second_pass == "anna"
    assert [stream for stream, _ in ends(waiting)] == [5, 0, 1, 2, 3, 4]
    assert waiting.next_second_pass is None
    assert shares.used_s("anna") == pytest.approx(10.0 - MOST_CREDIT_S + 40 * PART_S, abs=PART_S)
    assert shares.used_s("mallory") == pytest.approx(10.0 + 20 * PART_S)


def test_time_elsewhere_is_charged(clock: Clock) -> None:
    """Whoever lets another model compute has used its time."""
    shares, elsewhere = Shares(), Reader()
    waiting = WaitingWork(clock, shares)
    waiting.add(1, Wait.SECOND_PASS, awaiting(clock, elsewhere), "anna", 0.1)
    waiting.advance()
    assert shares.used_s("anna") == pytest.approx(PART_S)
    elsewhere.done = True
    assert waiting.advance() == [(1, None)]
    assert shares.used_s("anna") == pytest.approx(2 * PART_S + Reader.used_s)


def test_shares() -> None:
    """Whoever has used the least is ahead of others by what it did not use, up to a limit."""
    shares = Shares()
    shares.charge("anna", 0.2)
    shares.charge("mallory", 1.0)
    shares.compare(["anna", "mallory"])
    assert [shares.used_s(caller) for caller in ("anna", "mallory", "ben")] == [0.2, 1.0, 0.0]
    shares.compare(["mallory"])  # the others have nothing to do
    behind_s = 1.0 - MOST_CREDIT_S
    assert [shares.used_s(caller) for caller in ("anna", "mallory", "ben")] == [behind_s, 1.0, behind_s]
    shares.compare([])
    shares.compare(["anna"])  # nobody loses because another one was away
    assert shares.used_s("mallory") == 1.0
    shares.charge("anna", 0.1)
    assert shares.used_s("anna") == pytest.approx(behind_s + 0.1)


def test_nobody_waits_until_triton_drops_the_sequence() -> None:
    """No limit is as long as the time for which Triton keeps a sequence that gets no request."""
    config = (ROOT / "asr_repo" / "streaming_asr" / "config.pbtxt").read_text(encoding="utf-8")
    kept = re.search(r"max_sequence_idle_microseconds: (\d+)", config)
    assert kept is not None
    assert max(*LIMITS_S.values(), LONGEST_WAIT_S) + 2 < int(kept[1]) / 1e6


@pytest.mark.parametrize(("ahead_s", "limit_s"), [(-1.0, 3.0), (0.0, 3.0), (5.0, 8.0), (60.0, LONGEST_WAIT_S)])
def test_what_comes_faster_than_it_was_spoken_may_wait_longer(clock: Clock, ahead_s: float, limit_s: float) -> None:
    """A segment that nobody could have heard yet has more time, up to a limit."""
    waiting, fallen = WaitingWork(clock), list[int]()
    work = awaiting(clock, Elsewhere())
    waiting.add(1, Wait.SECOND_PASS, work, "", 0.001, lambda: fallen.append(1), ahead_s)
    clock.now += limit_s - 0.01
    assert waiting.advance() == []
    clock.now += 0.02
    assert waiting.advance() == [(1, None)]
    assert fallen == [1]


class Elsewhere:
    """Something outside, which work awaits."""

    def __init__(self) -> None:
        self.done = False
        self.looks = 0

    def ready(self) -> bool:
        self.looks += 1
        return self.done


class Reader(Elsewhere):
    """Another model that computes on this machine."""

    used_s = 0.7


def awaiting(clock: Clock, elsewhere: Elsewhere) -> OutsideWork[None]:
    """Return work of two parts. Between them it waits for something outside."""
    yield from clock.work("before", 1)
    yield elsewhere
    yield from clock.work("after", 1)


def test_work_may_wait_for_something_outside(clock: Clock) -> None:
    """Work that waits for something outside gets no time until that is ready; other work goes on meanwhile."""
    waiting, elsewhere = WaitingWork(clock), Elsewhere()
    assert waiting.pause_s is None
    waiting.add(1, Wait.SECOND_PASS, awaiting(clock, elsewhere), "anna", 0.1)
    waiting.add(2, Wait.SECOND_PASS, clock.work("other", 8), "anna", 0.1)
    assert waiting.pause_s == 0
    assert list(waiting.advance()) == []
    assert [done for _ in range(3) for done in waiting.advance()] == [(2, None)]
    assert clock.parts == ["before"] + ["other"] * 8
    assert waiting.pause_s == LOOK_AGAIN_S
    now, looks = clock.now, elsewhere.looks
    assert waiting.advance() == []
    assert (clock.now, clock.parts[-1]) == (now, "other")
    assert elsewhere.looks <= looks + 3
    elsewhere.done = True
    assert waiting.pause_s == 0
    assert waiting.advance() == [(1, None)]
    assert clock.parts[-1] == "after"
    assert waiting.pause_s is None


def test_nothing_outside_is_awaited_for_ever(clock: Clock) -> None:
    """After the limit, the fallback takes the place of what never becomes ready. Nobody looks later than then."""
    waiting, fallen = WaitingWork(clock), list[int]()
    waiting.add(1, Wait.SECOND_PASS, awaiting(clock, Elsewhere()), "", 0.1, lambda: fallen.append(1))
    waiting.advance()
    clock.now += SECOND_PASS_LIMIT_S - 0.001 - PART_S
    assert waiting.advance() == []
    assert waiting.pause_s == pytest.approx(0.001)
    clock.now += 0.0011
    assert waiting.pause_s == 0
    assert waiting.advance() == [(1, None)]
    assert fallen == [1]


def test_who_cannot_wait_does_without_what_is_outside(clock: Clock) -> None:
    """A stream that cannot wait gets its fallback, unless what its work awaits is ready; without one, it fails."""
    waiting, elsewhere, fallen = WaitingWork(clock), Elsewhere(), list[int]()
    for stream in (1, 2):
        waiting.add(stream, Wait.SECOND_PASS, awaiting(clock, elsewhere), "", 0.1, lambda: fallen.append(1))
    waiting.add(3, Wait.SECOND_PASS, awaiting(clock, elsewhere), "", 0.1)
    waiting.finish(1)
    with pytest.raises(NotNow):
        waiting.finish(3)
    elsewhere.done = True
    waiting.finish(2)
    assert fallen == [1]
    assert clock.parts == ["before", "before", "before", "after"]
    assert len(waiting) == 0


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
