"""Evaluations without the command: the real service and engine, services that fail, and CPU time."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import soundfile
from websockets.asyncio.server import ServerConnection, serve

from streamer.client import SessionError
from streamer.commands.accuracy.evaluation import (
    ServiceRunner,
    Setup,
    descendants_cpu_s,
    evaluation,
    recognise_with_engine,
    recognise_with_service,
)
from streamer.commands.accuracy.manifest import Utterance, read_manifest
from streamer.commands.accuracy.results import FinalRequest, Unavailable
from tests.project import SAMPLES

if TYPE_CHECKING:
    from streamer.bridge.service import Service

LIGHT = (
    "import sys; sys.modules.update(torch=None, torchaudio=None); import streamer.commands.accuracy.evaluation; "
    "print(*sys.modules)"
)


def test_a_recording_is_heard_and_judged(service: Service) -> None:
    """Progress is reported for each utterance; the evaluation has the options of the setup."""
    utterances = read_manifest(SAMPLES / "samples.tsv")[2:]
    told = []
    setup = Setup({"step_ms": 640}, sessions=2)
    run = asyncio.run(recognise_with_service(utterances, setup, service.url, lambda *done: told.append(done)))
    assert [utterance for utterance, _ in told] == utterances
    found = evaluation("samples.tsv", setup, run, half="first")
    assert (found.through, found.failed) == ("the service", [])
    assert found.options == {"step_ms": 640, "sessions": 2, "paced": False, "half": "first"}
    assert [" ".join(result.hypothesis) for result in found.scored] == [" ".join(run.results[0].words)]


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    """A folder without a model is refused with a sentence."""
    pytest.importorskip("torch", reason="it loads the recogniser: pip install 'streamer-asr[engine]'")
    with pytest.raises(Unavailable, match=r"is missing: the folder does not contain a trained model\.$"):
        recognise_with_engine([], Setup({}, engine=True, bundle=tmp_path), lambda *_: None)


def test_it_works_without_torch() -> None:
    """Evaluation through a service neither loads nor needs torch."""
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    assert "streamer.commands.accuracy.evaluation" in done.stdout
    assert not [name for name in done.stdout.split() if name.startswith(("streamer.engine", "streamer.bridge", "grpc"))]


FAILED = {"type": "error", "code": "failed", "message": "It broke.", "fatal": True}
FULL = {"type": "error", "code": "full", "message": "All sessions are taken.", "fatal": True}
READY = {"type": "ready"}
WORD = {"type": "final", "segment": 0, "text": "the", "audio_ms": 320}
DONE = {"type": "done", "audio_ms": 640}


@asynccontextmanager
async def saying(*sessions: Sequence[Mapping[str, object]]) -> AsyncIterator[str]:
    """A service whose sessions answer with these scripts in turn, and which then stops; the URL."""
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
    """A progress callback that records names."""
    return lambda utterance, seconds: seen.append(utterance.name)


async def test_a_failed_session_is_a_result(utterances: list[Utterance]) -> None:
    """The reason and the words of a failed session are kept, and the others go on."""
    seen: list[str] = []
    async with saying([READY, WORD, FAILED], [READY, WORD, DONE], [READY, DONE]) as url:
        run = await ServiceRunner(url, {}, at_once=1).run(utterances, counted(seen))
    assert [result.failure for result in run.results] == ["It broke.", "", ""]
    assert [result.words for result in run.results] == [("the",), ("the",), ()]
    assert seen == [utterance.name for utterance in utterances]
    assert run.cpu == {}


async def test_paced_sessions_say_how_long_they_waited(tmp_path: Path) -> None:
    """Sessions ask for their last final by a flush and by a stop in turn; a final that came before does not count."""
    names = ["a.wav", "b.wav", "c.wav"]
    for name in names:
        soundfile.write(tmp_path / name, np.zeros(1600, np.int16), 16_000)
    (tmp_path / "all.tsv").write_text("file\ttext\n" + "".join(f"{name}\tthe\n" for name in names))
    asked: list[list[str]] = []

    async def session(websocket: ServerConnection) -> None:
        texts: list[str] = []
        asked.append(texts)
        await websocket.recv()
        await websocket.send(json.dumps(READY))
        if len(asked) == 3:
            await websocket.send(json.dumps({**WORD, "audio_ms": 900}))  # after a pause, so the client believes it
        async for message in websocket:
            if isinstance(message, bytes):
                continue
            texts.append(json.loads(message)["type"])
            if len(asked) < 3:
                await websocket.send(json.dumps(WORD))
            await websocket.send(json.dumps(DONE if texts[-1] == "stop" else {"type": "flushed", "audio_ms": 100}))

    async with serve(session, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        runner = ServiceRunner(f"ws://{host}:{port}", {}, at_once=1, paced=True)
        run = await runner.run(read_manifest(tmp_path / "all.tsv"), counted([]))
    assert asked == [["flush", "stop"], ["stop"], ["flush", "stop"]]
    assert [result.failure for result in run.results] == ["", "", ""]
    kinds = [result.end_delay and result.end_delay.request for result in run.results]
    assert kinds == [FinalRequest.FLUSH, FinalRequest.STOP, None]


async def test_a_full_service_is_asked_again(utterances: list[Utterance]) -> None:
    """If all sessions are taken, the next one waits for a free one."""
    async with saying([FULL], [READY, WORD, DONE]) as url:
        run = await ServiceRunner(url, {}, at_once=1).run(utterances[:1], counted([]))
    assert [(result.words, result.failure) for result in run.results] == [(("the",), "")]


async def test_a_service_that_goes_away(utterances: list[Utterance]) -> None:
    """When the service is gone, the rest is not tried, but every utterance has a result."""
    async with saying([READY, WORD, DONE]) as url:
        run = await ServiceRunner(url, {}, at_once=1).run(utterances, counted([]))
    assert [result.utterance for result in run.results] == utterances
    first, second, third = (result.failure for result in run.results)
    assert first == ""
    assert second.startswith("No service answers")
    assert third == f"skipped, because an earlier utterance failed: {second}"


async def test_no_service_at_all_is_an_error(utterances: list[Utterance]) -> None:
    """Without any service there is an error instead of a result."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(SessionError, match="No service answers"):
        await ServiceRunner(f"127.0.0.1:{port}", {}, at_once=2).run(utterances, counted([]))


async def test_a_damaged_recording_is_a_result(tmp_path: Path) -> None:
    """An unreadable recording asks no service, and is reported like a failed session."""
    (tmp_path / "notes.wav").write_text("no sound")
    (tmp_path / "a.tsv").write_text("file\ttext\nnotes.wav\tyes\n")
    run = await ServiceRunner("127.0.0.1:1", {}, at_once=1).run(read_manifest(tmp_path / "a.tsv"), counted([]))
    assert "cannot be read as audio" in run.results[0].failure


# A process of a process that works for a while and then waits to be ended.
WORK = "import time\nwhile time.process_time() < 0.5: pass\nprint('done', flush=True); input()"
BOTH = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {WORK!r}])"


def test_grandchildren_count() -> None:
    """Living descendants are counted, this process is not."""
    before = descendants_cpu_s(os.getpid())
    assert before is not None
    with subprocess.Popen([sys.executable, "-c", BOTH], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"done\n"
        during = descendants_cpu_s(os.getpid())
        assert during is not None
        assert 0.4 < during - before < 5
        process.communicate(b"\n")


def test_a_process_that_is_not_there() -> None:
    """The CPU time of a process that does not exist is not known."""
    assert descendants_cpu_s(2**30) is None
