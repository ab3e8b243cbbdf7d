"""A session that is shared, with a real service: who may share, who reads along, and when it ends."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from websockets.asyncio.client import connect

from streamer.bridge.access.keys import KeyFile
from streamer.bridge.access.rules import AccessRules, PortPolicy
from streamer.bridge.captions import PATH
from tests.bridge.access.bare_port import ALICE, BOB
from tests.bridge.service_client import SPOKEN, START, WORDS, eventually, receive, rest, serving

if TYPE_CHECKING:
    from streamer.bridge.service import Service
    from streamer.bridge.triton.server import TritonServer

MOST = 3
Answer = tuple[int, dict[str, str], bytes]


@pytest.fixture
async def sharing(triton: TritonServer) -> AsyncIterator[Service]:
    """A service whose sessions can be shared."""
    async with serving(triton, policy=PortPolicy(listeners=MOST)) as service:
        yield service


class Audience:
    """The plain HTTP requests of a speaker's page and of those who read along."""

    def __init__(self, service: Service) -> None:
        self._host = urlsplit(service.url).netloc

    async def ask(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        """Send a request, and return the whole answer."""

        def exchange() -> Answer:
            connection = http.client.HTTPConnection(self._host, timeout=60)
            try:
                connection.request(method, path, None if body is None else json.dumps(body), headers)
                response = connection.getresponse()
                return response.status, dict(response.headers), response.read()
            finally:
                connection.close()

        return await asyncio.to_thread(exchange)

    async def share(self, token: str, **headers: str) -> dict[str, str]:
        """Share a session, and return its paths."""
        status, _, content = await self.ask("POST", PATH, {"token": token}, **headers)
        assert status == 200, content
        return dict(json.loads(content))

    async def listeners(self, token: str, number: int) -> None:
        """Wait until so many read along."""
        for _ in range(600):
            if (await self.share(token))["listeners"] == number:
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"there are never {number} listeners")


def texts(stream: bytes) -> list[str]:
    """The texts of the finals in server-sent events."""
    blocks = [block for block in stream.decode().split("\n\n") if "event: final\n" in block]
    return [json.loads(block.partition("data: ")[2])["text"] for block in blocks]


async def test_an_audience_reads_along(sharing: Service) -> None:
    """Pages get the finals, and players the subtitles, of a session that is shared, until it ends."""
    audience = Audience(sharing)
    async with connect(sharing.url, compression=None) as websocket:
        await websocket.send(START)
        ready = await receive(websocket)
        paths = await audience.share(ready["token"])
        page = asyncio.create_task(audience.ask("GET", paths["events"]))
        player = asyncio.create_task(audience.ask("GET", paths["vtt"], Origin="https://elsewhere.example"))
        await audience.listeners(ready["token"], 2)
        await websocket.send(SPOKEN)
        await websocket.send('{"type":"stop"}')
        await rest(websocket)
    status, headers, events = await page
    assert (status, headers["Content-Type"]) == (200, "text/event-stream")
    assert texts(events) == list(WORDS)
    assert events.endswith(b"event: end\ndata: {}\n\n")
    status, headers, subtitles = await player
    assert (status, headers["Content-Type"]) == (200, "text/vtt; charset=utf-8")
    assert headers["Access-Control-Allow-Origin"] == "*"
    assert subtitles.startswith(b"WEBVTT\n\n00:00:0")
    shown = " ".join(line for line in subtitles.decode().splitlines()[1:] if line and "-->" not in line)
    assert shown.replace("NOTE ", "") == " ".join(WORDS)
    for path in (paths["events"], paths["vtt"]):
        assert (await audience.ask("GET", path))[0] == 404


