"""The measurement of costly sessions at a real service, and its report."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest

from streamer.bridge.access.proxies import Proxies
from streamer.bridge.access.rules import AccessRules, PortPolicy
from streamer.bridge.service import Service
from streamer.bridge.triton.server import TritonServer
from tests.samples import pcm
from tests.triton_processes import no_streams
from workshop.load import costly_sessions
from workshop.load.costly_sessions import LagWatch, Period, open_sessions, period


async def test_two_beside_four_with_hotwords(triton: TritonServer) -> None:
    """Two sessions end normally beside four clients that ask for hotwords again and again, and get them."""
    policy = PortPolicy(AccessRules(proxies=Proxies(number=1)))
    async with Service(triton.grpc_address, port=0, policy=policy) as service:
        counts = {"number": 2, "attackers": 4, "seconds": 10.0, "rounds": 1}
        result = await costly_sessions.run(service.url, pcm("talk.flac"), attacks=["hotwords"], **counts)  # type: ignore[arg-type]
    await no_streams(triton)
    assert result.ended == Counter(done=2)
    assert result.answers["hotwords"]["ready"] > 0
    assert set(result.answers["hotwords"]) <= {"ready", "hotwords_used_up"}
    assert "later beside hotwords: p50 " in costly_sessions.report(result)


def result(**changes: object) -> costly_sessions.Observations:
    """Return the result of a run in which all was well, except for these figures."""
    well = costly_sessions.Observations(
        alone=[Period(2, [0.1] * 100, 0.3)],
        beside={"flushes": [Period(2, [0.3] * 100, 0.4)]},
        answers={"flushes": Counter(ready=8)},
        ended=Counter(done=2),
    )
    for name, value in changes.items():
        setattr(well, name, value)
    return well


def test_all_is_well() -> None:
    """There is no complaint, and the report has the additional delay."""
    assert list(costly_sessions.failures(result())) == []
    assert "p50 +0.200 s, p95 +0.200 s" in costly_sessions.report(result())


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"ended": Counter(done=1, failed=1)}, "1 of the sessions ended too early"),
        ({"answers": {"flushes": Counter()}}, "no attempt at flushes was answered"),
        ({"beside": {"flushes": [Period(2, [0.1] * 9 + [0.5], 0.3)]}}, "0.40 s later beside flushes (p95)"),
        ({"beside": {"flushes": [Period(2, [], 0.3)]}}, "later beside flushes (p95)"),
    ],
)
def test_complaints(changes: dict[str, object], complaint: str) -> None:
    """The complaint names each bound that does not hold."""
    assert any(complaint in line for line in costly_sessions.failures(result(**changes)))


# Live sessions at a real service, and how late their partials are.


async def test_two_sessions(triton: TritonServer) -> None:
    """The sessions run until they are ended, and then end in order."""
    async with Service(triton.grpc_address, port=0) as service:
        since = time.monotonic()
        sessions = await open_sessions(service.url, pcm("talk.flac"), 2, 0.5)
        lag = LagWatch(service.url)
        watching = asyncio.create_task(lag.watch())
        await asyncio.sleep(3.0)  # as much speech; the words may come later
        watching.cancel()
        await asyncio.gather(*(session.end() for session in sessions))
    assert [session.ended for session in sessions] == ["done", "done"]
    seen = period(sessions, lag, since, time.monotonic())
    assert seen.sessions == 2
    assert seen.quantile(0.5) > 0


async def test_refused(triton: TritonServer) -> None:
    """A service that admits fewer sessions is an error, and is not measured with fewer."""
    async with Service(triton.grpc_address, port=0, sessions=1) as service:
        with pytest.raises(ConnectionError, match="was refused: full"):
            await open_sessions(service.url, pcm("talk.flac"), 2, 1.0)
