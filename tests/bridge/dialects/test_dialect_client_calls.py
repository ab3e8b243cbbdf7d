"""Calls with a real service: words over webhooks and captions, callers that hang up, faults, refusals, the shutdown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from streamer.bridge.access.call_signatures import SIGNATURE, CallSignatures
from streamer.bridge.access.keys import KeyFile, SecretFile
from streamer.bridge.access.quotas import Fetch, QuotaLimits
from streamer.bridge.access.rules import AccessRules, PortPolicy, WebhookRules
from streamer.bridge.captions import PATH as CAPTIONS
from streamer.bridge.service import Service
from streamer.bridge.triton.server import TritonServer
from streamer.testing import say, silence
from streamer.testing.exact_service import ExactService
from streamer.wire.dialects.twilio import INBOUND, OUTBOUND, PATH
from tests.bridge.access.bare_port import ALICE, OTHER, TOKEN, bearer, signature
from tests.bridge.dialects.realtime_client import slowly
from tests.bridge.service_client import eventually
from tests.bridge.uploads.uploading import post
from workshop.soak.calls import CHUNK, STOP, begin, media, mulaw
from workshop.soak.webhook_receiver import WebhookReceiver

SESSIONS = 3
CALLER = mulaw(np.concatenate([say("hello there"), silence(1500), say("bye")]))
CALLED = mulaw(np.concatenate([silence(900), say("good morning")]))


def chunks(audio: bytes) -> list[bytes]:
    """Divide audio as Twilio does."""
    return [audio[place : place + CHUNK] for place in range(0, len(audio), CHUNK)]


def texts(events: list[dict[str, Any]], track: str = INBOUND) -> list[str]:
    """Return the finals of a direction, without capitals and marks."""
    finals = [event["data"] for event in events if event["type"] == "final"]
    return [final["text"].lower().strip(".,") for final in finals if final["track"] == track]


def address(url: str) -> str:
    """Return where the service takes calls."""
    return f"ws://{urlsplit(url).netloc}{PATH}"


def figures(url: str) -> str:
    """Return the metrics."""
    return post(url, "/metrics", method="GET")[2].decode()


async def call(websocket: ClientConnection, audio: bytes = CALLER) -> None:
    """Send the audio of a call."""
    for number, chunk in enumerate(chunks(audio)):
        await websocket.send(media(chunk, 20 * number))


def with_secret(folder: Path, calls: str = "") -> WebhookRules:
    """Return rules for webhooks at any address."""
    (folder / "secrets").write_text("the-secret-of-everybody\n")
    return WebhookRules(Fetch.ANY, calls, SecretFile(folder / "secrets"))


@pytest.fixture(scope="module")
def exchange(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExactService]:
    """Provide a service that takes calls, posts words anywhere, and has listeners."""
    access = AccessRules(calls=CallSignatures(unsigned=True))
    policy = PortPolicy(access, listeners=4, webhooks=with_secret(tmp_path_factory.mktemp("rules")))
    with ExactService(slots=SESSIONS + 1, policy=policy) as service:
        yield service


async def test_both_directions(exchange: ExactService) -> None:
    """Each is heard for itself, and what the webhook gets says which one it is. Twilio itself gets nothing."""
    async with WebhookReceiver() as receiver, connect(address(exchange.url)) as websocket:
        await websocket.send('{"event":"connected","protocol":"Call","version":"1.0.0"}')
        await websocket.send(begin(INBOUND, OUTBOUND, call="CA77", streamer_webhook=receiver.url, name="Jane"))
        for number, chunk in enumerate(chunks(CALLER)):
            await websocket.send(media(chunk, 20 * number))
            if number < len(chunks(CALLED)):
                await websocket.send(media(chunks(CALLED)[number], 20 * number, OUTBOUND))
        await websocket.send('{"event":"dtmf","dtmf":{"track":"inbound_track","digit":"5"}}')
        await websocket.send(STOP)
        await websocket.wait_closed()
        events = await receiver.until_ended()
    assert websocket.close_code == 1000
    assert texts(events) == ["hello there", "bye"]
    assert texts(events, OUTBOUND) == ["good morning"]
    started, ended = events[0], events[-1]
    assert (started["type"], started["data"]["parameters"]) == ("started", {"name": "Jane"})
    assert (started["data"]["tracks"], started["data"]["channels"]) == ([INBOUND, OUTBOUND], 2)
    assert {event["data"]["call_sid"] for event in events} == {"CA77"}
    assert [event["data"]["digit"] for event in events if event["type"] == "dtmf"] == ["5"]
    assert ended["data"]["reason"] == "done"
    assert abs(ended["data"]["audio_ms"] - len(CALLER) / 16) < 60
    [final] = [event["data"] for event in events if event["type"] == "final" and event["data"]["channel"] == 1]
    assert abs(final["start_ms"] - 900) < 150


@pytest.mark.parametrize("way", ["closed", "cut off", "closed after the end", "nonsense", "no frames"])
async def test_a_caller_that_hangs_up(exchange: ExactService, way: str) -> None:
    """What was said until then is heard, although nobody is there any more."""
    async with WebhookReceiver() as receiver:
        async with connect(address(exchange.url)) as websocket:
            await websocket.send(begin(streamer_webhook=receiver.url))
            await call(websocket)
            if way == "closed after the end":
                await websocket.send(STOP)
            if way == "nonsense":
                await websocket.send("{")
            if way == "no frames":
                websocket.transport.write(b"\xff" * 100)
            if way == "cut off":  # when everything has arrived
                await eventually(lambda: any(event["type"] == "final" for event in receiver.events))
                websocket.transport.abort()
        events = await receiver.until_ended()
    assert texts(events) == ["hello there", "bye"][: len(texts(events)) if way == "cut off" else 2]
    assert events[-1]["data"]["reason"] == "done"
    await eventually(lambda: 'protocol="twilio",state="streaming"} 0.0' in figures(exchange.url))


async def test_a_killed_triton_is_a_pause(exchange: ExactService) -> None:
    """In the middle of a call: no word is lost or doubled, and no event comes twice."""
    async with WebhookReceiver() as receiver, connect(address(exchange.url)) as websocket:
        await websocket.send(begin(streamer_webhook=receiver.url))
        for number, chunk in enumerate(chunks(CALLER)):
            await websocket.send(media(chunk, 20 * number))
            if number == len(chunks(CALLER)) // 2:
                await eventually(lambda: 'protocol="twilio",state="streaming"} 1.0' in figures(exchange.url))
                await asyncio.to_thread(exchange.kill_recogniser)
        await websocket.send(STOP)
        await websocket.wait_closed()
        events = await receiver.until_ended()
    assert " ".join(texts(events)) == "hello there bye"
    assert [event["data"]["number"] for event in events] == list(range(1, len(events) + 1))
    await eventually(lambda: post(exchange.url, "/readyz", method="GET")[0] == 200)


async def test_a_telephone(exchange: ExactService) -> None:
    """Its audio has 8 kHz. A network that sends no times is heard as well."""
    audio = mulaw(np.concatenate([slowly("hello", 8000), np.zeros(12_000, np.int16), slowly("bye", 8000)]))
    for times in (True, False):
        async with WebhookReceiver() as receiver, connect(address(exchange.url)) as websocket:
            await websocket.send(begin(streamer_webhook=receiver.url).replace("16000", "8000"))
            for place in range(0, len(audio), 160):
                message = json.loads(media(audio[place : place + 160], place // 8))
                if not times:
                    del message["media"]["timestamp"]
                await websocket.send(json.dumps(message))
            await websocket.send(STOP)
            await websocket.wait_closed()
            assert texts(await receiver.until_ended()) == ["hello", "bye"]


async def test_an_audience_of_a_call(exchange: ExactService) -> None:
    """Whoever knows the number of the call, and has its key, gets a link with which anybody reads along."""
    async with connect(address(exchange.url)) as websocket:
        await websocket.send(begin(call="CA88"))
        await call(websocket)
        await eventually(lambda: 'protocol="twilio",state="streaming"} 1.0' in figures(exchange.url))
        status, _, content = await asyncio.to_thread(post, exchange.url, CAPTIONS, '{"call":"CA88"}')
        assert status == 200, content
        reading = asyncio.create_task(
            asyncio.to_thread(post, exchange.url, json.loads(content)["events"], method="GET")
        )
        assert (await asyncio.to_thread(post, exchange.url, CAPTIONS, '{"call":"CA89"}'))[0] == 404
        await eventually(lambda: json.loads(post(exchange.url, CAPTIONS, '{"call":"CA88"}')[2])["listeners"] == 1)
        await call(websocket)
        await websocket.send(STOP)
        status, _, stream = await reading
    assert (status, b"event: final" in stream, stream.endswith(b"event: end\ndata: {}\n\n")) == (200, True, True)


async def test_a_full_service(exchange: ExactService) -> None:
    """A call for which there is no place is refused before the upgrade."""
    await eventually(lambda: json.loads(post(exchange.url, "/readyz", method="GET")[2])["sequences"] == 0)
    taken = [await connect(address(exchange.url)) for _ in range(SESSIONS)]
    try:
        for websocket in taken:
            await websocket.send(begin())
        await eventually(lambda: json.loads(post(exchange.url, "/readyz", method="GET")[2])["sequences"] == SESSIONS)
        with pytest.raises(InvalidStatus) as refused:
            await connect(address(exchange.url))
        assert refused.value.response.status_code == 503
        assert int(refused.value.response.headers["Retry-After"]) > 0
    finally:
        for websocket in taken:
            await websocket.close()


async def test_signatures_keys_and_quotas(exact_triton: TritonServer, keys: KeyFile, tmp_path: Path) -> None:
    """A signature admits a call as one of the key of its account, with that key's limits and the operator's webhook."""
    (tmp_path / "tokens").write_text(f"alice:{TOKEN}\nbob:{OTHER}\n")
    calls = CallSignatures(SecretFile(tmp_path / "tokens"))
    access = AccessRules(keys, calls=calls, quotas=QuotaLimits(per_key=1))
    async with AsyncExitStack() as stack:
        receiver = await stack.enter_async_context(WebhookReceiver())
        policy = PortPolicy(access, webhooks=with_secret(tmp_path, receiver.url))
        service = await stack.enter_async_context(Service(exact_triton.grpc_address, port=0, policy=policy))
        at = address(service.url)
        signed = {SIGNATURE: signature(at.replace("ws://", "wss://"))}
        for headers, status in (({}, 401), ({SIGNATURE: signature("wss://else.example/twilio")}, 401)):
            with pytest.raises(InvalidStatus) as refused:
                await connect(at, additional_headers=headers)
            assert refused.value.response.status_code == status
            assert len(json.loads(refused.value.response.body or b"")["error"]["message"].split()) > 5
        async with connect(at, additional_headers=signed) as websocket:
            await websocket.send(begin())
            await call(websocket)
            for headers in (signed, bearer(ALICE.secret)):  # both count as Alice
                with pytest.raises(InvalidStatus) as refused:
                    await connect(at, additional_headers=headers)
                assert refused.value.response.status_code == 429
            await websocket.send(STOP)
            await websocket.wait_closed()
        events = await receiver.until_ended()
    assert (texts(events), events[0]["data"]["key"]) == (["hello there", "bye"], "alice")


async def test_the_shutdown(exact_triton: TritonServer, tmp_path: Path) -> None:
    """What was said is heard and delivered before the service ends; Twilio learns that it may come again."""
    async with AsyncExitStack() as stack:
        receiver = await stack.enter_async_context(WebhookReceiver())
        access = AccessRules(calls=CallSignatures(unsigned=True))
        policy = PortPolicy(access, webhooks=with_secret(tmp_path, receiver.url))
        service = Service(exact_triton.grpc_address, port=0, policy=policy)
        async with service:
            websocket = await connect(address(service.url))
            await websocket.send(begin())
            for number, chunk in enumerate(chunks(mulaw(say("heard")))):
                await websocket.send(media(chunk, 20 * number))
            running = 'protocol="twilio",state="streaming"} 1.0'
            await eventually(lambda: running in service.metrics.exposition().decode())
        await websocket.wait_closed()
        events = receiver.events
    assert websocket.close_code == 1013
    assert (texts(events), events[-1]["data"]["reason"]) == (["heard"], "shutting_down")
