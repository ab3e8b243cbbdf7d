"""Sessions that fail: against a service that does so on demand, which the real one does not."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection, serve

from streamer.client import SessionError
from streamer.evaluate.manifest import Utterance, read_manifest
from streamer.evaluate.sessions import Sessions
from tests.project import SAMPLES

FAILED = {"type": "error", "code": "failed", "message": "It broke.", "fatal": True}
FULL = {"type": "error", "code": "full", "message": "All sessions are taken.", "fatal": True}
READY = {"type": "ready"}
WORD = {"type": "final", "segment": 0, "text": "the", "audio_ms": 320}
DONE = {"type": "done", "audio_ms": 640}


@asynccontextmanager
async def saying(*sessions: list[dict[str, object]]) -> AsyncIterator[str]:
    """A service whose sessions say these things one after the other and which then listens no more; the URL."""
    waiting = list(sessions)

    async def session(websocket: ServerConnection) -> None:
        events = waiting.pop(0)
        if not waiting:
            server.close(close_connections=False)
        await websocket.recv()
        for event in events:
            await websocket.send(json.dumps(event))
        if events[-1] == DONE:
            async for _ in websocket:
                pass

    async with serve(session, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        yield f"ws://{host}:{port}"


@pytest.fixture
def utterances() -> list[Utterance]:
    """All of audio_samples."""
    return read_manifest(SAMPLES / "samples.tsv")


def counted(seen: list[str]) -> Callable[[Utterance, float], None]:
    """A progress that notes names."""
    return lambda utterance, seconds: seen.append(utterance.name)


async def test_a_failed_session_is_a_result(utterances: list[Utterance]) -> None:
    """Its reason and what it had said are kept, and the others go on."""
    seen: list[str] = []
    async with saying([READY, WORD, FAILED], [READY, WORD, DONE], [READY, DONE]) as url:
        run = await Sessions(url, {}, at_once=1).hear(utterances, counted(seen))
    assert [hearing.failure for hearing in run.hearings] == ["It broke.", "", ""]
    assert [hearing.words for hearing in run.hearings] == [("the",), ("the",), ()]
    assert seen == [utterance.name for utterance in utterances]
    assert run.cpu == {}


async def test_a_full_service_is_asked_again(utterances: list[Utterance]) -> None:
    """Who asks for more sessions than there are waits for one."""
    async with saying([FULL], [READY, WORD, DONE]) as url:
        run = await Sessions(url, {}, at_once=1).hear(utterances[:1], counted([]))
    assert [(hearing.words, hearing.failure) for hearing in run.hearings] == [(("the",), "")]


async def test_a_service_that_goes_away(utterances: list[Utterance]) -> None:
    """What is left is not tried any more; every utterance is in the result all the same."""
    async with saying([READY, WORD, DONE]) as url:
        run = await Sessions(url, {}, at_once=1).hear(utterances, counted([]))
    assert [hearing.utterance for hearing in run.hearings] == utterances
    first, second, third = (hearing.failure for hearing in run.hearings)
    assert first == ""
    assert second.startswith("No service answers")
    assert third == f"not tried any more: {second}"


async def test_no_service_at_all_is_an_error(utterances: list[Utterance]) -> None:
    """There is nothing to report then."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(SessionError, match="No service answers"):
        await Sessions(f"127.0.0.1:{port}", {}, at_once=2).hear(utterances, counted([]))


async def test_a_damaged_recording_is_a_result(tmp_path: Path) -> None:
    """It asks no service, and is named like a failed session."""
    (tmp_path / "notes.wav").write_text("no sound")
    (tmp_path / "a.tsv").write_text("file\ttext\nnotes.wav\tyes\n")
    run = await Sessions("127.0.0.1:1", {}, at_once=1).hear(read_manifest(tmp_path / "a.tsv"), counted([]))
    assert "cannot be read as audio" in run.hearings[0].failure
