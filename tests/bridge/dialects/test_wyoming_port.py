"""The port for Wyoming, with real sockets and a real service: commands, faults, limits, quotas and the shutdown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import numpy as np
import pytest

from streamer.bridge.access.keys import KeyFile
from streamer.bridge.access.quotas import QuotaLimits
from streamer.bridge.access.rules import AccessRules, PortPolicy
from streamer.bridge.dialects import dialects, wyoming_port
from streamer.bridge.server import BridgeServer, PortError
from streamer.bridge.telemetry.metrics import Metrics
from streamer.bridge.triton.server import TritonServer
from streamer.testing import say, silence
from streamer.testing.exact_service import ExactService
from streamer.testing.exact_speech import Audio
from streamer.wire.dialects.wyoming import Wyoming
from tests.bridge.access.bare_port import listening
from tests.bridge.dialects.conftest import SESSIONS
from tests.bridge.service_client import PATIENCE_S, eventually, serving
from tests.bridge.uploads.uploading import post
from tests.bridge.upstreams.opened_models import models_at
from tests.wire.dialects.wyoming_events import event, read

HOME = ("127.0.0.1", 0)
FORMAT = {"rate": 16_000, "width": 2, "channels": 1}
COMMAND = np.concatenate([say("turn on"), silence(1500), say("the light")])
PIECE = 1024  # samples: what Home Assistant sends


class Client:
    """A client with a bare socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def say(self, kind: str, data: dict[str, Any] | None = None, payload: bytes = b"") -> None:
        """Send an event."""
        self.writer.write(event(kind, data, payload))

    async def hear(self) -> tuple[str, dict[str, Any]] | None:
        """Receive an event; None at the end."""
        line = await asyncio.wait_for(self.reader.readline(), PATIENCE_S)
        if not line:
            return None
        _, _, length = line.partition(b'"data_length": ')
        behind = await self.reader.readexactly(int(length.strip(b"}\n"))) if length else b""
        return read((line + behind).decode())

    async def rest(self) -> list[tuple[str, dict[str, Any]]]:
        """Receive everything until the service closes the connection."""
        events = []
        while (heard := await self.hear()) is not None:
            events.append(heard)
        return events

    async def speak(self, audio: Audio = COMMAND, middle: Callable[[], Awaitable[object]] | None = None) -> None:
        """Send the audio of a command, with a start and without a stop."""
        self.say("transcribe", {"language": "en"})
        self.say("audio-start", FORMAT)
        for place in range(0, len(audio), PIECE):
            self.say("audio-chunk", FORMAT, audio[place : place + PIECE].astype("<i2").tobytes())
            await self.writer.drain()
            if middle and place <= len(audio) // 2 < place + PIECE:
                await middle()

    async def answer(self) -> tuple[str, list[str]]:
        """Receive the answer to a command: its transcript, and the chunks before it."""
        assert await self.hear() == ("transcript-start", {})
        chunks: list[str] = []
        while True:
            heard = await self.hear()
            assert heard is not None
            kind, data = heard
            if kind == "transcript":
                assert await self.hear() == ("transcript-stop", {})
                return data["text"], chunks
            assert kind == "transcript-chunk"
            chunks.append(data["text"])


@asynccontextmanager
async def connected(port: int | None) -> AsyncIterator[Client]:
    """Connect to this port."""
    assert port is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@pytest.fixture(scope="module")
def home() -> Iterator[ExactService]:
    """Provide a service with a port for Wyoming."""
    with ExactService(slots=SESSIONS + 1, policy=PortPolicy(wyoming=HOME)) as service:
        yield service


def figures(service: ExactService) -> str:
    """Return the metrics."""
    return post(service.url, "/metrics", method="GET")[2].decode()


def taken_slots(service: ExactService) -> int:
    """Return how many sessions have a slot."""
    return int(json.loads(post(service.url, "/readyz", method="GET")[2])["sequences"])


def running(text: str) -> bool:
    """Return whether the metrics show a session in this format."""
    return '{protocol="wyoming",state="streaming"} 1.0' in text


