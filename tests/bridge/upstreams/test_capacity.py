"""Measuring the number of sessions with a real Triton."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest

from streamer.bridge.upstreams import capacity
from streamer.bridge.upstreams.capacity import LEVEL_S, LIMIT_S, SHARE, STEP_S, Level, measure
from streamer.bridge.upstreams.pool import UpstreamPool
from streamer.triton.server import TritonServer
from tests.bridge.upstreams.opened_models import opened
from tests.samples import pcm
from tests.triton_processes import no_streams


@pytest.fixture
async def pool(triton: TritonServer) -> AsyncIterator[UpstreamPool]:
    """Provide the shared Triton, and check that none of its slots is held afterwards."""
    async with opened(triton.grpc_address) as models:
        yield models.default
        assert models.default.free == models.default.most
    await no_streams(triton)


async def test_it_is_found(pool: UpstreamPool) -> None:
    """More and more sessions are tried, up to their share of the time; the result was tried and needed less."""
    told: list[Level] = []
    began = time.monotonic()
    found = await measure(pool, pcm("quilter.ogg"), told.append)
    assert time.monotonic() - began < LIMIT_S + 10 * LEVEL_S
    assert sorted(level.sessions for level in told) == [level.sessions for level in found.levels]
    by_number = {level.sessions: level for level in found.levels}
    assert 1 <= found.sessions <= pool.most
    assert found.sessions == 1 or by_number[found.sessions].step_s == found.step_s <= SHARE * STEP_S
    assert found.limited == (found.sessions == pool.most)
    assert all(level.quantile(0.5) <= level.quantile(0.99) for level in found.levels)
    first, last = found.levels[0], found.levels[-1]
    if last.sessions >= 8:  # otherwise the machine is too busy for this check
        # A batch costs less than the sum of its parts, but not nothing.
        assert first.step_s < last.step_s < first.step_s * last.sessions


async def test_a_smaller_share_carries_fewer(pool: UpstreamPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number follows from the share, and is at least one."""
    monkeypatch.setattr(capacity, "LEVEL_S", 0.2)
    monkeypatch.setattr(capacity, "SHARE", 0.001)
    found = await measure(pool, pcm("quilter.ogg"))
    assert (found.sessions, [level.sessions for level in found.levels]) == (1, [1])
    assert not found.limited
    monkeypatch.setattr(capacity, "SHARE", 1000.0)
    found = await measure(pool, pcm("quilter.ogg"))
    assert found.sessions == pool.most
    assert found.limited


async def test_it_ends_in_time(pool: UpstreamPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the limit no further number is tried."""
    monkeypatch.setattr(capacity, "LEVEL_S", 0.2)
    monkeypatch.setattr(capacity, "LIMIT_S", 0.0)
    monkeypatch.setattr(capacity, "SHARE", 1000.0)
    assert (await measure(pool, pcm("quilter.ogg"))).sessions == 1
