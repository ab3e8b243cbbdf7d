"""Access, tested with real websockets and real TLS, and with a real Triton where words must come back."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.asyncio.client import ClientConnection, connect

from streamer.bridge import server as port
from streamer.bridge.access.certificate import Certificate
from streamer.bridge.access.keys import KeyFile, make_key
from streamer.bridge.access.proxies import Proxies
from streamer.bridge.access.quotas import QuotaLimits
from streamer.bridge.access.rules import AccessRules, PortPolicy, origin_of
from streamer.bridge.triton.server import TritonServer
from streamer.client import SessionError, transcribe
from tests.bridge.access.bare_port import ADMITTED, ALICE, BOB, START, ask, bearer, listening, outcome, started
from tests.bridge.access.certificate_authority import Authority
from tests.bridge.service_client import SPOKEN, receive, rest, serving, session, text
from tests.samples import pcm
from tests.triton_processes import no_streams

# Keys


async def test_a_key_lets_in_from_each_of_its_places(keys: KeyFile) -> None:
    """A key is accepted in headers, subprotocol and query; an unknown one is refused with 1008 in each."""
    async with listening(AccessRules(keys)) as server:
        for secret, expected in ((ALICE.secret, ADMITTED), ("streamer_guess", ("unauthorized", 1008))):
            assert await outcome(server.url, bearer(secret)) == expected
            assert await outcome(server.url, {"authorization": f"bearer  {secret}"}) == expected
            assert await outcome(server.url, {"authorization": secret}) == expected
            assert await outcome(server.url, {"api-key": secret}) == expected
            assert await outcome(server.url, {"xi-api-key": secret}) == expected
            assert await outcome(server.url, {"Ocp-Apim-Subscription-Key": secret}) == expected
            assert await outcome(f"{server.url}?key={secret}") == expected
            assert await outcome(f"{server.url}?jwt={secret}") == expected
            assert await outcome(f"{server.url}?api-version=1&api-key={secret}") == expected
            assert await outcome(f"{server.url}?Ocp-Apim-Subscription-Key={secret}") == expected
            assert await outcome(f"{server.url}?Authorization=Bearer%20{secret}") == expected
            assert await outcome(server.url, subprotocols=["streamer", f"streamer.key.{secret}"]) == expected
            assert await outcome(server.url, subprotocols=["streamer", "soniox-api-key", secret]) == expected
        assert await outcome(server.url) == ("unauthorized", 1008)
        assert await outcome(server.url, {"Authorization": "Basic abc"}) == ("unauthorized", 1008)
        assert b'streamer_refusals_total{reason="unauthorized"} 15.0' in server._metrics.exposition()


async def test_a_key_is_never_answered_with(keys: KeyFile) -> None:
    """The service answers with the subprotocol offered beside the key, as browsers require, never with the key."""
    async with listening(AccessRules(keys)) as server:
        for offered in (["streamer", f"streamer.key.{ALICE.secret}"], [f"streamer.key.{ALICE.secret}", "streamer"]):
            async with connect(server.url, subprotocols=offered) as websocket:  # type: ignore[arg-type]
                assert websocket.subprotocol == "streamer"
                assert websocket.response is not None
                assert ALICE.secret not in str(websocket.response.headers)
        async with connect(server.url, subprotocols=[f"streamer.key.{ALICE.secret}"]) as websocket:  # type: ignore[list-item]
            assert websocket.subprotocol is None
            assert await started(websocket) == ADMITTED


async def test_a_key_is_taken_away_without_a_restart(keys: KeyFile, tmp_path: Path) -> None:
    """A removed key is refused from the next session on."""
    async with listening(AccessRules(keys)) as server:
        assert await outcome(server.url, bearer(ALICE.secret)) == ADMITTED
        (tmp_path / "keys").write_text(f"{BOB.line}\n")
        assert await outcome(server.url, bearer(ALICE.secret)) == ("unauthorized", 1008)
        assert await outcome(server.url, bearer(BOB.secret)) == ADMITTED


async def test_an_expired_key(tmp_path: Path) -> None:
    """A key that has expired is refused, and is told when that was."""
    old, new = make_key("guest", expires_at=1.0), make_key("guest", expires_at=time.time() + 3600)
    (tmp_path / "keys").write_text(f"{old.line}\n{new.line}\n")
    async with listening(AccessRules(KeyFile(tmp_path / "keys"))) as server:
        async with connect(server.url, additional_headers=bearer(old.secret)) as websocket:
            [error] = await rest(websocket)
        assert (error["code"], websocket.close_code) == ("unauthorized", 1008)
        assert error["message"] == (
            "This key expired at 1970-01-01T00:00:01Z; ask the operator of the service for another one."
        )
        assert await outcome(server.url, bearer(new.secret)) == ADMITTED


async def test_plain_http(keys: KeyFile) -> None:
    """Probes need no key; metrics do, unless they are open; plain HTTP at the websocket's path tells the status."""
    async with listening(AccessRules(keys)) as server:
        assert (await ask(server.url, "/healthz"))[0] == 200
        assert (await ask(server.url, "/readyz"))[0] == 503
        for path in ("/metrics", "/v1/stream"):
            status, headers = await ask(server.url, path)
            assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
            assert (await ask(server.url, path, **bearer("nothing")))[0] == 401
        assert (await ask(server.url, "/metrics", **bearer(ALICE.secret)))[0] == 200
        assert (await ask(server.url, f"/metrics?key={ALICE.secret}"))[0] == 200
        assert (await ask(server.url, "/v1/stream", **bearer(ALICE.secret)))[0] == 426
    async with listening(AccessRules(keys, open_metrics=True)) as server:
        assert (await ask(server.url, "/metrics"))[0] == 200


