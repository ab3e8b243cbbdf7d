"""One Triton as the bridge sees it: how long it is waited for, and what is done when it fails."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psutil
import pytest

from streamer.bridge.upstreams import probe as prober
from streamer.bridge.upstreams import upstream
from streamer.bridge.upstreams.pool import UpstreamPool
from streamer.bridge.upstreams.supervision import RemoteTriton
from streamer.bridge.upstreams.upstream import (
    LIMP_LIMIT_S,
    LONGEST_PATIENCE_S,
    SHORTEST_PATIENCE_S,
    SILENT_LIMIT_S,
    Opening,
    Pace,
    Upstream,
)
from streamer.triton.link import LinkError, Overdue
from streamer.triton.repository import asr_repository
from streamer.triton.server import TritonServer
from tests.bridge.clients import stubs
from tests.bridge.level_repository import HANGS_LATER, level_model


def test_patience() -> None:
    """Who was quick is waited for a short while, who is slow for longer, and nothing of that is remembered for ever."""
    pace = Pace()
    assert pace.patience_s == LONGEST_PATIENCE_S
    pace.note(0.1, 100.0)
    assert pace.patience_s == SHORTEST_PATIENCE_S
    pace.note(3.0, 101.0)
    pace.note(0.1, 140.0)
    assert pace.patience_s == 15.0
    pace.note(0.1, 180.0)
    assert pace.patience_s == SHORTEST_PATIENCE_S
    pace.note(20.0, 181.0)
    assert pace.patience_s == LONGEST_PATIENCE_S


def test_what_openings_tell() -> None:
    """A model is loaded again at once if its process has died, and if it is silent for long; each time later."""
    opening, died = Opening(), LinkError("unavailable", "Stub process 'a_0_0' is not healthy.")
    assert opening.failed(died, 0.0, 1.0)
    assert not opening.failed(LinkError("unavailable", "there is nobody"), 1.0, 2.0)
    silent, now = Overdue("no answer"), 100.0
    for limit_s in (SILENT_LIMIT_S, 2 * SILENT_LIMIT_S, 4 * SILENT_LIMIT_S):
        since = now
        while now + 10 - since < limit_s:
            now += 10
            assert not opening.failed(silent, now - 10, now)
        now += 10
        assert opening.failed(silent, now - 10, now)
    assert 8 * SILENT_LIMIT_S < LIMP_LIMIT_S
    # What it was told in between counts: it was not silent all the time.
    assert not opening.failed(silent, now, now + 10)
    assert not opening.failed(LinkError("full", "no room"), now + 10, now + 11)
    assert not opening.failed(silent, now + 8 * SILENT_LIMIT_S, now + 8 * SILENT_LIMIT_S + 10)


async def test_model_of_another_that_hangs_is_reloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton says that all is well and answers what it is asked; only the model never does."""
    monkeypatch.setattr(upstream, "SILENT_LIMIT_S", 1.5)
    monkeypatch.setattr(upstream, "SHORTEST_PATIENCE_S", 1.0)
    monkeypatch.setattr(upstream, "CLOSE_LIMIT_S", 0.5)
    monkeypatch.setattr(prober, "ANSWER_LIMIT_S", 1.0)
    level_model(tmp_path, "streaming_asr", slots=4, fault=HANGS_LATER)
    hang = tmp_path / "streaming_asr" / "1" / "hang"
    with TritonServer(tmp_path) as triton:
        upstreams = UpstreamPool([triton.grpc_address])
        await upstreams.open()
        try:
            before = {stub.pid for stub in stubs(triton.pid)}
            hang.touch()
            lease = upstreams.lease({})
            assert lease is not None
            with pytest.raises(Overdue):
                await lease.send(bytes(1000))
            hang.unlink()  # who hangs already does not wake by that
            for _ in range(300):
                if upstreams.ready:
                    break
                await asyncio.sleep(0.1)
            again = upstreams.lease({}, instead_of=lease)
            lease.discard()
            assert again is not None
            assert await again.send(bytes(1000), end=True)
            assert before < {stub.pid for stub in stubs(triton.pid)}
        finally:
            await upstreams.close()


async def test_model_of_another_is_reloaded() -> None:
    """Where the model's process of a Triton that is not ours dies, the model is reloaded, and sequences go on."""
    with TritonServer(asr_repository(), slots=2) as triton:
        upstreams = UpstreamPool([triton.grpc_address])
        await upstreams.open()
        try:
            lease = upstreams.lease({})
            assert lease is not None
            await lease.send(bytes(1000))
            before = {stub.pid for stub in stubs(triton.pid)}
            for pid in before:
                psutil.Process(pid).kill()
            with pytest.raises(LinkError, match="is not healthy"):
                await lease.send(bytes(1000))
            assert not upstreams.well
            assert upstreams.lease({}) is None
            for _ in range(300):
                if upstreams.ready:
                    break
                await asyncio.sleep(0.1)
            lease.discard()
            again = upstreams.lease({}, instead_of=lease)
            assert again is not None
            assert await again.send(bytes(1000), end=True)
            assert before.isdisjoint(stub.pid for stub in stubs(triton.pid))
        finally:
            await upstreams.close()


async def test_least_loaded(triton: TritonServer) -> None:
    """Sequences go where most is free, and one that failed goes elsewhere while there is an elsewhere."""
    address = triton.grpc_address
    upstreams = UpstreamPool([address])
    other = Upstream("other", RemoteTriton(address))
    upstreams._own.append(other)
    await upstreams.open()
    try:
        leases = [upstreams.lease({}) for _ in range(4)]
        taken = [lease.upstream for lease in leases if lease is not None]
        assert taken.count(other) == 2
        failed = leases[0]
        assert failed is not None
        replaced = upstreams.lease({}, instead_of=failed)
        assert replaced is not None
        assert replaced.upstream is not failed.upstream
    finally:
        await upstreams.close()


async def test_names_are_resolved(triton: TritonServer) -> None:
    """A name becomes the addresses behind it; one that means nothing is said at once."""
    port = triton.grpc_address.rpartition(":")[2]
    upstreams = UpstreamPool([f"localhost:{port}"])
    await upstreams.open()
    try:
        lease = upstreams.lease({})
        assert lease is not None
        assert list(upstreams._found) == [f"127.0.0.1:{port}"]
        assert await lease.send(end=True)
    finally:
        await upstreams.close()
    with pytest.raises(LinkError, match=r"there is no Triton at no\.such\.host\.invalid:1"):
        await UpstreamPool(["no.such.host.invalid:1"]).open()


@pytest.mark.parametrize("moments", range(5))
async def test_left_in_the_moment_of_a_doubt(triton: TritonServer, moments: int) -> None:
    """Whatever it learns just then, it is left when it is told to."""
    upstreams = UpstreamPool([triton.grpc_address])
    await upstreams.open()
    await asyncio.sleep(0.1)
    [upstream] = upstreams._found.values()
    assert upstream._link is not None
    upstream.doubt(upstream._link, Overdue("it is late"), certain=False)
    for _ in range(moments):
        await asyncio.sleep(0)
    await asyncio.wait_for(upstreams.close(), 10)
