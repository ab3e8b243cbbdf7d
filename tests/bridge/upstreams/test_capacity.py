"""Guessing the number of sessions with a real Triton."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from streamer.bridge.triton.server import TritonServer
from streamer.bridge.upstreams import capacity
from streamer.bridge.upstreams.capacity import Guess, Level, guess
from streamer.bridge.upstreams.pool import UpstreamPool
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


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure each number of sessions by one step of each, without a limit for the number of measurements."""
    monkeypatch.setattr(capacity, "LEVEL_S", 0.0)
    monkeypatch.setattr(capacity, "FEWEST_ROUNDS", 1)
    monkeypatch.setattr(capacity, "LIMIT_S", 100.0)


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
