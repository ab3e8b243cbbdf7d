"""Readiness from a real sequence, and how long an answer may take."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from streamer.bridge.triton.link import Link
from streamer.bridge.triton.server import TritonServer
from streamer.bridge.upstreams.probe import BUSIEST_S, LONGEST_S, SHORTEST_S, SLOWER, Patience, Probe
from streamer.testing.exact_service import exact_repository
from tests.triton_processes import no_streams, stubs


async def test_probe(triton: TritonServer) -> None:
    """A successful probe makes the model ready, and leaves no stream behind."""
    async with await Link.connect(triton.grpc_address) as link:
        probing = Probe(link)
        assert not probing.ready
        assert await probing.probe()
        assert probing.ready
    await no_streams(triton)


async def test_failed_probe(triton: TritonServer) -> None:
    """A failed probe says why, and does not make the model ready."""
    link = await Link.connect(triton.grpc_address)
    probing = Probe(link)
    await link.close()
    assert not await probing.probe()
    assert not probing.ready
    assert "closed" in str(probing.failure)


async def test_every_instance(tmp_path: Path) -> None:
    """A probe reaches every instance of the model, and fails when the process of one has died."""
    with TritonServer(exact_repository(tmp_path), instances=2, slots=4) as two:
        async with await Link.connect(two.grpc_address) as link:
            probing = Probe(link, 2)
            assert await probing.probe()
            assert len(probing.reached) == 2
            next(iter(stubs(two.pid))).kill()
            assert not await probing.probe()
            # A killed stub may end its server, and then the stream has ended too.
            assert probing.failure is not None
            assert probing.failure.code == "unavailable"


STEP_S = 0.32


def test_patience() -> None:
    """The limit is short after quick answers and longer after slow ones, and old answers are forgotten."""
    patience = Patience()
    assert patience.limit_s == LONGEST_S
    patience.note(0.1, 100.0)
    assert patience.limit_s == SHORTEST_S
    patience.note(3.0, 101.0)
    patience.note(0.1, 140.0)
    assert patience.limit_s == 15.0
    patience.note(0.1, 180.0)
    assert patience.limit_s == SHORTEST_S
    patience.note(20.0, 181.0)
    assert patience.limit_s == LONGEST_S


def answered(patience: Patience, streams: int, seconds: float, now: float) -> float:
    """Let this number of streams ask for a step at once, and get their answers later. Return the time of these."""
    with ExitStack() as under_way:
        for _ in range(streams):
            under_way.enter_context(patience.work(STEP_S, now))
        for _ in range(streams):
            patience.note(seconds, now + seconds, STEP_S)
    return now + seconds


def test_much_work_may_take_long() -> None:
    """The limit grows with the audio under way, at the pace of the recent answers, and shrinks when it is answered."""
    patience = Patience()
    now = answered(patience, 1, 0.2, 100.0)
    assert patience.limit_s == SHORTEST_S
    with ExitStack() as under_way:
        for _ in range(32):
            under_way.enter_context(patience.work(STEP_S, now))
        assert abs(patience.limit_s - SLOWER * 32 * 0.2) < 0.01
        under_way.enter_context(patience.work(1000, now))
        assert patience.limit_s == BUSIEST_S
    assert patience.limit_s == SHORTEST_S


def test_streams_together_have_the_pace_of_all() -> None:
    """The time of a batch counts once for all its streams, and time without audio under way does not count."""
    patience = Patience()
    now = answered(patience, 32, 1.6, 100.0)
    now = answered(patience, 32, 1.6, now + 20)
    with patience.work(32 * STEP_S, now):
        assert abs(patience.work_s - SLOWER * 1.6) < 0.01


def test_the_limit_does_not_grow_while_nothing_is_answered() -> None:
    """The limit does not grow while there are no answers, so a recogniser that hangs is noticed."""
    patience = Patience()
    now = answered(patience, 1, 0.2, 100.0)
    with patience.work(STEP_S, now):
        assert patience.limit_s == SHORTEST_S
    with patience.work(STEP_S, now + SHORTEST_S):
        assert patience.limit_s == SHORTEST_S
    answered(patience, 1, 0.2, now + 20)
    with patience.work(10 * STEP_S, now + 21):
        assert abs(patience.work_s - SLOWER * 10 * 0.2) < 0.01
