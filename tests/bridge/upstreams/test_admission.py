"""The admission of sessions to slots."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from streamer.bridge.telemetry.metrics import Metrics
from streamer.bridge.upstreams.admission import Admission, Refused
from streamer.bridge.upstreams.models import Models
from streamer.bridge.upstreams.reservation import Reservation
from streamer.testing.faulty_proxy import FaultyProxy
from streamer.triton.link import ConnectionLost, LinkError
from streamer.triton.server import TritonServer
from tests.bridge.upstreams.opened_models import opened


@asynccontextmanager
async def opened_twice(triton: TritonServer) -> AsyncIterator[tuple[Models, str, Callable[[], Awaitable[None]]]]:
    """Open one Triton under two names; provide one of the names, and a function that makes that one go away."""
    way = FaultyProxy(lambda: triton.grpc_address)
    await way.open()

    async with opened(triton.grpc_address, way.address) as models:

        async def part() -> None:
            await way.close()
            for _ in range(6000):
                if models.tritons_ready == 1:
                    return
                await asyncio.sleep(0.01)
            raise AssertionError("it is still there")

        yield models, way.address, part


async def moved(reservation: Reservation) -> None:
    """Check that a stream whose upstream is lost before it began goes on elsewhere."""
    with pytest.raises(ConnectionLost):
        await reservation.begin({})
    await reservation.begin({})


async def test_at_most(triton: TritonServer) -> None:
    """Only a limited number of slots is given out, until one is given back."""
    metrics = Metrics()
    admission = Admission(metrics)
    async with opened(triton.grpc_address) as models:
        admission.open(models, 2)
        first, second = admission.take({}), admission.take({})
        assert first[0] is not second[0]
        with pytest.raises(Refused, match="All 2 sessions are taken") as refused:
            admission.take({})
        assert refused.value.code == "full"
        assert b"streamer_sessions 2.0" in metrics.exposition()
        admission.give_back(first)
        admission.take({})
        assert admission.in_use == 2


async def test_all_or_none(triton: TritonServer) -> None:
    """A session of several channels gets a slot for each, or none: it never waits with half of them."""
    metrics = Metrics()
    admission = Admission(metrics)
    async with opened(triton.grpc_address) as models:
        admission.open(models, 3)
        both = admission.take({}, 2)
        assert len(set(both)) == 2
        assert (admission.in_use, admission.sessions) == (2, 1)
        with pytest.raises(Refused, match="2 channels need 2 sessions, but only 1 of 3 are free") as refused:
            admission.take({}, 2)
        assert refused.value.code == "full"
        admission.take({})
        assert b"streamer_sequences 3.0" in metrics.exposition()
        assert b"streamer_sessions 2.0" in metrics.exposition()
        admission.give_back(both)
        assert (admission.in_use, admission.sessions) == (1, 1)


async def test_when_there_is_none(triton: TritonServer) -> None:
    """There are no slots before the recogniser is ready, after its links have ended, and after the close."""
    admission = Admission(Metrics())
    with pytest.raises(Refused, match="not ready"):
        admission.take({})
    async with opened(triton.grpc_address) as models:
        admission.open(models, 2)
        assert admission.ready
    assert not admission.ready
    with pytest.raises(Refused, match="not ready"):
        admission.take({})
    admission.close()
    with pytest.raises(Refused, match="shutting down"):
        admission.take({})
    assert admission.in_use == 0


async def test_replaced(triton: TritonServer) -> None:
    """A stream whose sequence failed gets another slot, which counts for the same session, if an upstream is well."""
    admission = Admission(Metrics())
    async with opened(triton.grpc_address) as models:
        admission.open(models, 2)
        [lost] = admission.take({})
        admission.close()
        await lost.begin({})
        await lost.begin({"speaking": True})
        assert (admission.in_use, admission.sessions) == (1, 1)
        assert models.default.held == {"streaming_asr": 1}
        admission.give_back([lost])
        assert admission.in_use == 0
    with pytest.raises(LinkError, match="no recogniser is ready"):
        await lost.begin({})


async def test_those_who_lost_their_place_come_first(triton: TritonServer) -> None:
    """When a Triton goes away, admitted sessions get the slots that are left before new sessions do."""
    admission = Admission(Metrics())
    async with opened_twice(triton) as (models, parting, part):
        admission.open(models)
        each = admission.most // 2
        sessions = [admission.take({}) for _ in range(each + 10)]
        lost = [session for session in sessions if session[0].upstream.name == parting]
        await part()
        assert models.default.free == each - (len(sessions) - len(lost))
        with pytest.raises(Refused, match="taken"):
            admission.take({})
        for session in lost[:10]:
            admission.give_back(session)
        with pytest.raises(Refused, match="taken"):
            admission.take({})
        for [reservation] in lost[10:]:
            await moved(reservation)
        assert models.default.free == 0
        admission.give_back(sessions[-1])
        assert len(admission.take({})) == 1


async def test_what_was_found_to_be_carried(triton: TritonServer) -> None:
    """The measured number belongs to the Tritons of then: while one of two is away, half of it applies."""
    admission = Admission(Metrics())
    async with opened_twice(triton) as (models, parting, part):
        admission.open(models, capacity=6)
        assert admission.most == 6
        sessions = [admission.take({}) for _ in range(4)]
        await part()
        # The four that were admitted go on, with slots for three.
        with pytest.raises(Refused, match="taken"):
            admission.take({})
        for session in sessions:
            if session[0].upstream.name == parting:
                await moved(session[0])
        admission.give_back(sessions.pop())
        with pytest.raises(Refused, match="taken"):
            admission.take({})
        admission.give_back(sessions.pop())
        admission.take({})
