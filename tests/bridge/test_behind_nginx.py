"""A service behind a real nginx: sessions, addresses, simultaneous requests, and ambiguous requests."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from streamer.bridge.access.port_policy import PortPolicy
from streamer.bridge.access.quotas import QuotaLimits
from streamer.bridge.access.rules import AccessRules
from streamer.testing.attack.families.http_requests import PIPELINED, SMUGGLED
from streamer.triton.server import TritonServer
from tests.bridge.access.bare_port import ADMITTED, listening, outcome
from tests.bridge.nginx import nginx
from tests.bridge.service_client import SPOKEN, recognise, serving, text

PATIENCE_S = 30.0
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[int]:
    """Provide the port of nginx in front of a port without a recogniser."""
    async with listening() as server:
        with nginx(tmp_path, server.port) as port:
            yield port


async def told(port: int, sent: bytes) -> bytes:
    """Return everything until the connection ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent)
        return await asyncio.wait_for(reader.read(), PATIENCE_S)
    finally:
        writer.close()


async def test_a_session(triton: TritonServer, tmp_path: Path) -> None:
    """A session gets the same words as without nginx."""
    policy = PortPolicy(AccessRules(proxies=1))
    async with serving(triton, policy=policy) as service:
        with nginx(tmp_path, service.port) as port:
            there = await recognise(f"ws://127.0.0.1:{port}/v1/stream", SPOKEN[:100_000])
            assert text(there) == text(await recognise(service.url, SPOKEN[:100_000]))
            assert there[-1]["type"] == "done"


async def test_addresses(tmp_path: Path) -> None:
    """nginx reports the address of a client, whatever the client itself claims."""
    access = AccessRules(proxies=1, shares=QuotaLimits(per_address=1))
    async with listening(access) as server:
        with nginx(tmp_path, server.port) as port:
            url = f"ws://127.0.0.1:{port}/v1/stream"
            async with connect(url, additional_headers={"X-Forwarded-For": "1.2.3.4"}):
                assert await outcome(url, {"X-Forwarded-For": "5.6.7.8"}) == ("too_many_sessions", 1013)
            for _ in range(500):
                if (found := await outcome(url)) == ADMITTED:
                    break
                await asyncio.sleep(0.02)
            assert found == ADMITTED


async def test_requests_at_once(port: int) -> None:
    """Hundreds of requests on several connections, which nginx merges into a few, get their own answers in order."""
    wanted = [PIPELINED[number % len(PIPELINED)] for number in range(200)]
    # nginx itself refuses these.
    wanted = [(line, status) for line, status in wanted if not line.startswith(("OPTIONS", "GET /%2e"))]
    sent = "".join(f"{line} HTTP/1.1\r\nHost: a\r\n\r\n" for line, _ in wanted)
    last = "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    for answers in await asyncio.gather(*(told(port, (sent + last).encode()) for _ in range(8))):
        assert [int(status) for status in STATUS.findall(answers)] == [*(status for _, status in wanted), 200]
        assert b"streamer_ready" in answers[-100_000:]


async def test_smuggled_requests(port: int) -> None:
    """An ambiguous request is answered at most once, and other clients get their own answers."""
    for sent in SMUGGLED:
        answers, own = await asyncio.gather(
            told(port, sent + b"GET /readyz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
            told(port, b"GET /readyz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
        )
        assert b"alive" not in answers, sent
        assert own.count(b"HTTP/1.1 ") == 1, sent
        assert b'"service": "streamer"' in own, sent
