"""The client with peers that do what the real service hardly ever does, and at the end with the real service."""

from __future__ import annotations

import asyncio
import http
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

import streamer.client.connection
import streamer.client.sending
from streamer.audio.recording_check import AudioError
from streamer.bridge.service import Service
from streamer.client import SessionError, connect, transcribe
from tests.project import SAMPLES

TALK = SAMPLES / "talk.flac"
Script = Callable[[ServerConnection], Awaitable[None]]


@asynccontextmanager
async def peer(script: Script, **options: Any) -> AsyncIterator[str]:
    """Run a websocket server that follows a script. Yields its address."""
    async with serve(script, "127.0.0.1", 0, **options) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield f"127.0.0.1:{port}"


class Polite:
    """A script that keeps to the protocol and records what it gets, and when."""

    def __init__(self) -> None:
        self.texts: list[dict[str, Any]] = []
        self.sound = b""
        self.times: list[float] = []
        self.closed = asyncio.Event()

    async def __call__(self, websocket: ServerConnection) -> None:
        try:
            async for message in websocket:
                if isinstance(message, bytes):
                    self.sound += message
                    self.times.append(time.monotonic())
                    continue
                self.texts.append(json.loads(message))
                if self.texts[-1]["type"] == "start":
                    await websocket.send('{"type":"ready","n":1}')
                elif self.texts[-1]["type"] == "stop":
                    await websocket.send(f'{{"type":"done","n":2,"audio_ms":{len(self.sound) // 32}}}')
        finally:
            self.closed.set()


def says(*messages: str | bytes, code: int = 1000, reason: str = "") -> Script:
    """A script that sends these messages after the start, and closes."""

    async def script(websocket: ServerConnection) -> None:
        await websocket.recv()
        for message in messages:
            await websocket.send(message)
        await websocket.close(code, reason)

    return script


READY = '{"type":"ready","n":1}'


async def events_of(address: str, **options: Any) -> list[dict[str, Any]]:
    """All events for a little silence."""
    async with aclosing(transcribe([bytes(3200)], address, **options)) as events:
        told: list[Any] = [event async for event in events]
    return told


async def failure(address: str) -> SessionError:
    """The error of a session there."""
    with pytest.raises(SessionError) as caught:
        await events_of(address)
    return caught.value


async def test_a_source_is_sent_whole_between_start_and_stop() -> None:
    """Every sample arrives in order, however the source is divided, between the options and `stop`."""
    script = Polite()
    blocks: list[bytes | NDArray[np.int16]] = [
        np.arange(3, dtype=np.int16),
        b"\7\0",
        np.arange(40_000, dtype=np.int32).astype(np.int16),
    ]
    async with peer(script) as address:
        events = transcribe(blocks, address, options={"partials": False})
        assert [event["type"] async for event in events] == ["ready", "done"]
    assert script.sound == b"".join(block if isinstance(block, bytes) else block.tobytes() for block in blocks)
    assert script.texts == [{"type": "start", "partials": False}, {"type": "stop"}]


async def test_a_file_is_sent_by_its_name(tmp_path: Path) -> None:
    """A path is opened, and its samples are sent."""
    script = Polite()
    samples = np.arange(16_000, dtype=np.int16)
    soundfile.write(tmp_path / "a.wav", samples, 16_000)
    async with peer(script) as address:
        events: list[Any] = [event async for event in transcribe(tmp_path / "a.wav", address)]
    assert events[-1]["audio_ms"] == 1000
    assert script.sound == samples.tobytes()


async def test_a_model_that_is_loaded_first() -> None:
    """The caller is told its name, and the session begins when it is loaded."""
    told: list[str] = []
    starting = '{"type":"starting","n":0,"model":"chinese"}'
    async with peer(says(starting, READY, '{"type":"done","n":2,"audio_ms":100}')) as address:
        events = await events_of(address, on_starting=told.append)
    assert (told, [event["type"] for event in events]) == (["chinese"], ["ready", "done"])


