"""The sessions of a service, as an operator sees and ends them over HTTP, in each way in which a client speaks."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from streamer.bridge.access.keys import KeyFile, Role, make_key
from streamer.bridge.access.rules import AccessRules, PortPolicy
from streamer.bridge.http.request import Headers, Request
from streamer.bridge.service import Service
from streamer.bridge.telemetry.usage import Usage, UsageRecord
from streamer.bridge.triton.server import TritonServer
from streamer.client import SessionError
from streamer.client import connect as connect_native
from streamer.testing.faulty_proxy import FaultyProxy
from streamer.wire.dialects.formats import FORMATS
from tests.bridge.access.bare_port import ALICE, listening
from tests.bridge.service_client import SPOKEN, START, eventually, receive, rest, serving

ADMIN = make_key("operator", Role.ADMIN)
UNKNOWN = "0123456789abcdef"


async def ask(
    url: str, path: str, secret: str = "", method: str = "GET", **headers: str
) -> tuple[int, dict[str, Any], http.client.HTTPMessage]:
    """Return the status, the content and the header of an answer."""

    def exchange() -> tuple[int, dict[str, Any], http.client.HTTPMessage]:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
        try:
            own = {"Authorization": f"Bearer {secret}"} if secret else {}
            connection.request(method, path, headers={**own, **headers})
            response = connection.getresponse()
            return response.status, json.loads(response.read()), response.headers
        finally:
            connection.close()

    return await asyncio.to_thread(exchange)


async def listed(service: Service) -> list[dict[str, Any]]:
    """The live sessions."""
    status, content, _ = await ask(service.url, "/v1/admin/sessions", ADMIN.secret)
    assert (status, content["problems"]) == (200, [])
    sessions: list[dict[str, Any]] = content["sessions"]
    return sessions


async def end(service: Service, number: str) -> tuple[int, dict[str, Any]]:
    status, content, _ = await ask(service.url, f"/v1/admin/sessions/{number}", ADMIN.secret, "DELETE")
    return status, content


@pytest.fixture
def access(tmp_path: Path) -> AccessRules:
    """Admit Alice and an operator."""
    (tmp_path / "keys").write_text(f"{ALICE.line}\n{ADMIN.line}\n")
    return AccessRules(KeyFile(tmp_path / "keys"))


@asynccontextmanager
async def administered(triton: TritonServer, access: AccessRules) -> AsyncIterator[Service]:
    async with serving(triton, policy=PortPolicy(access)) as service:
        yield service


async def none_is_left(service: Service) -> None:
    """Wait until no session is listed, which happens just after its client has been told of its end."""
    for _ in range(600):
        if not (sessions := await listed(service)):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(sessions)


async def parked(service: Service) -> str:
    """Wait until the only session waits for its client. Return its id."""
    for _ in range(600):
        [session] = await listed(service)
        if session["state"] == "parked":
            return str(session["id"])
        await asyncio.sleep(0.05)
    raise AssertionError(session)


async def test_who_may_ask(access: AccessRules) -> None:
    """Only an admin key may; every other caller is told why not, and a page of another site is not answered."""
    async with listening(access) as server:
        for path, method in (("/v1/admin/sessions", "GET"), (f"/v1/admin/sessions/{UNKNOWN}", "DELETE")):
            short, _ = access.make_short_key(access.holder(request(ADMIN.secret)), 60)
            for secret, status, code in (
                ("", 401, "unauthorized"),
                ("streamer_nonsense", 401, "unauthorized"),
                (short, 401, "unauthorized"),
                (ALICE.secret, 403, "forbidden"),
            ):
                answer = await ask(server.url, path, secret, method)
                assert (answer[0], answer[1]["error"]["code"]) == (status, code)
            answer = await ask(server.url, path, ADMIN.secret, method, Origin="https://elsewhere.example")
            assert (answer[0], answer[1]["error"]["code"]) == (403, "bad_origin")
        assert (await ask(server.url, "/v1/admin/sessions", ADMIN.secret))[:2] == (
            200,
            {"sessions": [], "problems": []},
        )
        assert (await ask(server.url, "/v1/admin/sessions", ADMIN.secret, "DELETE"))[0] == 405


def request(secret: str) -> Any:
    return Request("POST", "/", headers=Headers([("Authorization", f"Bearer {secret}")]), peer="127.0.0.1")


async def test_a_service_without_keys() -> None:
    """Nobody is an operator over HTTP, whatever key is sent, and the answer says what to do."""
    async with listening() as server:
        status, content, _ = await ask(server.url, "/v1/admin/sessions", ADMIN.secret)
        assert (status, content["error"]["code"]) == (403, "forbidden")
        assert "`streamer sessions`" in content["error"]["message"]


@pytest.mark.parametrize("number", [UNKNOWN, "nonsense", "%2e%2e", "0" * 5000])
async def test_an_unknown_session(access: AccessRules, number: str) -> None:
    """A session that does not exist is not found."""
    async with listening(access) as server:
        status, content, _ = await ask(server.url, f"/v1/admin/sessions/{number}", ADMIN.secret, "DELETE")
        assert (status, content["error"]["code"]) == (404, "not_found")
        assert len(content["error"]["message"]) < 120


async def test_usage(access: AccessRules, tmp_path: Path) -> None:
    """The usage of a day and its month comes from the file; a wrong day, and a service without a file, are told."""
    path = tmp_path / "usage.json"
    place = "/v1/admin/usage?day=2026-10-31"
    async with listening(access) as server:
        status, content, _ = await ask(server.url, place, ADMIN.secret)
        assert (status, content["error"]["code"]) == (404, "not_found")
        assert "--usage-file" in content["error"]["message"]
    async with listening(access, usage_path=path) as server:
        status, content, headers = await ask(server.url, place, ADMIN.secret)
        assert (status, content["error"]["code"], headers["Retry-After"]) == (503, "not_ready", "5")
        record = UsageRecord({"2026-10-31": {"alice": Usage(1, 2.5, 0)}}, {"2026-10": {"alice": Usage(2, 3.5, 1)}})
        path.write_text(record.text())
        alice = {
            "day": {"sessions": 1, "audio_s": 2.5, "refusals": 0},
            "month": {"sessions": 2, "audio_s": 3.5, "refusals": 1},
        }
        expected = {"day": "2026-10-31", "month": "2026-10", "keys": {"alice": alice}, "problems": []}
        assert (await ask(server.url, place, ADMIN.secret))[:2] == (200, expected)
        status, content, _ = await ask(server.url, "/v1/admin/usage", ADMIN.secret)
        assert (status, content["keys"]) == (200, {})
        status, content, _ = await ask(server.url, "/v1/admin/usage?day=monday", ADMIN.secret)
        assert (status, content["error"]["code"]) == (400, "bad_request")
        assert (await ask(server.url, place, ALICE.secret))[0] == 403


async def test_a_session_is_seen_and_ended(triton: TritonServer, access: AccessRules) -> None:
    """The list has the session without its words, its client gets its finals and the reason, and it is counted."""
    async with administered(triton, access) as service:
        async with connect(service.url, additional_headers={"Authorization": f"Bearer {ALICE.secret}"}) as websocket:
            await websocket.send(START)
            ready = await receive(websocket)
            await websocket.send(SPOKEN[: len(SPOKEN) // 2])
            events = [await receive(websocket)]
            while events[-1]["type"] != "partial":
                events.append(await receive(websocket))
            [session] = await listed(service)
            assert session == {
                "id": ready["session"], "key": "alice", "format": "native", "model": "default", "state": "streaming",
                "age_s": session["age_s"], "audio_s": session["audio_s"], "lag_s": session["lag_s"],
                "worker": 0, "bridge": "",
            }  # fmt: skip
            assert 0 <= session["age_s"] < 60
            assert session["audio_s"] > 0
            assert await end(service, session["id"]) == (200, {"id": session["id"]})
            events += await rest(websocket)
            assert "final" in [event["type"] for event in events]
            assert (events[-1]["code"], websocket.close_code) == ("ended_by_operator", 1008)
        await eventually(lambda: 'sessions_ended_total{reason="ended_by_operator"} 1.0' in metrics_of(service))
        await none_is_left(service)
        assert (await end(service, session["id"]))[0] == 404


async def test_a_client_that_is_away(triton: TritonServer, access: AccessRules) -> None:
    """A session that waits for its client is seen as parked, and cannot be resumed when it was ended."""
    async with administered(triton, access) as service:
        headers = {"Authorization": f"Bearer {ALICE.secret}"}
        async with connect(service.url, additional_headers=headers) as websocket:
            await websocket.send(START)
            ready = await receive(websocket)
            websocket.transport.abort()
        assert (await end(service, await parked(service)))[0] == 200
        async with connect(service.url, additional_headers=headers) as websocket:
            await websocket.send(json.dumps({"type": "start", "resume": {"token": ready["token"], "after": 1}}))
            [error] = await rest(websocket)
            assert (error["code"], websocket.close_code) == ("ended_by_operator", 1008)


@pytest.mark.parametrize("away", [False, True])
async def test_our_client(triton: TritonServer, access: AccessRules, away: bool) -> None:
    """It tells its user who has ended the session, and does not begin it again, connected or away."""
    async with administered(triton, access) as service:
        way = FaultyProxy(lambda: f"127.0.0.1:{service.port}")
        await way.open()
        try:
            async with connect_native(f"ws://{way.address}/v1/stream?key={ALICE.secret}") as session:
                await session.send(SPOKEN[:64_000])
                [live] = await listed(service)
                if away:
                    way.refusing = True
                    await way.cut()
                    await parked(service)
                assert (await end(service, live["id"]))[0] == 200
                way.refusing = False
                with pytest.raises(SessionError) as caught:
                    async for _ in session:
                        pass
                assert caught.value.code == "ended_by_operator"
        finally:
            await way.close()
        await none_is_left(service)


async def test_an_upload(triton: TritonServer, access: AccessRules) -> None:
    """A recording that is being sent is a session, too; its request is refused with the code, and is not repeated."""
    async with administered(triton, access) as service:
        reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
        head = "POST /v1/transcribe?encoding=pcm_s16le&sample_rate=16000 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer "
        head += f"{ALICE.secret}\r\nContent-Length: {2 * len(SPOKEN)}\r\n\r\n"
        writer.write(head.encode() + SPOKEN)
        for _ in range(600):
            if sessions := await listed(service):
                break
            await asyncio.sleep(0.05)
        assert [(each["key"], each["format"]) for each in sessions] == [("alice", "http")]
        assert (await end(service, sessions[0]["id"]))[0] == 200
        answer = await asyncio.wait_for(reader.read(), 60)
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "ended_by_operator"
        writer.close()


@pytest.mark.parametrize("format", ["deepgram", "openai-realtime", "vosk", "soniox"])
async def test_clients_of_other_services(triton: TritonServer, access: AccessRules, format: str) -> None:
    """Their connections end with a close that makes them give up, and in the list they have their format."""
    opening = {
        "deepgram": ("?encoding=linear16&sample_rate=16000", []),
        "openai-realtime": ("?intent=transcription", []),
        "vosk": ("", []),
        "soniox": (
            "",
            [json.dumps({"api_key": "", "model": "x", "audio_format": "pcm_s16le", "sample_rate": 16000,
                         "num_channels": 1})],
        ),
    }  # fmt: skip
    query, first = opening[format]
    async with administered(triton, access) as service:
        url = service.url.rpartition("/v1/")[0] + FORMATS[format].path + query
        async with connect(url, additional_headers={"Authorization": f"Bearer {ALICE.secret}"}) as websocket:
            for message in first:
                await websocket.send(message)
            if format == "openai-realtime":
                audio = base64.b64encode(SPOKEN[:64_000]).decode()
                await websocket.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
            else:
                await websocket.send(SPOKEN[:64_000])
            for _ in range(600):
                if sessions := await listed(service):
                    break
                await asyncio.sleep(0.05)
            assert [each["format"] for each in sessions] == [FORMATS[format].protocol]
            assert (await end(service, sessions[0]["id"]))[0] == 200
            with suppress(ConnectionClosed):
                while True:
                    await asyncio.wait_for(websocket.recv(), 60)
            assert websocket.close_code == 1008


def metrics_of(service: Service) -> str:
    return service.metrics.exposition().decode()
