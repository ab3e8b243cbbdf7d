"""What the tests of `streamer serve --workers` share: speech, sessions at a chosen worker, and figures."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from streamer.bridge.workers import others
from streamer.testing.exact_service import add_exact_model
from streamer.testing.exact_speech import say, silence
from tests.bridge.service_client import START, Event, receive, rest
from tests.serve_process import Serving

ROUNDS = 100  # connections until each worker has taken one
PIECE = 10_240
SENTENCES = (
    "somebody speaks while a process ends",
    "the next sentence follows after a pause",
    "and the last one ends the recording",
)
AUDIO = np.concatenate([part for each in SENTENCES for part in (say(each), silence(1500))]).tobytes()


def exact_models(folder: Path) -> Path:
    """Make a repository for an embedded Triton: two models, and one that cannot be loaded."""
    for name in ("one", "two"):
        add_exact_model(folder, name, slots=32)
    add_exact_model(folder, "broken", fault="does not load")
    return folder


@asynccontextmanager
async def at_worker(url: str, number: int, start: str = START) -> AsyncIterator[tuple[ClientConnection, Event]]:
    """Open a session that this worker takes."""
    async with AsyncExitStack() as stack:
        for _ in range(ROUNDS):
            websocket = await stack.enter_async_context(connect(url, compression=None))
            await websocket.send(start)
            ready = await receive(websocket)
            if worker_of(ready) == number:
                yield websocket, ready
                return
            await websocket.close()
        raise AssertionError(f"worker {number} takes no connection")


def worker_of(ready: Event) -> int:
    return others.worker_of(ready["token"])


def worker_pids(served: Serving) -> dict[int, int]:
    """The processes of the workers, in the order of their numbers, which is that in which they were started."""
    found = [each for each in served.descendants() if "streamer.commands.workers" in each.cmdline()]
    tasks = {each.pid: int(Path(each.cmdline()[-1]).stem) for each in found}
    return dict(enumerate(sorted(tasks, key=lambda pid: tasks[pid]), 1))


async def ask(
    served: Serving, path: str, method: str = "GET", body: object = None, **headers: str
) -> tuple[int, bytes]:
    """Send a plain request, and return the whole answer."""

    def exchange() -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(urlsplit(served.url).netloc, timeout=60)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    return await asyncio.to_thread(exchange)


def figure(exposition: str, name: str) -> float:
    """The value of a figure."""
    match = re.search(rf"^{re.escape(name)} (\S+)$", exposition, re.MULTILINE)
    assert match is not None, name
    return float(match[1])


async def has(served: Serving, name: str, value: float) -> None:
    """Wait until a figure has this value."""
    for _ in range(600):
        if figure(await asyncio.to_thread(lambda: served.exposition), name) == value:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{name} is never {value}")


async def wait_for(served: Serving, words: str) -> None:
    await asyncio.to_thread(served.wait_for, words)


async def attempt(stack: AsyncExitStack, url: str, key: str, **options: object) -> Event:
    """Open a session that stays open. Returns the first message."""
    websocket = await stack.enter_async_context(connect(f"{url}?key={key}", compression=None))
    with suppress(ConnectionClosed):  # it may be refused before
        await websocket.send(json.dumps({"type": "start", **options}))
    return await receive(websocket)


async def speaking(url: str) -> AsyncIterator[Event]:
    """Speak for some seconds, at four times the pace of speech. Yields the events."""
    async with connect(url, compression=None) as websocket:
        await websocket.send(START)
        yield await receive(websocket)

        async def send() -> None:
            for place in range(0, len(AUDIO), PIECE):
                await websocket.send(AUDIO[place : place + PIECE])
                await asyncio.sleep(0.08)
            await websocket.send('{"type":"stop"}')

        sending = asyncio.create_task(send())
        for event in await rest(websocket):
            yield event
        await sending
        assert websocket.close_code == 1000


async def spoken(url: str) -> list[Event]:
    return [event async for event in speaking(url)]
