"""Measuring the number of sessions with a real Triton."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from streamer.bridge.triton.server import TritonServer
from streamer.bridge.upstreams import capacity
from streamer.bridge.upstreams.capacity import SHARE, STEP_S, WHOLE_SHARE, Capacity, Level, measure
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


async def test_it_is_found(pool: UpstreamPool, triton: TritonServer) -> None:
    """More and more sessions are tried, up to their share of the time; so many need less, also with second passes."""
    asked, executed = await figures(triton)
    found = await measure(pool, pcm("quilter.ogg"))
    asked_after, executed_after = await figures(triton)
    assert 1 <= found.sessions <= pool.most
    assert found.sessions == 1 or found.step_s <= SHARE * STEP_S
    assert found.sessions == 1 or found.whole_s <= WHOLE_SHARE * STEP_S
    # Fewer sessions may have taken longer: other work on the machine makes a level slower, and no level faster.
    assert found.step_s >= min(level.step_s for level in found.levels)
    assert found.limited == (found.sessions == pool.most)
    assert all(level.quantile(0.5) <= level.quantile(0.99) for level in found.levels)
    if found.levels[-1].sessions > 1:  # they are computed together
        assert executed_after - executed < asked_after - asked


async def figures(triton: TritonServer) -> tuple[float, float]:
    """Return the numbers of requests and of batches that Triton has computed."""
    names = "nv_inference_request_success", "nv_inference_exec_count"
    asked, executed = [await asyncio.to_thread(metric, triton, name) for name in names]
    return asked, executed


@pytest.mark.usefixtures("brief")
async def test_a_smaller_share_carries_fewer(pool: UpstreamPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A smaller share means fewer sessions, but at least one."""
    monkeypatch.setattr(capacity, "SHARE", 0.00001)
    found = await measure(pool, pcm("quilter.ogg"))
    assert (found.sessions, [level.sessions for level in found.levels]) == (1, [1])
    assert not found.limited
    monkeypatch.setattr(capacity, "SHARE", 1000.0)
    monkeypatch.setattr(capacity, "WHOLE_SHARE", 1000.0)
    found = await measure(pool, pcm("quilter.ogg"))
    assert found.sessions == pool.most
    assert found.limited


@pytest.mark.usefixtures("brief")
async def test_second_passes_may_take_a_share_as_well(pool: UpstreamPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """If second passes take more than their share, there are fewer sessions than steps alone would allow."""
    monkeypatch.setattr(capacity, "SHARE", 1000.0)
    monkeypatch.setattr(capacity, "WHOLE_SHARE", 0.00001)
    found = await measure(pool, pcm("quilter.ogg"))
    assert found.sessions == 1 < found.levels[-1].sessions
    assert not found.limited


def test_a_step_of_any_number_is_estimated() -> None:
    """The time of a step is estimated in proportion between two measured numbers, and beyond them as at the nearest."""
    levels = [Level(4, 0.04, [0.04]), Level(8, 0.06, [0.06])]
    found = [Capacity(sessions, levels, 0.01) for sessions in (1, 4, 6, 8)]
    assert [each.step_s for each in found] == pytest.approx([0.04, 0.04, 0.05, 0.06])
    assert [each.whole_s for each in found] == pytest.approx([0.05, 0.08, 0.11, 0.14])


async def test_it_ends_in_time(pool: UpstreamPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the time limit, no further number is measured."""
    monkeypatch.setattr(capacity, "LEVEL_S", 0.2)
    monkeypatch.setattr(capacity, "LIMIT_S", 0.0)
    monkeypatch.setattr(capacity, "SHARE", 1000.0)
    assert (await measure(pool, pcm("quilter.ogg"))).sessions == 1
