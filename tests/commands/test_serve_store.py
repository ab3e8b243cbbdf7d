"""`streamer serve --store` with real bridges, a real store and a Triton of both: sessions that go on elsewhere."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection, connect

from streamer.bridge.triton.server import TritonServer
from streamer.client import connect as connect_native
from streamer.commands.arguments import USAGE
from streamer.commands.cli import run
from tests.bridge.access.bare_port import ALICE, BOB
from tests.bridge.service_client import SPOKEN, START, Event, eventually, receive, recognise, rest, resume, text
from tests.commands.worker_service import AUDIO, PIECE, SENTENCES, attempt, figure, has
from tests.redis_server import RedisServer, redis_server
from tests.serve_process import Serving, serving


@pytest.fixture(scope="module")
def triton(exact_triton: TritonServer) -> TritonServer:
    """An exact model: these tests are about bridges."""
    return exact_triton


@pytest.fixture
def store() -> Iterator[RedisServer]:
    """A store that is empty."""
    with redis_server() as running:
        yield running


@asynccontextmanager
async def bridges(triton: TritonServer, store: RedisServer, *each: tuple[str, ...]) -> AsyncIterator[list[Serving]]:
    """Bridges in front of one Triton, with these settings, that know each other."""
    async with AsyncExitStack() as stack:
        running = []
        for settings in each:
            service = serving("--triton", triton.grpc_address, *store.options, *settings)
            running.append(await asyncio.to_thread(stack.enter_context, service))
        for bridge in running:
            await has(bridge, "streamer_other_bridges", len(each) - 1)
        yield running


def both(first: Serving, second: Serving, key: str = "") -> str:
    """The addresses of two bridges, for a client of ours."""
    return ",".join(f"{each.url}?key={key}" if key else each.url for each in (first, second))


async def speak(url: str, said: asyncio.Event, went_on: asyncio.Event) -> list[Event]:
    """Speak, and return all events. `said` is set at the first final; then the speaker waits for the other one."""
    events: list[Event] = []
    async with connect_native(url) as session:

        async def read() -> None:
            async for event in session:
                events.append(dict(event))
                if event["type"] == "final":
                    said.set()

        reading = asyncio.create_task(read())
        for place in range(0, len(AUDIO), PIECE):
            if place > len(AUDIO) // 2 and not went_on.is_set():
                await session.keepalive()
                await asyncio.wait_for(went_on.wait(), 60)
            await session.send(AUDIO[place : place + PIECE])
            await asyncio.sleep(0.02)
        await session.stop()
        await reading
    return events


def check(events: list[Event]) -> None:
    """Every word once and in order, with the numbers of an undisturbed session."""
    finals = [event for event in events if event["type"] == "final"]
    assert [final["text"] for final in finals] == list(SENTENCES)
    assert [final["segment"] for final in finals] == list(range(len(finals)))
    numbers = [event["n"] for event in events if "n" in event]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert any(event["type"] == "restarted" for event in events)


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_a_bridge_is_killed(triton: TritonServer, store: RedisServer, workers: str) -> None:
    """Clients go on at the other bridge, without a lost or doubled word, and no word was ever in the store."""
    said, went_on = [asyncio.Event() for _ in range(3)], asyncio.Event()
    async with bridges(triton, store, ("--workers", workers), ()) as (first, second):
        speaking = [asyncio.create_task(speak(both(first, second), each, went_on)) for each in said]
        await asyncio.gather(*(asyncio.wait_for(each.wait(), 60) for each in said))
        with store.client() as reader:
            everything = b"".join(bytes(reader.dump(name) or b"") for name in reader.keys("*"))
        assert not any(word.encode() in everything for word in " ".join(SENTENCES).split() if len(word) > 4)
        await asyncio.to_thread(first.end, signal.SIGKILL)
        went_on.set()
        for events in await asyncio.gather(*speaking):
            check(events)
        await has(second, "streamer_other_bridges", 0)
        await has(second, "streamer_sessions", 0)
        assert second.end() == 0


async def opened(stack: AsyncExitStack, url: str) -> tuple[ClientConnection, Event]:
    websocket = await stack.enter_async_context(connect(url, compression=None))
    await websocket.send(START)
    return websocket, await receive(websocket)


async def refusal(url: str, message: str) -> str:
    """What a bridge says to a client that it does not serve."""
    async with connect(url, compression=None) as websocket:
        await websocket.send(message)
        [error] = await rest(websocket)
        return str(error["code"])


async def test_the_later_bridge_wins(triton: TritonServer, store: RedisServer) -> None:
    """Two bridges believe that they have a session: the one where its client was last goes on, the other is told."""
    async with bridges(triton, store, (), ()) as (first, second), AsyncExitStack() as stack:
        former, ready = await opened(stack, first.url)
        await former.send(SPOKEN[: len(SPOKEN) // 2])
        while (await receive(former))["type"] != "partial":
            pass
        first.send(signal.SIGSTOP)
        assert await refusal(second.url, resume(ready, 2)) == "unknown_token"
        later, _ = await opened(stack, second.url)
        first.send(signal.SIGCONT)
        told = await rest(former)
        assert former.close_code == 4010
        assert not [event for event in told if event["type"] == "error"]
        assert await refusal(first.url, resume(ready, 2)) == "unknown_token"
        await has(first, "streamer_sessions", 0)
        await later.send(SPOKEN)
        await later.send('{"type":"stop"}')
        assert text(await rest(later)) == text(await recognise(second.url, SPOKEN))
        assert 'reason="resumed_elsewhere"} 1.0' in await asyncio.to_thread(lambda: first.exposition)
        # A session that waits for its client is given up as well, and is resumed at its own bridge as ever.
        waiting, ready = await opened(stack, first.url)
        waiting.transport.abort()
        async with connect(first.url, compression=None) as again:
            await again.send(resume(ready, 1))
            assert (await receive(again))["token"] == ready["token"]
            again.transport.abort()
        assert await refusal(second.url, resume(ready, 1)) == "unknown_token"
        await has(first, "streamer_sessions", 0)


async def test_a_drain_hands_sessions_over(triton: TritonServer, store: RedisServer) -> None:
    """A bridge that ends lets its sessions go on at another one at their next cut, long before its limit."""
    said, went_on = asyncio.Event(), asyncio.Event()
    async with bridges(triton, store, ("--drain-limit", "600"), ()) as (first, second):
        speaking = asyncio.create_task(speak(both(first, second), said, went_on))
        await asyncio.wait_for(said.wait(), 60)
        first.send()
        await has(second, "streamer_other_bridges", 0)
        went_on.set()
        check(await speaking)
        assert await asyncio.to_thread(first.ended) == 0


async def test_a_drain_without_another_bridge(triton: TritonServer, store: RedisServer) -> None:
    """A bridge that is the only one lets its sessions go on to their end."""
    async with bridges(triton, store, ("--drain-limit", "600")) as [alone]:
        said, went_on = asyncio.Event(), asyncio.Event()
        speaking = asyncio.create_task(speak(alone.url, said, went_on))
        await asyncio.wait_for(said.wait(), 60)
        alone.send()
        await eventually(lambda: not alone.state["ready"])
        went_on.set()
        events = await speaking
        assert [event["text"] for event in events if event["type"] == "final"] == list(SENTENCES)
        assert not any(event["type"] == "restarted" for event in events)
        assert await asyncio.to_thread(alone.ended) == 0


async def test_limits_over_bridges(triton: TritonServer, store: RedisServer, tmp_path: Path) -> None:
    """Sessions and audio of a key count at both bridges; a client at its limit goes on when its bridge was killed."""
    (tmp_path / "keys").write_text(f"{ALICE.line}\n{BOB.line}\n")
    settings = ("--keys", str(tmp_path / "keys"), "--per-key", "1", "--audio-per-key", "100", "--open-metrics")
    async with bridges(triton, store, settings, settings) as (first, second):
        async with AsyncExitStack() as stack:
            assert (await attempt(stack, first.url, ALICE.secret))["type"] == "ready"
            for _ in range(100):
                code = (await attempt(stack, second.url, ALICE.secret)).get("code")
                if code == "too_many_sessions":
                    break
                await asyncio.sleep(0.1)
            assert code == "too_many_sessions"
            assert (await attempt(stack, second.url, BOB.secret))["type"] == "ready"
        await has(second, "streamer_sessions", 0)
        said, went_on = asyncio.Event(), asyncio.Event()
        speaking = asyncio.create_task(speak(both(first, second, BOB.secret), said, went_on))
        await asyncio.wait_for(said.wait(), 60)
        await asyncio.to_thread(first.end, signal.SIGKILL)
        went_on.set()
        check(await speaking)
        third = await asyncio.to_thread(lambda: second.state)
        assert third["store"] == {"together": True, "other_bridges": 0}


async def test_a_store_that_is_away(triton: TritonServer, store: RedisServer) -> None:
    """Sessions live on without the store, new ones are admitted, and probes and figures say what is missing."""
    async with bridges(triton, store, (), ()) as (first, second), AsyncExitStack() as stack:
        former, ready = await opened(stack, first.url)
        for fault, remedy in ((store.kill, store.start), (lambda: store.send(signal.SIGSTOP), None)):
            fault()
            for each in (first, second):
                await has(each, "streamer_bridges_together", 0)
            state = await asyncio.to_thread(lambda: first.state)
            assert state["ready"]
            assert state["store"]["together"] is False
            assert text(await recognise(second.url, SPOKEN)) == text(await recognise(first.url, SPOKEN))
            former.transport.abort()
            former = await stack.enter_async_context(connect(first.url, compression=None))
            await former.send(resume(ready, 1))
            assert (await receive(former))["token"] == ready["token"]
            if remedy is None:
                store.send(signal.SIGCONT)
            else:
                await asyncio.to_thread(remedy)
            for each in (first, second):
                await has(each, "streamer_bridges_together", 1)
                await has(each, "streamer_other_bridges", 1)
        assert any("bridges count alone" in line for line in first.lines)
        assert figure(first.exposition, "streamer_store_entries_refused_total") == 0
        await former.send(SPOKEN)
        await former.send('{"type":"stop"}')
        assert text(await rest(former)) == text(await recognise(first.url, SPOKEN))


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (("--store", "redis://127.0.0.1"), "needs a secret of all bridges"),
        (("--store-secret", "SECRET"), "give --store too"),
        (("--store", "redis://127.0.0.1", "--store-secret", "MISSING"), "cannot be read"),
        (("--store", "http://127.0.0.1", "--store-secret", "SECRET"), "must be an address such as"),
        (("--store", "redis://:hidden@127.0.0.1:0", "--store-secret", "SECRET"), "must be an address such as"),
    ],
)
def test_settings_of_a_store(
    settings: tuple[str, ...], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Settings that cannot be used are refused with a sentence, and passwords are not shown."""
    (tmp_path / "SECRET").write_text("x" * 32)
    paths = [str(tmp_path / each) if each.isupper() else each for each in settings]
    assert run(["serve", "--triton", "127.0.0.1:1", *paths]) == USAGE
    said = capsys.readouterr().err
    assert complaint in said
    assert "hidden" not in said
