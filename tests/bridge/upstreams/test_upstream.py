"""One Triton as the bridge sees it: the limits for answers, and what is done when it fails."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psutil
import pytest

from streamer.bridge.states import StateError
from streamer.bridge.triton import TritonError
from streamer.bridge.triton.link import LinkError, Overdue
from streamer.bridge.triton.server import TritonServer
from streamer.bridge.upstreams import instances, probe, upstream
from streamer.bridge.upstreams import probe as prober
from streamer.bridge.upstreams.supervision import RemoteTriton
from streamer.bridge.upstreams.upstream import Health
from streamer.testing.exact_service import add_exact_model, exact_repository
from streamer.testing.exact_speech import say
from tests.bridge.upstreams.opened_models import models_at, opened, until
from tests.triton_processes import asleep, stubs

SEGMENT = say(" ".join(["somebody speaks for so long that it takes three seconds to read it again"] * 2)).tobytes()


async def test_model_of_another_that_hangs_is_reloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A remote model is reloaded if it never answers, although Triton says that all is well."""
    monkeypatch.setattr(instances, "SILENT_LIMIT_S", 1.5)
    monkeypatch.setattr(probe, "SHORTEST_S", 1.0)
    monkeypatch.setattr(upstream, "CLOSE_LIMIT_S", 0.5)
    for limit in ("ANSWER_LIMIT_S", "FIRST_ANSWER_LIMIT_S"):
        monkeypatch.setattr(prober, limit, 1.0)
    add_exact_model(tmp_path, "streaming_asr", slots=4, fault="hangs later")
    hang = tmp_path / "streaming_asr" / "1" / "hang"
    with TritonServer(tmp_path) as triton:
        async with opened(triton.grpc_address) as models:
            before = {stub.pid for stub in stubs(triton.pid)}
            hang.touch()
            reservation = models.default.reserve({})
            assert reservation is not None
            with pytest.raises(Overdue):
                await reservation.begin({})
            hang.unlink()  # a model that already hangs does not continue because of this
            await until(lambda: models.default.ready)
            monkeypatch.undo()  # an answer may take longer than that if nothing hangs
            await reservation.begin({})
            assert await reservation.send(bytes(1000), end=True)
            assert before < {stub.pid for stub in stubs(triton.pid)}


async def test_model_of_another_is_reloaded(tmp_path: Path) -> None:
    """If the process of a remote Triton's model dies, the model is reloaded, and sequences go on."""
    with TritonServer(exact_repository(tmp_path), slots=2) as triton:
        async with opened(triton.grpc_address) as models:
            pool = models.default
            reservation = pool.reserve({})
            assert reservation is not None
            await reservation.begin({})
            before = {stub.pid for stub in stubs(triton.pid)}
            await until(lambda: all(asleep(stub) for stub in stubs(triton.pid)))
            for pid in before:
                psutil.Process(pid).kill()
            with pytest.raises(LinkError, match="is not healthy"):
                await reservation.send(bytes(1000))
            assert not pool.well
            assert pool.reserve({}) is None
            await until(lambda: pool.ready)
            await reservation.begin({})
            assert await reservation.send(bytes(1000), end=True)
            assert before.isdisjoint(stub.pid for stub in stubs(triton.pid))


async def test_a_busy_model_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If answers are overdue again and again while the model answers others, it is busy, and its link stays."""
    add_exact_model(tmp_path, "streaming_asr", slots=6, instances=1, fault="reads again slowly")
    with TritonServer(tmp_path) as triton:
        async with opened(triton.grpc_address) as models:
            slow, other = models.default.reserve({"second_pass": True, "endpoint": "off"}), models.default.reserve({})
            assert slow is not None
            assert other is not None
            await other.begin({})
            link = slow.upstream.hold("first")
            impatient: set[object] = set()
            limit_s = lambda _, holder: 0.5 if holder in impatient else 60.0  # noqa: E731
            monkeypatch.setattr(upstream.Upstream, "limit_s", limit_s)
            for _ in range(3):
                await slow.begin({})
                await slow.send(SEGMENT)
                impatient.add(slow)
                ending = asyncio.create_task(slow.send(flush=True))
                while not ending.done():
                    await other.send(bytes(10_240))
                with pytest.raises(Overdue):
                    await ending
                impatient.clear()
            assert slow.upstream.well
            assert slow.upstream.hold("second") is link
            assert await other.send(end=True)


@pytest.mark.parametrize("moments", range(5))
async def test_left_in_the_moment_of_a_doubt(triton: TritonServer, moments: int) -> None:
    """An upstream is left when told to, even if a doubt comes at the same moment."""
    models = models_at(triton.grpc_address)
    await models.open()
    await until(lambda: models.default.free > 0)
    reservation = models.default.reserve({})
    assert reservation is not None
    doubted = reservation.upstream
    doubted.doubt(doubted.hold(reservation), Overdue("it is late"), certain=False)
    reservation.release()
    for _ in range(moments):
        await asyncio.sleep(0)
    await asyncio.wait_for(models.close(), 60)


async def test_retired_while_it_opens(triton: TritonServer) -> None:
    """An upstream that retires while it opens does not become well: it gives no slots, and leaves no link."""
    retired = upstream.Upstream("a", RemoteTriton("a", triton.grpc_address))
    opening = asyncio.create_task(retired.open())
    await asyncio.sleep(0)
    retired.retire()
    with pytest.raises(TritonError, match="not used any more"):
        await opening
    assert (retired.well, retired.retiring, retired.health) == (False, True, Health.RETIRING)
    with pytest.raises(StateError, match="health: expected well, met retiring"):
        retired.hold("somebody")
    await retired.close()
    await retired.close()  # may be called again
    assert retired.health is Health.LEFT
