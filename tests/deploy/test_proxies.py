"""Services behind real proxies with the shipped configurations: nginx and HAProxy, for clients and before Triton."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import yaml
from websockets.asyncio.client import connect
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode

from streamer.base.limits import IDLE_LIMIT_S
from streamer.bridge.access.certificate import Certificate
from streamer.bridge.access.proxies import Proxies
from streamer.bridge.access.quotas import QuotaLimits
from streamer.bridge.access.rules import AccessRules, PortPolicy
from streamer.bridge.http import channel, websocket
from streamer.bridge.service import Service
from streamer.bridge.triton.server import TritonServer
from streamer.client import transcribe
from streamer.testing import say, silence
from streamer.wire.native_upload import PATH as UPLOADS
from tests.bridge.access.certificate_authority import Authority
from tests.bridge.service_client import START, eventually, receive, serving, text
from tests.bridge.uploads.uploading import recording
from tests.deploy.shipped_proxies import HAS_IPV6, SHIPPED, RunningProxy, before_bridges, before_triton
from workshop.attack.families.http_requests import PIPELINED, SMUGGLED

CLIENTS = ("nginx.conf", "haproxy.cfg", "haproxy-pass-through.cfg")
OVER_HTTP = CLIENTS[:2]
BEFORE_TRITON = {"nginx.conf": "nginx-triton.conf", "haproxy.cfg": "haproxy-triton.cfg"}
PATIENCE_S = 60.0
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
WORDS = ("one more line", "and the next one", "so it goes on", "until the end")
HERE = Proxies(["127.0.0.1"])


def spoken(lines: Iterable[str]) -> bytes:
    """Audio with a pause behind each line."""
    parts = [part for line in lines for part in (say(line), silence(1500))]
    return bytes(np.concatenate(parts).astype("<i2").tobytes())


def policy_behind(name: str, authority: Authority, **quota: int) -> PortPolicy:
    """What the first lines of a configuration say about the service."""
    access = AccessRules(proxies=HERE, quotas=QuotaLimits(**quota))
    if "pass-through" not in name:
        return PortPolicy(access)
    return PortPolicy(access, Certificate(authority.chain, authority.key), header_proxies=HERE)


@asynccontextmanager
async def behind(
    name: str, triton: TritonServer | str, authority: Authority, folder: Path, bridges: int = 1, **quota: int
) -> AsyncIterator[tuple[RunningProxy, list[Service]]]:
    """Provide a proxy with bridges behind it."""
    address = triton if isinstance(triton, str) else triton.grpc_address
    async with AsyncExitStack() as stack:
        services = []
        for _ in range(bridges):
            service = Service(address, port=0, policy=policy_behind(name, authority, **quota))
            services.append(await stack.enter_async_context(service))
        with before_bridges(name, folder, [service.port for service in services], authority) as proxy:
            yield proxy, services


def url(proxy: RunningProxy) -> str:
    return f"wss://localhost:{proxy.port}/v1/stream"


async def reloaded(proxy: RunningProxy) -> None:
    """Make the proxy read its configuration again, and wait until the processes that had the connections have ended."""
    former = proxy.workers
    assert former
    for tick in range(3000):
        if tick % 150 == 0 and proxy.workers == former:  # again, if it was still starting and did not hear it
            proxy.reload()
        if not any(map(alive, former)):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(proxy.log)


def alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def counted(service: Service, name: str) -> float:
    """The sum of a metric over its labels."""
    lines = service.metrics.exposition().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))


# Sessions


@pytest.mark.parametrize("name", OVER_HTTP)
async def test_a_long_session(name: str, exact_triton: TritonServer, authority: Authority, tmp_path: Path) -> None:
    """A proxy for clients and one before Triton pass on every word of minutes, also when the latter is reloaded."""
    lines = [line for _ in range(12) for line in WORDS]
    audio = spoken(lines)
    half = len(audio) // 4 * 2
    (tmp_path / "triton").mkdir()
    with before_triton(BEFORE_TRITON[name], tmp_path / "triton", exact_triton.grpc_address) as way:
        async with behind(name, f"127.0.0.1:{way.port}", authority, tmp_path) as (proxy, [service]):

            async def speak() -> AsyncIterator[bytes]:
                yield audio[:half]
                await reloaded(way)
                yield audio[half:]

            events: list[Any] = [event async for event in transcribe(speak(), url(proxy))]
            assert counted(service, "streamer_recoveries_total") >= 1
        # Otherwise the link would be lost every few megabytes, which a session would also survive.
        assert "too large" not in way.log
    assert text(events) == " ".join(lines)
    assert [event["n"] for event in events] == list(range(1, len(events) + 1))


@pytest.mark.parametrize("name", CLIENTS)
async def test_a_reload_in_mid_session(
    name: str, exact_triton: TritonServer, authority: Authority, tmp_path: Path
) -> None:
    """A reload cuts the connection off. The session goes on, at whichever bridge it arrives, and loses no word."""
    audio = spoken(WORDS * 2)
    half = len(audio) // 4 * 2
    async with behind(name, exact_triton, authority, tmp_path, bridges=2) as (proxy, services):

        async def speak() -> AsyncIterator[bytes]:
            yield audio[:half]
            await reloaded(proxy)
            yield audio[half:]

        events: list[Any] = [event async for event in transcribe(speak(), url(proxy))]
        resumed = sum(counted(service, "streamer_resumes_total") for service in services)
        opened = sum(counted(service, "streamer_sessions_opened_total") for service in services)
    assert text(events) == " ".join(WORDS * 2)
    assert resumed + opened == 2


@pytest.mark.parametrize("name", OVER_HTTP)
async def test_a_proxy_that_dies(name: str, exact_triton: TritonServer, authority: Authority, tmp_path: Path) -> None:
    """All connections are lost. The session is resumed as soon as the proxy is back, and loses no word."""
    audio = spoken(WORDS)
    half = len(audio) // 4 * 2
    async with behind(name, exact_triton, authority, tmp_path) as (proxy, [service]):

        async def speak() -> AsyncIterator[bytes]:
            yield audio[:half]
            proxy.kill()
            await asyncio.to_thread(proxy.start)
            yield audio[half:]

        events: list[Any] = [event async for event in transcribe(speak(), url(proxy))]
        assert counted(service, "streamer_resumes_total") >= 1
    assert text(events) == " ".join(WORDS)


@pytest.mark.parametrize("name", CLIENTS)
async def test_an_idle_session(
    name: str, exact_triton: TritonServer, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pings pass the proxy in both directions while nothing else does, and then the session is still usable."""
    monkeypatch.setattr(websocket, "PING_EVERY_S", 0.02)
    seen: list[Frame] = []
    receive_frame = ClientProtocol.recv_frame

    def noted(self: ClientProtocol, frame: Frame) -> None:
        seen.extend([frame] * (frame.opcode is Opcode.PING))
        receive_frame(self, frame)

    monkeypatch.setattr(ClientProtocol, "recv_frame", noted)
    async with (
        behind(name, exact_triton, authority, tmp_path) as (proxy, _),
        connect(url(proxy), compression=None) as client,
    ):
        await client.send(START)
        assert (await receive(client))["type"] == "ready"
        await eventually(lambda: len(seen) >= 20)
        await asyncio.wait_for(await client.ping(), PATIENCE_S)
        await client.send(spoken(WORDS[:1]))
        while (event := await receive(client))["type"] != "final":
            pass
        assert event["text"] == WORDS[0]