async def test_a_missing_file_is_noticed_before_connecting(tmp_path: Path) -> None:
    """A missing file is reported before a connection is opened."""
    with pytest.raises(AudioError, match="no such file"):
        await anext(transcribe(tmp_path / "a.wav", "127.0.0.1:1"))


@pytest.mark.parametrize(
    ("audio", "words"),
    [
        (
            np.zeros(160, np.float32),
            "an array of audio must be int16, not float32: give",
        ),
        ("missing.wav", "audio must be bytes or an array of int16, not str"),
    ],
)
async def test_what_is_no_audio_is_refused(audio: Any, words: str) -> None:
    """Fractions would be silence as whole numbers, so they are refused; so is everything that is no audio."""
    async with peer(Polite()) as address:
        with pytest.raises(TypeError, match=words):
            await transcribe([audio], address)


async def test_each_kind_of_bytes_is_the_same_audio() -> None:
    """Bytes, views of them and arrays in any order of bytes are sent alike."""
    samples = np.arange(800, dtype=np.int16)
    data = samples.tobytes()
    async with peer(script := Polite()) as address:
        kinds: list[Any] = [data, bytearray(data), memoryview(data), samples, samples.astype(">i2")]
        await transcribe(kinds, address)
    assert script.sound == 5 * data


async def test_a_key_that_no_header_can_hold() -> None:
    """A key with a line break is refused before it is sent, and the error does not show it."""
    with pytest.raises(SessionError, match="The key has a line break") as refused:
        await connect("127.0.0.1:1", key="secret\n")
    assert refused.value.code == "unauthorized"
    assert "secret" not in str(refused.value)


def test_an_unknown_way_of_channels() -> None:
    """Channels are mixed or separate; anything else is refused at once."""
    with pytest.raises(ValueError, match="'channels' must be mix or separate, not 'both'"):
        transcribe("talk.wav", channels="both")  # type: ignore[arg-type]


async def test_paced_sends_as_fast_as_it_was_spoken() -> None:
    """With `paced`, half a second of audio takes half a second, in small pieces. Without it, it takes no time."""
    async with peer(script := Polite()) as address:
        async for _ in transcribe([bytes(16_000)], address, paced=True):
            pass
    assert len(script.times) == 5
    assert script.times[-1] - script.times[0] > 0.35
    async with peer(script := Polite()) as address:
        async for _ in transcribe([bytes(16_000)], address):
            pass
    assert len(script.times) == 1


async def test_sending_and_receiving_do_not_wait_for_each_other() -> None:
    """A peer that stops reading until its long answers are read causes no deadlock."""

    async def script(websocket: ServerConnection) -> None:
        await websocket.recv()
        await websocket.send(READY)
        for _ in range(100):
            await websocket.send(json.dumps({"type": "heard", "filling": "x" * 100_000}))
        async for message in websocket:
            if isinstance(message, str):
                await websocket.send('{"type":"done","audio_ms":0}')

    async with peer(script) as address:
        blocks = [bytes(32_000)] * 400
        kinds = [event["type"] async for event in transcribe(blocks, address)]
    assert kinds == ["ready", *["heard"] * 100, "done"]


async def test_a_slow_peer_holds_up_the_source() -> None:
    """If the peer does not read, the source is not read either, so nothing piles up."""
    taken = 0

    def source() -> Iterator[bytes]:
        nonlocal taken
        for _ in range(4000):
            taken += 1
            yield bytes(32_000)

    async def script(websocket: ServerConnection) -> None:
        await websocket.recv()
        await websocket.send(READY)
        await asyncio.sleep(1)
        await websocket.close(1011, "enough")

    async with peer(script, close_timeout=0.1) as address:
        with pytest.raises(SessionError, match="enough"):
            async for _ in transcribe(source(), address):
                pass
    assert 0 < taken < 1000


