"""Measuring the number of sessions with a real Triton."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from streamer.bridge.triton.server import TritonServer
from streamer.bridge.upstreams import capacity
from streamer.bridge.upstreams.capacity import (
    STEP_S,
    Guess,
    Level,
    PacedLevel,
    PacedTest,
    guess,
    measure,
    search,
)
from streamer.bridge.upstreams.pool import UpstreamPool
from tests.bridge.upstreams.opened_models import opened
from tests.samples import pcm
from tests.triton_processes import metric, no_streams


@pytest.fixture
async def pool(triton: TritonServer) -> AsyncIterator[UpstreamPool]:
    """Provide the shared Triton, and check that none of its slots is held afterwards."""
    async with opened(triton.grpc_address) as models:
        yield models.default
        assert models.default.free == models.default.most
    await no_streams(triton)


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure each number of sessions by one step of each, without a limit for the number of measurements."""
    monkeypatch.setattr(capacity, "LEVEL_S", 0.0)
    monkeypatch.setattr(capacity, "FEWEST_ROUNDS", 1)
    monkeypatch.setattr(capacity, "LIMIT_S", 100.0)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions speak one segment of two steps at the pace of speech, and all of it is measured."""
    monkeypatch.setattr(capacity, "STEPS", 2)
    monkeypatch.setattr(capacity, "PACED_S", 2 * STEP_S)
    monkeypatch.setattr(capacity, "SETTLE_S", 0.0)


@pytest.mark.usefixtures("brief", "soon")
async def test_it_is_found(pool: UpstreamPool, triton: TritonServer) -> None:
    """Sessions are tried without a pause, and then at the pace of speech; the most in time are admitted."""
    asked, executed = await figures(triton)
    found = await measure(pool, pcm("quilter.ogg"))
    asked_after, executed_after = await figures(triton)
    in_time = max((level.sessions for level in found.paced if level.in_time), default=0)
    assert 1 <= found.sessions <= pool.most
    assert found.sessions == in_time or not in_time
    assert found.limited == (in_time == pool.most)
    assert all(level.step_s > 0 for level in found.paced)
    assert any(level.end_s > 0 for level in found.paced)
    assert executed_after - executed <= asked_after - asked
    assert "at the pace of speech, all with second passes" in found.reason


@pytest.mark.parametrize(
    ("carried", "guess", "tried", "in_time"),
    [
        (50, 40, [40, 46, 53], 46),  # upwards until one is late
        (30, 40, [40, 35, 30], 30),  # downwards until one is in time
        (1000, 90, [90, 100], 100),  # no more than there are slots
        (0, 3, [3, 2, 1], 0),
    ],
)
async def test_the_search(
    carried: int, guess: int, tried: list[int], in_time: int, pool: UpstreamPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends when one number is in time and the next larger one that was tried is not, or there is no other."""

    async def level(_: object, sessions: int) -> PacedLevel:
        return PacedLevel(sessions, 0.1, 0.4 if sessions <= carried else 0.6)

    monkeypatch.setattr(PacedTest, "level", level)
    levels = await search(PacedTest(pool, b""), guess, 100)
    assert [each.sessions for each in levels] == tried
    assert max((each.sessions for each in levels if each.in_time), default=0) == in_time


@pytest.mark.parametrize(
    ("carried", "sessions", "limited"), [(40, 40, False), (1000, 50, True), (0, 1, False), (1, 1, False)]
)
async def test_what_is_admitted(
    carried: int, sessions: int, limited: bool, pool: UpstreamPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All sessions that were in time, all slots if these were the limit, and at least one session."""

    async def search(*_: object) -> list[PacedLevel]:
        return [PacedLevel(number, 0.1, 0.4 if number <= carried else 0.6) for number in {min(50, carried or 1), 50}]

    async def guess(*_: object) -> int:
        return 50

    monkeypatch.setattr(capacity, "search", search)
    monkeypatch.setattr(capacity, "guess", guess)
    monkeypatch.setattr(UpstreamPool, "free", 50)
    found = await measure(pool, b"")
    assert (found.sessions, found.limited) == (sessions, limited)
    monkeypatch.undo()


@pytest.mark.usefixtures("soon")
async def test_late_answers_are_counted_from_the_end_of_the_audio(pool: UpstreamPool) -> None:
    """A session that falls behind sends all that was spoken meanwhile, and each step of it is late."""
    begun = PacedTest(pool, pcm("quilter.ogg"))
    [reservation] = capacity._reserve(pool, {}, 1)
    try:
        await reservation.begin({})
        steps, ends = list[float](), list[float]()
        await begun._speak(0, reservation, asyncio.get_running_loop().time() - 10.0, steps, ends)
    finally:
        reservation.release()
    assert len(steps) == 2
    assert steps[0] - steps[1] == pytest.approx(STEP_S)
    assert ends
    assert min(steps) > 9.0


async def figures(triton: TritonServer) -> tuple[float, float]:
    """Return the numbers of requests and of batches that Triton has computed."""
    names = "nv_inference_request_success", "nv_inference_exec_count"
    asked, executed = [await asyncio.to_thread(metric, triton, name) for name in names]
    return asked, executed


@pytest.mark.usefixtures("brief")
async def test_a_smaller_share_carries_fewer(pool: UpstreamPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A smaller share means a smaller guess, but at least one."""
    monkeypatch.setattr(capacity, "SHARE", 0.00001)
    assert await guess(pool, pcm("quilter.ogg")) == 1
    monkeypatch.setattr(capacity, "SHARE", 1000.0)
    monkeypatch.setattr(capacity, "WHOLE_SHARE", 1000.0)
    assert await guess(pool, pcm("quilter.ogg")) == pool.most


@pytest.mark.usefixtures("brief")
async def test_second_passes_may_take_a_share_as_well(pool: UpstreamPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """If second passes take more than their share, the guess is smaller than steps alone would allow."""
    monkeypatch.setattr(capacity, "SHARE", 1000.0)
    monkeypatch.setattr(capacity, "WHOLE_SHARE", 0.00001)
    assert await guess(pool, pcm("quilter.ogg")) == 1


def test_a_step_of_any_number_is_estimated() -> None:
    """The time of a step is estimated in proportion between two measured numbers, and beyond them as at the nearest."""
    levels = [Level(4, 0.04), Level(8, 0.06)]
    found = [Guess(sessions, levels, 0.01) for sessions in (1, 4, 6, 8)]
    assert [each.step_s for each in found] == pytest.approx([0.04, 0.04, 0.05, 0.06])
    assert [each.whole_s for each in found] == pytest.approx([0.05, 0.08, 0.11, 0.14])


async def test_it_ends_in_time(pool: UpstreamPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the time limit, no further number is tried for the guess."""
    monkeypatch.setattr(capacity, "LEVEL_S", 0.2)
    monkeypatch.setattr(capacity, "LIMIT_S", 0.0)
    monkeypatch.setattr(capacity, "SHARE", 1000.0)
    assert await guess(pool, pcm("quilter.ogg")) == 1