async def test_audio_behind_a_refusal_does_not_hold_it_up(keys: KeyFile) -> None:
    """A client that sends much before it reads still gets the reason of a refusal."""
    async with listening(AccessRules(keys)) as server, connect(server.url) as websocket:
        sending = asyncio.create_task(flood(websocket))
        (error,) = await rest(websocket)
        assert (error["code"], websocket.close_code) == ("unauthorized", 1008)
        await asyncio.gather(sending, return_exceptions=True)


async def flood(websocket: ClientConnection) -> None:
    await websocket.send(START)
    for _ in range(50):
        await websocket.send(bytes(100_000))


async def test_refusals_are_bounded(keys: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that does not answer a close is cut off; if there are too many of these, refusals are not explained."""
    monkeypatch.setattr(port, "CLOSE_LIMIT_S", 0.5)
    monkeypatch.setattr(port, "MOST_TURNED_AWAY", 1)
    async with listening(AccessRules(keys)) as server:
        address = urlsplit(server.url)
        request = "GET /v1/stream HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        request += "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Version: 13\r\n\r\n"

        async def refused() -> bytes:
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
            writer.write(request.encode())
            try:
                return await asyncio.wait_for(reader.read(), 60)
            except ConnectionResetError:
                return b""
            finally:
                writer.close()

        first, second = await asyncio.gather(refused(), refused())
        assert [b"unauthorized" in answer for answer in (first, second)].count(True) == 1
        assert server._turned_away == 0


async def test_our_client_shows_its_key(keys: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client sends the given key or that of the environment; it repeats the service's words, and no key."""
    async with listening(AccessRules(keys)) as server:

        async def heard(url: str, **settings: Any) -> str:
            with pytest.raises(SessionError) as caught:
                async for _ in transcribe([bytes(640)], url, **settings):
                    pass
            assert "streamer_" not in str(caught.value)
            return caught.value.code

        assert await heard(server.url) == "unauthorized"
        assert await heard(server.url, key=ALICE.secret) == "not_ready"
        assert await heard(f"{server.url}?key={ALICE.secret}") == "not_ready"
        monkeypatch.setenv("STREAMER_KEY", BOB.secret)
        assert await heard(server.url) == "not_ready"
        assert await heard(server.url, key="streamer_wrong") == "unauthorized"
    assert await heard(f"{server.url}?key={ALICE.secret}") == "away"


# Origins


@pytest.mark.parametrize(
    ("origin", "host", "admitted"),
    [
        ("http://127.0.0.1:{port}", None, True),
        ("http://localhost:3000", None, True),  # another program of this machine
        ("http://localhost:3000", "streamer.example:{port}", False),
        ("http://evil.example", None, False),
        ("null", None, False),  # what any page can pretend to be
        ("chrome-extension://abc", None, False),
        ("http://evil.example:{port}", "evil.example:{port}", False),  # a name that was pointed to this service
        ("http://[::1", None, False),
        ("http://", None, False),
        ("https://app.example", None, True),
        ("https://APP.example", None, True),
        ("https://app.example.evil.example", None, False),
        ("http://app.example", None, False),
    ],
)
async def test_origins_without_keys(origin: str, host: str | None, admitted: bool) -> None:
    """Pages of the service, of this machine and of allowed sites are admitted; so are programs, without an origin."""
    async with listening(AccessRules(origins=["https://app.example"])) as server:
        number = urlsplit(server.url).port
        headers, url = {"Origin": origin.format(port=number)}, server.url
        if host:
            url = url.replace(f"127.0.0.1:{number}", host.format(port=number))
        found = await outcome(url, headers, host="127.0.0.1", port=number)
        assert found == (ADMITTED if admitted else ("bad_origin", 1008))
        assert await outcome(server.url) == ADMITTED


async def test_origins_with_keys(keys: KeyFile) -> None:
    """A page at the service's own name is admitted with a key; pages of other sites are not, even with a key."""
    async with listening(AccessRules(keys)) as server:
        own, other = {"Origin": "http://streamer.example"}, {"Origin": "http://other.example"}
        here: dict[str, Any] = {"host": "127.0.0.1", "port": urlsplit(server.url).port}
        url = "ws://streamer.example/v1/stream"
        assert await outcome(url, own | bearer(ALICE.secret), **here) == ADMITTED
        assert await outcome(url, own, **here) == ("unauthorized", 1008)
        assert await outcome(url, other | bearer(ALICE.secret), **here) == ("bad_origin", 1008)


STATE_PATHS = ("/readyz", "/metrics", "/v1/models", "/v1/models/default")


@pytest.mark.parametrize(
    ("host", "answered"),
    [
        ("127.0.0.1:{port}", True),
        ("[::1]:{port}", True),
        ("LOCALHOST", True),
        ("page.localhost:{port}", True),
        (socket.gethostname(), True),
        ("app.example", True),  # an allowed site
        ("evil.example:{port}", False),  # a name that was pointed to this service
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example:{port}", False),
        ("evil.example@127.0.0.1", True),  # no browser sends this
        ("a b", False),
        ("[::1", False),
    ],
)
async def test_names_of_this_machine(host: str, answered: bool) -> None:
    """Without keys, a page whose name was pointed to loopback learns neither the state nor the models."""
    async with listening(AccessRules(origins=["https://app.example"])) as server:
        name = host.format(port=urlsplit(server.url).port)
        statuses = [(await ask(server.url, path, Host=name))[0] for path in STATE_PATHS]
        assert (await ask(server.url, "/healthz", Host=name))[0] == 200
    assert statuses == ([503, 200, 200, 200] if answered else [403] * 4)


async def test_names_behind_a_proxy_or_a_key(keys: KeyFile) -> None:
    """Behind a proxy, with keys or for any origin, the service has any name; programs need not send one."""
    here = Proxies(["127.0.0.1"])
    for rules in (AccessRules(proxies=here), AccessRules(proxies=Proxies(number=1)), AccessRules(origins=["*"])):
        async with listening(rules) as server:
            assert (await ask(server.url, "/metrics", Host="streamer.example"))[0] == 200
    async with listening(AccessRules(keys)) as server:
        assert (await ask(server.url, "/metrics", Host="streamer.example", **bearer(ALICE.secret)))[0] == 200
        assert (await ask(server.url, "/readyz", Host="streamer.example"))[0] == 503
    async with listening() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert (await reader.readline()).split()[1] == b"200"
        writer.close()


async def test_any_origin() -> None:
    """Any origin is admitted if that is allowed."""
    async with listening(AccessRules(origins=["*"])) as server:
        assert await outcome(server.url, {"Origin": "null"}) == ADMITTED


def test_origins_as_people_type_them() -> None:
    """Origins are brought to the form that browsers send, or refused."""
    assert origin_of("https://Example.org/") == "https://example.org"
    assert origin_of("https://example.org:443") == "https://example.org"
    assert origin_of("http://example.org:8080") == "http://example.org:8080"
    assert origin_of("*") == "*"
    assert [origin_of(text) for text in ("example.org", "https://a/b", "https://", "")] == [None] * 4


# Quotas


async def test_sessions_of_a_key(keys: KeyFile) -> None:
    """A session above the limit is refused with the seconds to wait; over plain HTTP with 429 and Retry-After."""
    async with listening(AccessRules(keys, quotas=QuotaLimits(per_key=1))) as server:
        async with connect(server.url, additional_headers=bearer(ALICE.secret)):
            async with connect(server.url, additional_headers=bearer(ALICE.secret)) as second:
                assert await started(second) == ("too_many_sessions", 1013)
                assert second.close_reason == "too many sessions: try again in 5 s"
            status, headers = await ask(server.url, "/v1/stream", **bearer(ALICE.secret))
            assert (status, headers["Retry-After"]) == (429, "5")
            assert await outcome(server.url, bearer(BOB.secret)) == ADMITTED
        await admitted_again(server.url, bearer(ALICE.secret))


async def test_sessions_of_an_address() -> None:
    """An address that a client claims counts only behind a proxy, and there only what the proxy has added."""
    for proxies, told, admitted in (
        (0, "10.9.9.9", False),
        (1, "10.9.9.9", True),
        (1, "10.9.9.9, 127.0.0.1", False),
        (1, "[2001:db8::1]:443", True),
        (1, "nonsense", False),
        (2, "10.9.9.9, 10.0.0.1", True),
        (2, "10.9.9.9", False),
    ):
        async with (
            listening(AccessRules(proxies=Proxies(number=proxies), quotas=QuotaLimits(per_address=1))) as server,
            connect(server.url),
        ):
            expected = ADMITTED if admitted else ("too_many_sessions", 1013)
            assert await outcome(server.url, {"X-Forwarded-For": told}) == expected, (proxies, told)


async def admitted_again(url: str, headers: dict[str, str]) -> None:
    """Wait until there is room again, which is just after a client has seen the close."""
    for _ in range(3000):
        if await outcome(url, headers) == ADMITTED:
            return
        await asyncio.sleep(0.02)
    assert await outcome(url, headers) == ADMITTED


async def test_audio_of_a_key(triton: TritonServer, keys: KeyFile) -> None:
    """A session that uses up its key's audio gets its words, then the reason; the next one is refused."""
    access = AccessRules(keys, quotas=QuotaLimits(audio_per_key_s=6))
    async with serving(triton, policy=PortPolicy(access)) as service:
        async with connect(service.url, additional_headers=bearer(ALICE.secret)) as websocket:
            await websocket.send(START)
            for start in range(0, 256_000, 32_000):
                await websocket.send(SPOKEN[start : start + 32_000])
            events = await rest(websocket)
            assert text(events)
            assert (events[-1]["code"], websocket.close_code) == ("audio_used_up", 1013)
            assert "continue in" in (websocket.close_reason or "")
        assert await outcome(service.url, bearer(ALICE.secret)) == ("audio_used_up", 1013)
        async with connect(service.url, additional_headers=bearer(BOB.secret)) as websocket:
            await websocket.send(START)
            assert (await receive(websocket))["type"] == "ready"
    await no_streams(triton)


async def test_largest_message() -> None:
    """The set limit for a message applies."""
    async with listening(largest_message=100_000) as server:
        for size, code in ((100_000, 4000), (100_001, 1009)):
            async with connect(server.url) as websocket:
                await websocket.send(bytes(size))
                await rest(websocket)
                assert websocket.close_code == code


async def test_handshakes_end() -> None:
    """A client that connects and sends nothing is cut off after the set time."""
    async with listening(handshake_s=0.3) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(server.url).port)
        assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()


