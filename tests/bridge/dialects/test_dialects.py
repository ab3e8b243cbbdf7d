"""Who may open a websocket in a foreign format, and how long it may rest between sessions, without a recogniser."""

from __future__ import annotations

import json
import threading

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from streamer.bridge.access.keys import KeyFile
from streamer.bridge.access.rules import AccessRules
from streamer.bridge.dialects import dialects
from streamer.bridge.server import BridgeServer
from streamer.testing import say
from streamer.testing.exact_service import ExactService
from tests.bridge.access.bare_port import ALICE, listening
from tests.bridge.dialects.deepgram_client import LINEAR, address
from tests.bridge.dialects.realtime_client import COMPLETED, DELTA, RealtimeClient, realtime, spoken
from tests.bridge.http.asking import ask


async def refused(server: BridgeServer, *offered: str, **headers: str) -> tuple[int, str]:
    """Return the status and the code with which a websocket is refused."""
    with pytest.raises(InvalidStatus) as caught:
        await connect(
            address(server.url, LINEAR),
            additional_headers=headers,
            subprotocols=[Subprotocol(name) for name in offered] or None,
        )
    response = caught.value.response
    return response.status_code, json.loads(response.body or b"")["err_code"]


ADMITTED = (503, "SERVICE_UNAVAILABLE")  # there is no recogniser, but the key is right


@pytest.mark.parametrize("scheme", ["Token", "token", "Bearer", "BEARER"])
async def test_a_key_in_the_header(keys: KeyFile, scheme: str) -> None:
    """The scheme of a key in the header may have any case."""
    async with listening(AccessRules(keys)) as server:
        assert await refused(server, Authorization=f"{scheme} {ALICE.secret}") == ADMITTED
        assert await refused(server, Authorization=f"{scheme} wrong") == (401, "INVALID_AUTH")


async def test_a_key_as_a_subprotocol(keys: KeyFile) -> None:
    """A key may be a subprotocol, as browsers send it."""
    async with listening(AccessRules(keys)) as server:
        assert await refused(server) == (401, "INVALID_AUTH")
        for names in (("token", ALICE.secret), ("bearer", ALICE.secret), ("token", ALICE.secret, "x-session", "5")):
            assert await refused(server, *names) == ADMITTED
        assert await refused(server, "token") == (401, "INVALID_AUTH")
        assert await refused(server, "token", "wrong") == (401, "INVALID_AUTH")


async def test_a_page_of_another_site(keys: KeyFile) -> None:
    """A page of another site is refused, as at other paths."""
    async with listening(AccessRules(keys)) as server:
        headers = {"Authorization": f"Token {ALICE.secret}", "Origin": "https://elsewhere.example"}
        assert await refused(server, **headers) == (403, "INSUFFICIENT_PERMISSIONS")


async def test_a_plain_request() -> None:
    """A plain request without an upgrade learns that an upgrade is needed."""
    async with listening() as server:
        status, _, text = await ask(server, "/v1/listen")
        assert (status, json.loads(text)["err_code"]) == (426, "UPGRADE_REQUIRED")


async def test_a_page_that_is_allowed(keys: KeyFile) -> None:
    """The browser of an allowed page may ask first whether it may send a recording with a key."""
    async with listening(AccessRules(keys, origins=["https://elsewhere.example"])) as server:
        asked = {"Origin": "https://elsewhere.example", "Access-Control-Request-Headers": "authorization"}
        status, headers, _ = await ask(server, "/v1/listen", method="OPTIONS", **asked)
        assert (status, headers["Access-Control-Allow-Methods"]) == (204, "GET, POST")
        assert headers["Access-Control-Allow-Origin"] == "https://elsewhere.example"


async def test_too_many_options() -> None:
    """Too many options are refused before any work."""
    async with listening() as server:
        with pytest.raises(InvalidStatus) as caught:
            await connect(address(server.url, "&".join(["tag=a"] * 500)))
        assert caught.value.response.status_code == 400


AT_16 = {"type": "audio/pcm", "rate": 16_000}


def test_only_so_many_may_rest(exact: ExactService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a limited number of websockets may rest; those that have a session do not count."""
    monkeypatch.setattr(dialects, "MOST_RESTING", 1)
    with realtime(exact.url) as client:
        with pytest.raises(InvalidStatus) as caught, realtime(exact.url):
            pass
        assert caught.value.response.status_code == 503
        assert json.loads(caught.value.response.body or b"")["error"]["code"] == "busy"
        client.update(format=AT_16)
        client.append(spoken(say("now it speaks")))
        client.until(DELTA)
        with realtime(exact.url):
            pass


def test_nobody_may_rest_for_ever(exact: ExactService, monkeypatch: pytest.MonkeyPatch) -> None:
    """A websocket that rests for too long gets an error and a normal close."""
    monkeypatch.setattr(dialects, "LONGEST_REST_S", 0.1)
    with realtime(exact.url) as client:
        assert client.receive()["error"]["code"] == "session_expired"
        with pytest.raises(ConnectionClosed):
            client.receive()
        assert client.websocket.close_code == 1000


def test_events_come_in_the_order_in_which_they_were_made(exact: ExactService) -> None:
    """Events come in order, although different tasks send results and answers to the client's events."""
    with realtime(exact.url) as client:
        client.update(format=AT_16, turn_detection=None)
        sending = threading.Thread(target=_commit_often, args=(client,))
        sending.start()
        while len(client.transcripts()) < 12:
            client.receive()
        sending.join()
    numbers = [int(event["event_id"].rpartition("_")[2]) for event in client.events]
    assert numbers == sorted(numbers)
    assert client.transcripts() == ["Word"] * 12
    assert client.events[-1]["type"] == COMPLETED


def _commit_often(client: RealtimeClient) -> None:
    for _ in range(12):
        client.append(say("word"))
        client.send("input_audio_buffer.commit")