async def test_the_number_of_listeners_is_bounded(sharing: Service) -> None:
    """Further listeners are refused, and the others leave room when they go; the session does not notice."""
    audience = Audience(sharing)
    async with connect(sharing.url, compression=None) as websocket:
        await websocket.send(START)
        token = (await receive(websocket))["token"]
        path = (await audience.share(token))["events"]
        opened = []
        for _ in range(MOST):
            connection = http.client.HTTPConnection(urlsplit(sharing.url).netloc, timeout=60)
            connection.request("GET", path)
            opened.append(await asyncio.to_thread(connection.getresponse))
        assert [answer.status for answer in opened] == [200] * MOST
        status, headers, _ = await audience.ask("GET", path)
        assert (status, headers["Retry-After"]) == (503, "5")
        assert sharing.metrics.connections()["listening"] == MOST
        opened.pop().close()
        await audience.listeners(token, MOST - 1)
        assert (await audience.ask("HEAD", path))[0] == 200
        for answer in opened:
            answer.close()
        await eventually(lambda: sharing.metrics.connections()["listening"] == 0)


async def test_who_shared_ends_it(sharing: Service) -> None:
    """Sharing ends when the speaker wants it, for all listeners. The session goes on, and the next link differs."""
    audience = Audience(sharing)
    async with connect(sharing.url, compression=None) as websocket:
        await websocket.send(START)
        token = (await receive(websocket))["token"]
        first = await audience.share(token)
        assert (await audience.share(token))["id"] == first["id"]
        assert len(first["id"]) >= 32
        reading = asyncio.create_task(audience.ask("GET", first["events"]))
        await audience.listeners(token, 1)
        assert (await audience.ask("DELETE", PATH, {"token": token}))[0] == 204
        assert (await reading)[2].endswith(b"event: end\ndata: {}\n\n")
        assert (await audience.ask("GET", first["events"]))[0] == 404
        assert (await audience.share(token))["id"] != first["id"]
        await websocket.send('{"type":"stop"}')
        assert (await rest(websocket))[-1]["type"] == "done"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [({"token": "unknown"}, 404, "unknown_token"), ({"token": 7}, 400, "bad_json"), ([], 400, "bad_json")],
)
async def test_what_cannot_be_shared(sharing: Service, body: object, status: int, code: str) -> None:
    """Without the token of a present session there is no link, and the answer says why."""
    answer = await Audience(sharing).ask("POST", PATH, body)
    assert (answer[0], json.loads(answer[2])["error"]["code"]) == (status, code)


async def test_sharing_is_off_by_default(service: Service) -> None:
    """Without --share nobody can make a link, and the sentence says who could allow it."""
    async with connect(service.url, compression=None) as websocket:
        await websocket.send(START)
        token = (await receive(websocket))["token"]
        status, _, content = await Audience(service).ask("POST", PATH, {"token": token})
        assert (status, "--share" in json.loads(content)["error"]["message"]) == (403, True)


async def test_only_the_key_of_a_session_shares_it(triton: TritonServer, keys: KeyFile) -> None:
    """Another key and a page of another site get no link, even with the token; listeners need no key."""
    policy = PortPolicy(AccessRules(keys), listeners=MOST)
    async with serving(triton, policy=policy) as service:
        audience = Audience(service)
        mine, other = ({"Authorization": f"Bearer {each.secret}"} for each in (ALICE, BOB))
        async with connect(service.url, compression=None, additional_headers=mine) as websocket:
            await websocket.send(START)
            body = {"token": (await receive(websocket))["token"]}
            for headers, status in ((other, 404), ({}, 401), ({**mine, "Origin": "https://example.org"}, 403)):
                assert (await audience.ask("POST", PATH, body, **headers))[0] == status
            path = (await audience.share(body["token"], **mine))["events"]
            reading = asyncio.create_task(audience.ask("GET", path))
            await websocket.send(SPOKEN)
            await websocket.send('{"type":"stop"}')
            await rest(websocket)
        assert texts((await reading)[2])[-1:] in ([WORDS[1]], [])


async def test_a_shutdown_ends_it(triton: TritonServer) -> None:
    """A service that shuts down does not wait for listeners: they end with their session."""
    async with serving(triton, policy=PortPolicy(listeners=MOST)) as service:
        audience = Audience(service)
        websocket = await connect(service.url, compression=None)
        await websocket.send(START)
        token = (await receive(websocket))["token"]
        path = (await audience.share(token))["events"]
        reading = asyncio.create_task(audience.ask("GET", path))
        await audience.listeners(token, 1)
    assert (await reading)[2].endswith(b"event: end\ndata: {}\n\n")
    await websocket.close()