async def test_commands_over_one_connection(home: ExactService) -> None:
    """Each has a transcript of its own, and its chunks are the same text."""
    async with connected(home.wyoming_port) as client:
        for audio, words in ((COMMAND, "turn on the light"), (say("stop"), "stop"), (silence(500), "")):
            await client.speak(audio)
            client.say("audio-stop")
            text, chunks = await client.answer()
            assert (text.lower(), "".join(chunks)) == (words, text)
    assert 'streamer_protocol_sessions_total{protocol="wyoming"} 0.0' not in figures(home)


async def test_a_client_that_ends_its_side(home: ExactService) -> None:
    """It still gets its answer, and then the connection is closed."""
    async with connected(home.wyoming_port) as client:
        await client.speak(say("stop"))
        client.say("audio-stop")
        client.writer.write_eof()
        assert (await client.answer())[0].lower() == "stop"
        assert await client.hear() is None


async def test_a_client_that_leaves(home: ExactService) -> None:
    """Its session ends with it."""
    async with connected(home.wyoming_port) as client:
        await client.speak()
        await eventually(lambda: running(figures(home)))
    await eventually(lambda: not running(figures(home)))


async def test_other_formats_of_audio(home: ExactService) -> None:
    """Two channels of 32 bits at 48 kHz are the same words."""
    slow = np.repeat(say("stop").astype("<i4") << 16, 3 * 2)
    format = {"rate": 48_000, "width": 4, "channels": 2}
    async with connected(home.wyoming_port) as client:
        client.say("audio-start", format)
        client.say("audio-chunk", format, slow.astype("<i4").tobytes()[: 1024 * 1024])
        client.say("audio-stop")
        assert (await client.answer())[0].lower() == "stop"


async def test_a_killed_triton_is_a_pause(home: ExactService) -> None:
    """In the middle of a command: no word is lost or doubled."""

    async def kill() -> None:
        await eventually(lambda: running(figures(home)))
        await asyncio.to_thread(home.kill_recogniser)

    async with connected(home.wyoming_port) as client:
        await client.speak(middle=kill)
        client.say("audio-stop")
        assert (await client.answer())[0].lower() == "turn on the light"
    await eventually(lambda: post(home.url, "/readyz", method="GET")[0] == 200)


async def test_a_full_service(home: ExactService) -> None:
    """A command for which there is no slot is refused by an event. What the service can do is still told."""
    await eventually(lambda: taken_slots(home) == 0)
    async with AsyncExitStack() as stack:
        *taken, last = [await stack.enter_async_context(connected(home.wyoming_port)) for _ in range(SESSIONS + 1)]
        for client in taken:
            await client.speak(say("here"))
        await eventually(lambda: f'{{protocol="wyoming",state="streaming"}} {SESSIONS}.0' in figures(home))
        last.say("describe")
        assert (await last.hear() or ("",))[0] == "info"
        await last.speak(say("here"))
        [(kind, error)] = await last.rest()
        assert (kind, error["code"]) == ("error", "full")
    await eventually(lambda: taken_slots(home) == 0)