def test_limits_of_time() -> None:
    """No proxy gives up a connection sooner than the service or a client would."""
    unit = {"s": 1, "h": 3600}
    patient = {"proxy_read_timeout", "grpc_read_timeout", "timeout tunnel", "timeout server", "stream_idle_timeout:"}
    for path in SHIPPED.iterdir():
        told = re.findall(r"^\s*([a-z_]+:?(?: [a-z-]+)?) (\d+)([sh])\b", path.read_text(encoding="utf-8"), re.MULTILINE)
        limits = {words: int(number) * unit[letter] for words, number, letter in told}
        found = {words: limit for words, limit in limits.items() if words in patient}
        assert found, path.name
        assert min(found.values()) > max(2 * websocket.PING_EVERY_S, IDLE_LIMIT_S), path.name


# Requests


@asynccontextmanager
async def wire(proxy: RunningProxy, authority: Authority, **settings: Any) -> AsyncIterator[Wire]:
    """Connect with TLS, without HTTP/2."""
    secure = authority.trusted
    secure.set_alpn_protocols(["http/1.1"])
    plain = socket.create_connection(("127.0.0.1", proxy.port), **settings)
    plain.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=plain, ssl=secure, server_hostname="localhost")
    try:
        yield Wire(reader, writer)
    finally:
        writer.transport.abort()