async def test_a_failing_source_still_gets_its_words() -> None:
    """Audio before a failure of the source is recognised, and then the failure is raised."""

    def source() -> Iterator[bytes]:
        yield bytes(3200)
        raise AudioError("the recording is torn.")

    async with peer(script := Polite()) as address:
        events = transcribe(source(), address)
        assert [(await anext(events))["type"] for _ in range(2)] == ["ready", "done"]
        with pytest.raises(AudioError, match="torn"):
            await anext(events)
    assert len(script.sound) == 3200


async def test_a_silent_source_keeps_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keepalives are sent while a live source has no audio, but not too often."""
    monkeypatch.setattr(streamer.client.sending, "KEEPALIVE_S", 0.1)

    async def source() -> AsyncIterator[bytes]:
        for _ in range(30):
            await asyncio.sleep(0.01)
            yield b""

    async with peer(script := Polite()) as address:
        async for _ in transcribe(source(), address):
            pass
    assert 1 <= [text["type"] for text in script.texts].count("keepalive") < 15
    assert script.sound == b""


async def test_leaving_early_closes_the_connection() -> None:
    """Leaving the loop early leaves no session and no sender behind."""
    script = Polite()
    async with peer(script) as address:
        async with aclosing(transcribe([bytes(3200)] * 100_000, address, paced=True)) as events:
            assert (await anext(events))["type"] == "ready"
        await asyncio.wait_for(script.closed.wait(), 60)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_session_can_be_driven_by_hand() -> None:
    """connect() can be entered or awaited. Both give a session that is ready."""
    script = Polite()
    async with peer(script) as address:
        async with connect(f"http://{address}", {"words": False}) as session:
            assert session.ready["type"] == "ready"
            await session.send(np.array([1, 2], dtype=np.int16))
            await session.flush()
            await session.keepalive()
            await session.stop()
            assert [event["type"] async for event in session] == ["done"]
            assert [event async for event in session] == []
        session = await connect(address)
        await session.close()
        with pytest.raises(SessionError):
            await session.send(b"\0\0")
    assert [text["type"] for text in script.texts] == ["start", "flush", "keepalive", "stop", "start"]
    assert script.sound == b"\1\0\2\0"


async def test_a_service_that_is_away_is_one_sentence() -> None:
    """If the connection is refused, the message names the address."""
    async with peer(Polite()) as address:
        pass
    error = await failure(address)
    assert error.code == "away"
    assert str(error) == f"No service answers at {address}: the connection was refused."


@pytest.mark.parametrize("address", ["ftp://a", "a b", "host:99999"])
async def test_what_is_no_address_is_said(address: str) -> None:
    """An impossible address is refused before a connection is tried."""
    error = await failure(address)
    assert error.code == "bad_address"
    assert address in str(error)


async def test_an_unknown_host_is_one_sentence() -> None:
    """An unknown host is reported in the same way as a closed port."""
    error = await failure("no-such-host.invalid:1")
    assert error.code == "away"
    assert "\n" not in str(error)


async def test_a_refused_handshake_says_when_to_try_again() -> None:
    """If the answer is an HTTP status, the message repeats its Retry-After."""

    def refuse(connection: ServerConnection, request: Any) -> Any:
        response = connection.respond(http.HTTPStatus.SERVICE_UNAVAILABLE, "full\n")
        response.headers["Retry-After"] = "7"
        return response

    async with peer(Polite(), process_request=refuse) as address:
        error = await failure(address)
    assert error.code == "refused"
    assert "status 503; try again in 7 s" in str(error)


async def test_something_else_on_the_port_is_no_service() -> None:
    """A server of another kind is distinguished from a service that is away."""

    async def chatter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example.org ready\r\n")
        await reader.read(100)
        writer.close()

    server = await asyncio.start_server(chatter, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        error = await failure(f"127.0.0.1:{port}")
    assert error.code == "no_service"


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        (says('{"type":"error","code":"bad_option","message":"No.","fatal":true}'), "bad_option", "No."),
        (says(READY, '{"type":"error","code":"idle","message":"Slept."}'), "idle", "Slept."),
        (says(code=1013, reason="full: try again in 5 s"), "full", "try again in 5 s"),
        (says(READY, code=1011, reason="Triton died"), "closed", r"Triton died \(code 1011\)"),
        (says(READY), "closed", "before its end"),
        (says("hello"), "not_understood", "hello"),
        (says("[1]"), "not_understood", "Streamer's protocol"),
        (says('{"type":"heard"}'), "not_understood", "Streamer's protocol"),
        (says(READY, b"\0\1"), "not_understood", "Streamer's protocol"),
    ],
)
async def test_each_way_a_session_fails(script: Script, code: str, words: str) -> None:
    """An error event, a close with a reason and a nonsensical peer each have a code and a message."""
    async with peer(script) as address:
        with pytest.raises(SessionError, match=words) as caught:
            await events_of(address)
    assert caught.value.code == code


async def test_an_error_that_is_not_fatal_is_an_event() -> None:
    """The session goes on after an error that is not fatal."""
    complaint = '{"type":"error","code":"odd","message":"Hm.","fatal":false}'
    async with peer(says(READY, complaint, '{"type":"done","audio_ms":0}')) as address:
        assert [event["type"] for event in await events_of(address)] == ["ready", "error", "done"]


async def test_a_lost_connection_is_said() -> None:
    """A connection that ends without a close frame is reported as lost."""

    async def script(websocket: ServerConnection) -> None:
        await websocket.recv()
        await websocket.send(READY)
        websocket.transport.abort()

    async with peer(script) as address:
        error = await failure(address)
    assert error.code == "lost"
    assert "was lost" in str(error)


@pytest.mark.parametrize("answers", [[], [READY]])
async def test_a_peer_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch, answers: list[str]) -> None:
    """A peer that sends nothing is given up after a limit, before `ready` and after it."""
    monkeypatch.setattr(streamer.client.connection, "PATIENCE_S", 0.2)
    monkeypatch.setattr(streamer.client.connection, "CLOSE_S", 0.1)

    async def script(websocket: ServerConnection) -> None:
        for answer in answers:
            await websocket.send(answer)
        try:
            async for _ in websocket:
                pass
        except ConnectionClosed:
            pass

    async with peer(script) as address:
        error = await failure(address)
    assert error.code == "overdue"
    assert "for 0.2 s" in str(error)


async def test_a_recording_through_the_real_service(service: Service, talk: str) -> None:
    """A recording gives numbered events with growing times, from `ready` to `done`, and is recognised completely."""
    events: list[Any] = [event async for event in transcribe(talk, service.url)]
    assert (events[0]["type"], events[-1]["type"]) == ("ready", "done")
    assert [event["n"] for event in events] == list(range(1, len(events) + 1))
    ends = [event["end_ms"] for event in events if event["type"] == "final"]
    assert ends == sorted(ends) != []
    assert events[-1]["audio_ms"] == pytest.approx(soundfile.info(talk).duration * 1000, abs=1)


async def test_a_flush_of_the_real_service(service: Service) -> None:
    """flush() makes everything so far final before its answer comes."""
    samples, _ = soundfile.read(TALK, frames=3 * 16_000, dtype="int16")
    async with connect(service.url) as session:
        await session.send(samples)
        await session.flush()
        async for event in session:
            if event["type"] == "flushed":
                break
        assert event["type"] == "flushed"
        assert event["audio_ms"] == 3000
        await session.stop()
        assert [event["type"] async for event in session if event["type"] == "final"] == []


async def test_silence_of_the_real_service_is_not_kept(service: Service) -> None:
    """No more audio is kept than the longest segment and what the recogniser may be behind."""
    async with connect(service.url, {"endpoint": {"longest_ms": 6000}}) as session:
        await session.send(bytes(25 * 32_000))
        await session.stop()
        assert [event["type"] async for event in session][-1] == "done"
        assert 16_000 <= session._kept.kept_ms < 17_100


async def test_an_option_that_the_real_service_refuses(service: Service) -> None:
    """A refused option raises the service's own message."""
    with pytest.raises(SessionError, match="step_ms") as caught:
        await connect(service.url, {"step_ms": 7})
    assert caught.value.code == "bad_option"