async def test_a_silent_client_holds_no_slot(home: ExactService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its command ends with what it has said, and the connection takes another one."""
    monkeypatch.setattr(dialects, "REST_AFTER_S", 1.0)
    async with connected(home.wyoming_port) as client:
        await client.speak(say("stop"))
        assert (await client.answer())[0].lower() == "stop"
        await client.speak(say("go"))
        assert (await client.answer())[0].lower() == "go"


@pytest.mark.parametrize(
    "data",
    [
        b"POST / HTTP/1.1\r\nHost: localhost:10300\r\n\r\n" + event("audio-start", FORMAT),
        b"\x16\x03\x01" + bytes(600),  # TLS
        b"{" * 200_000,
        event("audio-start", {**FORMAT, "rate": 1}),
        event("transcribe", {"language": "de"}),
    ],
)
async def test_what_cannot_be_served(data: bytes) -> None:
    """The client reads an error, and then the end, even if it goes on sending."""
    async with listening(wyoming=HOME) as server, connected(server.wyoming_port) as client:
        client.writer.write(data)
        client.writer.write(b"\n" + bytes(100_000))
        heard = await client.hear()
        assert heard is not None
        assert heard[0] == "error"
        assert await client.hear() is None


async def test_a_service_that_is_not_ready() -> None:
    """It answers pings, and says why it takes no command."""
    async with listening(wyoming=HOME) as server, connected(server.wyoming_port) as client:
        client.say("ping", {"text": "there?"})
        assert await client.hear() == ("pong", {"text": "there?"})
        await client.speak(say("stop"))
        [(kind, error)] = await client.rest()
        assert (kind, error["code"]) == ("error", "not_ready")


async def test_quotas(keys: KeyFile) -> None:
    """Keys do not count here, and the sessions of an address do."""
    access = AccessRules(keys, quotas=QuotaLimits(per_address=1))
    async with listening(access, wyoming=HOME) as server, connected(server.wyoming_port) as first:
        first.say("describe")
        assert (await first.hear() or ("",))[0] == "info"
        async with connected(server.wyoming_port) as second:
            [(kind, error)] = await second.rest()
            assert (kind, error["code"]) == ("error", "too_many_sessions")


async def test_limits_of_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that says nothing, one that rests for too long, and one too many are closed."""
    monkeypatch.setattr(wyoming_port, "MOST_CONNECTIONS", 2)
    monkeypatch.setattr(Wyoming, "idle_s", 0.5)
    async with listening(wyoming=HOME, handshake_s=0.3) as server:
        async with connected(server.wyoming_port) as silent, connected(server.wyoming_port) as resting:
            resting.say("ping")
            async with connected(server.wyoming_port) as third:
                assert await third.rest() == []
            assert await silent.rest() == []
            events = await resting.rest()
        assert [kind for kind, _ in events] == ["pong", "error"]
        assert events[-1][1]["code"] == "session_expired"


async def test_a_client_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for it is bounded, and its connection is cut off."""
    monkeypatch.setattr(wyoming_port, "SEND_LIMIT_S", 0.5)
    monkeypatch.setattr(dialects, "SEND_LIMIT_S", 0.5)

    async def flood(client: Client) -> None:
        while True:
            client.writer.write(event("describe") * 1000)
            await asyncio.wait_for(client.writer.drain(), PATIENCE_S)

    async with listening(wyoming=HOME) as server, connected(server.wyoming_port) as client:
        with pytest.raises(ConnectionError):
            await flood(client)


async def test_the_shutdown(exact_triton: TritonServer) -> None:
    """What was said is heard before the service closes; a resting connection is closed too."""
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(serving(exact_triton, policy=PortPolicy(wyoming=HOME)))
        async with connected(service.wyoming_port) as busy, connected(service.wyoming_port) as resting:
            resting.say("ping")
            await resting.hear()
            await busy.speak(say("heard"))
            await eventually(lambda: running(service.metrics.exposition().decode()))
            leaving = asyncio.create_task(stack.aclose())
            said = [await client.rest() for client in (busy, resting)]
            await leaving
    assert [kind for kind, _ in said[0]] == ["transcript-start", "transcript-chunk", "error"]
    assert said[0][1][1]["text"].lower() == "heard"
    assert [data["code"] for _, data in (said[0][-1], said[1][-1])] == ["shutting_down"] * 2


async def test_a_port_that_is_in_use() -> None:
    """The service does not start, and says which port it is."""
    async with listening(wyoming=HOME) as server:
        assert server.wyoming_port is not None
        policy = PortPolicy(wyoming=("127.0.0.1", server.wyoming_port))
        other = BridgeServer("127.0.0.1", 0, models_at(), Metrics(), policy=policy)
        with pytest.raises(PortError, match=f"Port {server.wyoming_port} of 127.0.0.1 is already in use"):
            await other.start()
        await other.stop()


async def test_no_port_without_the_setting() -> None:
    """A service does not listen for Wyoming by itself."""
    async with listening() as server:
        assert server.wyoming_port is None