class Wire:
    """A connection that sends any bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await asyncio.wait_for(self.writer.drain(), PATIENCE_S)

    async def until(self, mark: bytes) -> bytes:
        return await asyncio.wait_for(self.reader.readuntil(mark), PATIENCE_S)

    async def rest(self) -> bytes:
        """Read everything until the connection ends."""
        told = b""
        try:
            while piece := await asyncio.wait_for(self.reader.read(65536), PATIENCE_S):
                told += piece
        except (ConnectionError, ssl.SSLError):
            pass
        return told


async def answered(proxy: RunningProxy, authority: Authority, sent: bytes) -> bytes:
    async with wire(proxy, authority) as client:
        await client.send(sent)
        return await client.rest()


@pytest.mark.parametrize("name", CLIENTS)
async def test_a_large_upload(name: str, exact_triton: TritonServer, authority: Authority, tmp_path: Path) -> None:
    """A recording of megabytes is processed while it arrives: its first words come before its end is sent."""
    wav = recording(np.frombuffer(spoken(WORDS * 5), "<i2"), "WAV", "FLOAT")
    assert len(wav) > 2_000_000
    head = f"POST {UPLOADS}?stream=true HTTP/1.1\r\nHost: a\r\nContent-Length: {len(wav)}\r\nConnection: close\r\n\r\n"
    async with behind(name, exact_triton, authority, tmp_path) as (proxy, _), wire(proxy, authority) as client:
        await client.send(head.encode() + wav[: len(wav) // 2])
        assert b"text/event-stream" in await client.until(b"\r\n\r\n")
        first = await client.until(f'"text":"{WORDS[0]}"'.encode())
        await client.send(wav[len(wav) // 2 :])
        told = first + await client.rest()
    finals = [json.loads(line[6:]) for line in told.split(b"\n") if line.startswith(b'data: {"type":"final"')]
    assert " ".join(final["text"] for final in finals if final["text"]) == " ".join(WORDS * 5)


@pytest.mark.parametrize("name", OVER_HTTP)
async def test_requests(name: str, exact_triton: TritonServer, authority: Authority, tmp_path: Path) -> None:
    """Hundreds of pipelined requests, which the proxy merges, get their own answers; ambiguous ones at most one."""
    # A proxy refuses these itself.
    wanted = [(line, status) for line, status in PIPELINED if not line.startswith(("OPTIONS", "GET /%2e"))] * 20
    sent = "".join(f"{line} HTTP/1.1\r\nHost: a\r\n\r\n" for line, _ in wanted)
    last = b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    ready = b"GET /readyz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    async with behind(name, exact_triton, authority, tmp_path) as (proxy, _):
        pipelined = [answered(proxy, authority, sent.encode() + last) for _ in range(8)]
        for answers in await asyncio.gather(*pipelined):
            assert [int(status) for status in STATUS.findall(answers)] == [*(status for _, status in wanted), 200]
            assert b"streamer_ready" in answers[-100_000:]
        for smuggled in SMUGGLED:
            answers, own = await asyncio.gather(
                answered(proxy, authority, smuggled + ready), answered(proxy, authority, ready)
            )
            assert b"alive" not in answers, smuggled
            assert own.count(b"HTTP/1.1 ") == 1, smuggled
            assert b'"service": "streamer"' in own, smuggled
        page = await answered(proxy, authority, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert b"<!doctype html>" in page.lower()


@pytest.mark.parametrize("name", CLIENTS)
async def test_a_client_that_does_not_read(
    name: str, exact_triton: TritonServer, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy does not swallow what a client does not read, so the service notices, and cuts it off."""
    monkeypatch.setattr(channel, "STALL_LIMIT_S", 0.2)
    handshake = (
        b"GET /v1/stream HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    pings = (b"\x89\xfd" + bytes(4) + bytes(125)) * 500
    async with (
        behind(name, exact_triton, authority, tmp_path) as (proxy, [service]),
        wire(proxy, authority) as client,
    ):
        await client.send(handshake)
        await client.until(b"\r\n\r\n")
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]

        async def ping() -> None:
            for _ in range(2000):
                client.writer.write(pings)
                await client.writer.drain()

        pinging = asyncio.create_task(ping())
        not_read = r'streamer_connections_dropped_total{reason="not_read"}'
        await eventually(lambda: counted(service, not_read) == 1)
        pinging.cancel()
        await asyncio.gather(pinging, return_exceptions=True)


