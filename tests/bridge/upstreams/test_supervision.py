"""A name that resolves to several Tritons, which change over time: sessions follow it, and none is cut off.

The resolver is the real one of the C library, which nss_wrapper makes read a hosts file of the test.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from websockets.asyncio.client import connect

from streamer.bridge.service import Service
from streamer.bridge.triton.link import LinkError
from streamer.bridge.triton.server import TritonServer
from streamer.bridge.upstreams.supervision import Tritons
from streamer.testing.exact_service import add_exact_model
from streamer.testing.exact_speech import say, silence
from streamer.testing.faulty_proxy import FaultyProxy
from tests.bridge.service_client import START, Event, recognise, rest, session, text
from tests.bridge.upstreams.opened_models import opened
from tests.bridge.upstreams.speaking_sessions import value
from tests.serve_process import Serving, serving
from tests.triton_processes import live_streams

NAME = "tritons.test"
LIBRARY = "libnss_wrapper.so"
FIRST = np.concatenate([say("abc def"), silence(300)]).tobytes()
PAUSE = silence(1600).tobytes()
SECOND = np.concatenate([say("ghi jkl"), silence(300)]).tobytes()


@pytest.fixture(scope="module")
def tritons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[TritonServer]]:
    """Provide two exact Tritons."""
    repository = tmp_path_factory.mktemp("repository")
    add_exact_model(repository, "streaming_asr", slots=8)
    with TritonServer(repository) as first, TritonServer(repository) as second:
        yield [first, second]


@dataclass
class Place:
    """A service that knows its Tritons by a name, and the addresses of that name."""

    served: Serving
    hosts: Path
    ways: list[FaultyProxy]
    changes: int = 0

    def name(self, *numbers: int) -> None:
        """Let the name stand for these addresses from now on."""
        write(self.hosts, numbers)
        # The library compares the file's time in whole seconds.
        self.changes += 2
        now = time.time() + self.changes
        os.utime(self.hosts, (now, now))

    async def recognisers(self, number: int) -> None:
        """Wait until the service knows so many Tritons, and all of them are well."""
        wanted = f"streamer_recognisers {number}.0\n", f"streamer_recognisers_ready {number}.0\n"
        await eventually(lambda: all(line in self.served.exposition for line in wanted))


def write(hosts: Path, numbers: tuple[int, ...]) -> None:
    hosts.write_text("".join(f"127.0.0.{number + 2} {NAME}\n" for number in numbers))


async def eventually(holds: Callable[[], bool], limit_s: float = 60.0) -> None:
    for _ in range(int(limit_s * 10)):
        if await asyncio.to_thread(holds):
            return
        await asyncio.sleep(0.1)
    assert await asyncio.to_thread(holds)


@asynccontextmanager
async def place(tmp_path: Path, tritons: list[TritonServer], count: int) -> AsyncIterator[Place]:
    """Provide loopback addresses of so many Tritons, and a service that has only their name."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        assert "CI" not in os.environ
        pytest.skip("nss_wrapper is not installed: apt-get install libnss-wrapper")
    ways: list[FaultyProxy] = []
    hosts = tmp_path / "hosts"
    write(hosts, (0,))
    async with AsyncExitStack() as stack:
        port = 0
        for number, triton in enumerate(tritons[:count]):
            way = FaultyProxy(partial(getattr, triton, "grpc_address"))
            stack.push_async_callback(way.close)
            await way.open(f"127.0.0.{number + 2}", port)
            port = int(way.address.rpartition(":")[2])
            ways.append(way)
        environment = {"LD_PRELOAD": LIBRARY, "NSS_WRAPPER_HOSTS": str(hosts)}
        starting = serving("--triton", f"{NAME}:{port}", "--resolve-every", "0.3", environment=environment)
        # In a thread: this loop must keep the proxies open.
        served = await asyncio.to_thread(starting.__enter__)
        stack.callback(starting.__exit__, None, None, None)
        yield Place(served, hosts, ways)


async def test_new_addresses_get_sessions(tmp_path: Path, tritons: list[TritonServer]) -> None:
    """A new address of the name is used; an address that it no longer has is left at the next cut."""
    async with place(tmp_path, tritons, 2) as here:
        async with session(here.served.url) as early:
            telling = asyncio.create_task(rest(early))
            await early.send(FIRST)
            await eventually(lambda: live_streams(tritons[0]) >= 1)
            here.name(0, 1)
            await here.recognisers(2)
            async with session(here.served.url) as late:
                # It goes to the least loaded one.
                await eventually(lambda: held(here) == 2)
                await settled(tritons[1], 1)
                here.name(1)
                await here.recognisers(1)
                await settled(tritons[0], 1)  # it is in the middle of a segment
                await early.send(PAUSE + SECOND)
                await settled(tritons[0], 0)
                await settled(tritons[1], 2)
                for websocket in (early, late):
                    await websocket.send('{"type":"stop"}')
                check(await telling, "abc def ghi jkl")
                await rest(late)
        assert "streamer_moves_total 1.0" in here.served.exposition
        recoveries = re.findall(r"^streamer_recoveries_total\{.*} (.*)$", here.served.exposition, re.MULTILINE)
        assert set(map(float, recoveries)) == {0.0}
        assert text(await recognise(here.served.url, FIRST)) == "abc def"
        assert here.served.end() == 0
    lines = "\n".join(here.served.lines)
    assert " recogniser found triton=127.0.0.3:" in lines
    assert " recogniser not named any more triton=127.0.0.2:" in lines


