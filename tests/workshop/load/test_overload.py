"""The measurement of overload at a real service that admits two sessions, and its report."""

from __future__ import annotations

from collections import Counter

import pytest

from streamer.bridge.service import Service
from streamer.bridge.triton.server import TritonServer
from tests.samples import pcm
from tests.triton_processes import no_streams
from workshop.load import overload
from workshop.load.live_sessions import Period


async def test_two_of_six(triton: TritonServer) -> None:
    """Two sessions end normally; other clients are refused each time they were told to try again; nobody is late."""
    async with Service(triton.grpc_address, port=0, sessions=2) as service:
        result = await overload.run(service.url, pcm("talk.flac"), number=2, times=3.0, seconds=8, rounds=1)
        assert b'streamer_refusals_total{reason="full"}' in service.metrics.exposition()
    await no_streams(triton)
    assert (result.let_in, result.without_retry) == (0, 0)
    assert result.ended == Counter(done=2)
    # Each of the four at once, and at most once more: after the five seconds that it was told.
    assert set(result.refused) == {"full"}
    assert 4 < result.refused["full"] <= result.attempts <= 8
    for period in (*result.alone, *result.beside):
        assert period.sessions == 2
        assert len(period.delays_s) > 5
        assert 0 < period.quantile(0.5) <= period.quantile(0.95)
    assert [line.split("|")[1].strip() for line in overload.report(result).splitlines()[2:4]] == [
        "alone",
        "beside the refused",
    ]


def result(**changes: object) -> overload.Observations:
    """Return the result of a run in which all was well, except for these figures."""
    well = overload.Observations(
        alone=[Period(2, [0.1] * 100, 0.3)],
        beside=[Period(2, [0.12] * 100, 0.4)],
        attempts=8,
        refused=Counter(full=8),
        ended=Counter(done=2),
    )
    for name, value in changes.items():
        setattr(well, name, value)
    return well


def test_all_is_well() -> None:
    """There is no complaint, and the report has the ratio."""
    assert list(overload.failures(result())) == []
    assert "p50 1.20, p95 1.20" in overload.report(result())


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"ended": Counter(done=1, too_fast=1)}, "1 of the accepted sessions ended too early"),
        ({"let_in": 1}, "1 session got in beyond the limit"),
        ({"refused": Counter(full=7, internal=1)}, "other answers than the refusal"),
        ({"refused": Counter()}, "other answers than the refusal"),
        ({"without_retry": 2}, "2 refusals did not say when"),
        ({"beside": [Period(2, [0.1], 9.0)]}, "9.0 s behind"),
        ({"beside": [Period(2, [0.1] * 9 + [0.4], 0.3)]}, "4.00 times as late (p95)"),
        ({"beside": [Period(2, [], 0.3)]}, "times as late (p50)"),
    ],
)
def test_complaints(changes: dict[str, object], complaint: str) -> None:
    """The complaint names each bound that does not hold."""
    assert any(complaint in line for line in overload.failures(result(**changes)))