# Nothing secret in logs


async def test_logs_have_no_secrets(
    shipped_triton: TritonServer, keys: KeyFile, caplog: pytest.LogCaptureFixture, authority: Authority
) -> None:
    """Even at the lowest log level no key, hash, token, hotword or words are logged, wherever the key is sent."""
    caplog.set_level(logging.DEBUG)
    policy = PortPolicy(AccessRules(keys), Certificate(authority.chain, authority.key))
    secrets = [ALICE.secret, BOB.secret, ALICE.line.rpartition(":")[2]]
    async with serving(shipped_triton, policy=policy) as service:
        url = service.url.replace("127.0.0.1", "localhost")
        ways: list[dict[str, Any]] = [
            {"uri": url, "additional_headers": bearer(ALICE.secret)},
            {"uri": f"{url}?key={ALICE.secret}"},
            {"uri": url, "subprotocols": ["streamer", f"streamer.key.{ALICE.secret}"]},
        ]
        quiet = logging.getLogger("quiet")
        quiet.setLevel(logging.CRITICAL)  # only the service is tested, not the client
        words: set[str] = set()
        for way in ways:
            async with connect(ssl=authority.trusted, logger=quiet, **way) as websocket:
                await websocket.send('{"type":"start","hotwords":["zanzibar"]}')
                secrets.append((await receive(websocket))["token"])
                await websocket.send(pcm("talk.flac")[:200_000])
                await websocket.send('{"type":"stop"}')
                words.update(text(await rest(websocket)).split())
        for secret in ("streamer_guess", ALICE.secret[:-1]):
            async with connect(f"{url}?key={secret}", ssl=authority.trusted, logger=quiet) as websocket:
                assert (await rest(websocket))[0]["code"] == "unauthorized"
                secrets.append(secret)
        async with connect(
            url, ssl=authority.trusted, logger=quiet, additional_headers=bearer(BOB.secret)
        ) as websocket:
            await websocket.send('{"type":"start","hotwords":["zanzibar"],"endpoint":"zanzibar"}')
            await rest(websocket)
    await no_streams(shipped_triton)
    logged = "\n".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records if record.name != "quiet")
    assert "refused" in logged
    assert "ended" in logged
    for secret in (*secrets, "zanzibar", pcm("talk.flac")[:64].hex()):
        assert secret not in logged
    spoken = {word for word in words if len(word) > 5}
    assert len(spoken) >= 3
    assert not any(f" {word} " in logged for word in spoken)


async def test_a_session_with_a_key(triton: TritonServer, keys: KeyFile, authority: Authority) -> None:
    """Over TLS and with a key a session gets the same words as without."""
    policy = PortPolicy(AccessRules(keys), Certificate(authority.chain, authority.key))
    async with serving(triton, policy=policy) as service:
        url = service.url.replace("127.0.0.1", "localhost")
        async with connect(url, ssl=authority.trusted, additional_headers=bearer(ALICE.secret)) as websocket:
            await websocket.send(START)
            await websocket.send(SPOKEN[:200_000])
            await websocket.send('{"type":"stop"}')
            events = await rest(websocket)
    async with serving(triton) as service, session(service.url) as websocket:
        await websocket.send(SPOKEN[:200_000])
        await websocket.send('{"type":"stop"}')
        assert text(await rest(websocket)) == text(events) != ""
    assert json.dumps(events).count("ready") == 1