# Addresses


async def refused(address: str, own: str, host: str = "127.0.0.1") -> bool:
    """Whether another session from this address of ours is one too many, whatever it claims."""
    headers = {"X-Forwarded-For": "198.51.100.1"}
    async with connect(address, host=host, local_addr=(own, 0), additional_headers=headers) as client:
        await client.send(START)
        event = await receive(client)
        assert event["type"] == "ready" or event["code"] == "too_many_sessions"
        return bool(event["type"] == "error")


@pytest.mark.parametrize(
    ("name", "changes"), [*((name, {}) for name in CLIENTS), (CLIENTS[2], {"send-proxy-v2": "send-proxy"})]
)
async def test_limits_by_address(
    name: str, changes: dict[str, str], exact_triton: TritonServer, authority: Authority, tmp_path: Path
) -> None:
    """Sessions count by the address of their client, whatever it claims; its claim counts from nobody else either."""
    policy = policy_behind(name, authority, per_address=1)
    async with serving(exact_triton, policy=policy) as service:
        with before_bridges(name, tmp_path, [service.port], authority, changes) as proxy:
            async with connect(url(proxy), host="127.0.0.1", local_addr=("127.0.0.2", 0)) as first:
                await first.send(START)
                assert (await receive(first))["type"] == "ready"
                assert await refused(url(proxy), "127.0.0.2")
                assert await refused(service.url.replace("127.0.0.1", "localhost"), "127.0.0.2")
                assert not await refused(url(proxy), "127.0.0.3")
                if HAS_IPV6:
                    assert not await refused(url(proxy), "::1", "::1")


def test_envoy() -> None:
    """Envoy's configuration has the same limits and addresses. Envoy itself is not run here."""
    told = yaml.safe_load((SHIPPED / "envoy.yaml").read_text(encoding="utf-8"))["static_resources"]
    clients, triton = (listener["filter_chains"][0]["filters"][0]["typed_config"] for listener in told["listeners"])
    assert clients["use_remote_address"] is True
    assert clients["upgrade_configs"] == [{"upgrade_type": "websocket"}]
    for manager in (clients, triton):
        [route] = manager["route_config"]["virtual_hosts"][0]["routes"]
        assert route["route"]["timeout"] == "0s"
        assert route["route"]["cluster"] in {cluster["name"] for cluster in told["clusters"]}