async def test_a_name_server_that_is_away(tmp_path: Path, tritons: list[TritonServer]) -> None:
    """While the name resolves to nothing, the former addresses remain in use."""
    async with place(tmp_path, tritons, 1) as here:
        async with session(here.served.url) as websocket:
            telling = asyncio.create_task(rest(websocket))
            await websocket.send(FIRST)
            here.name()
            await eventually(lambda: any("name not resolved" in line for line in here.served.lines))
            assert text(await recognise(here.served.url, SECOND)) == "ghi jkl"
            await websocket.send(PAUSE + SECOND)
            await websocket.send('{"type":"stop"}')
            check(await telling, "abc def ghi jkl")
        assert "streamer_recognisers 1.0" in here.served.exposition


async def test_one_that_fails(tmp_path: Path, tritons: list[TritonServer]) -> None:
    """An address that does not answer is left, its sessions go on elsewhere, and it is used again when it is back."""
    async with place(tmp_path, tritons, 2) as here:
        here.name(0, 1)
        await here.recognisers(2)
        async with session(here.served.url) as first, session(here.served.url) as second:
            both = [(websocket, asyncio.create_task(rest(websocket))) for websocket in (first, second)]
            for websocket, _ in both:
                await websocket.send(FIRST)
            await settled(tritons[1], 1)
            here.ways[1].refusing = True
            await here.ways[1].cut()
            await eventually(lambda: "streamer_recognisers_ready 1.0\n" in here.served.exposition)
            for websocket, _ in both:
                await websocket.send(SECOND)
                await websocket.send('{"type":"stop"}')
            told = [await telling for _, telling in both]
        assert [text(events) for events in told] == ["abc def ghi jkl"] * 2
        kinds = [[event["type"] for event in events].count("recovered") for events in told]
        assert sorted(kinds) == [0, 1]
        here.ways[1].refusing = False
        await here.recognisers(2)


async def test_one_that_fails_while_the_other_is_full(tritons: list[TritonServer]) -> None:
    """Its sessions wait for a slot, and lose no word; new ones are refused while all others are needed."""
    way = FaultyProxy(lambda: tritons[0].grpc_address)
    await way.open()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(way.close)
        service = Service([way.address, tritons[1].grpc_address], port=0)
        await stack.enter_async_context(service)
        most = int(value(service, "streamer_sessions_limit "))
        websockets = [await stack.enter_async_context(session(service.url)) for _ in range(most)]
        telling = [asyncio.create_task(rest(websocket)) for websocket in websockets]
        for websocket in websockets:
            await websocket.send(FIRST)
        await eventually(lambda: live_streams(tritons[0]) + live_streams(tritons[1]) >= most)
        way.refusing = True
        await way.cut()
        await eventually(lambda: value(service, "streamer_recognisers_ready ") == 1)
        async with connect(service.url) as another:
            await another.send(START)
            (refusal,) = await rest(another)
            assert refusal["code"] == "full"
        for websocket in websockets:
            await websocket.send(SECOND)
            await websocket.send('{"type":"stop"}')
        told = await asyncio.gather(*telling)
    assert [text(events) for events in told] == ["abc def ghi jkl"] * most
    recovered = [event for events in told for event in events if event["type"] == "recovered"]
    assert 0 < len(recovered) < most


def held(here: Place) -> int:
    return int(here.served.state["sequences"])


async def settled(triton: TritonServer, number: int) -> None:
    """Wait until the model there holds so many streams; a probe may add one for a moment."""
    await eventually(lambda: live_streams(triton) == number)


def check(events: list[Event], words: str) -> None:
    assert text(events) == words
    assert "recovered" not in {event["type"] for event in events}
    assert events[-1]["type"] == "done"


async def test_names_are_resolved(triton: TritonServer) -> None:
    """A name becomes its addresses; a name that cannot be resolved is reported at once."""
    port = triton.grpc_address.rpartition(":")[2]
    tritons = Tritons([f"localhost:{port}"])
    await tritons.find()
    assert [await present.address() for present in tritons.present] == [f"127.0.0.1:{port}"]
    async with opened(f"localhost:{port}") as models:
        reservation = models.default.reserve({})
        assert reservation is not None
        await reservation.begin({})
        assert await reservation.send(end=True)
    with pytest.raises(LinkError, match=r"there is no Triton at no\.such\.host\.invalid:1"):
        await Tritons(["no.such.host.invalid:1"]).find()
