"""What a worker says to the process that started it, which here is the test."""

from __future__ import annotations

import asyncio
import pickle
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from websockets.asyncio.client import connect

from streamer.base.json_types import JsonObject
from streamer.bridge.http.listener import listening_sockets
from streamer.bridge.triton.server import TritonServer
from streamer.bridge.workers.dialogue import Answer, Dialogue
from streamer.bridge.workers.share import SharedRecord
from streamer.bridge.workers.workers import Place
from streamer.commands.settings.configuration import configure
from streamer.commands.workers import Task
from tests.bridge.service_client import SPOKEN, START, eventually, receive, rest, text

PATIENCE_S = 60.0


@asynccontextmanager
async def worker(
    folder: Path, listener: socket.socket, flags: Mapping[str, object], answers: Mapping[str, Answer], *, embedded: bool
) -> AsyncIterator[tuple[Dialogue, Counter[str], asyncio.subprocess.Process]]:
    """A worker process, and how often it has told what. It ends with its dialogue, at the latest."""
    record, heard = SharedRecord(folder), Counter[str]()
    ours, theirs = socket.socketpair()
    with theirs:
        sockets = (listener.fileno(),)
        place = Place(1, 1, 1, folder, theirs.fileno(), sockets, (), 1, {"default": "streaming_asr"}, None, False)
        task = folder / "1.task"
        task.write_bytes(pickle.dumps(Task(place, configure(flags, {}), None, embedded, None)))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "streamer.commands.workers", str(task), pass_fds=(theirs.fileno(), *sockets)
        )
    dialogue = await Dialogue.over(ours)
    talking = asyncio.create_task(dialogue.run(answers, lambda what, _: heard.update([what])))
    try:
        yield dialogue, heard, process
    finally:
        dialogue.close()
        await asyncio.wait_for(process.wait(), PATIENCE_S)
        await talking
        record.close()


async def test_a_worker_that_waits_for_triton_says_that_it_is_alive(tmp_path: Path) -> None:
    """It is told from one that hangs before it is ready."""

    async def never(_: JsonObject) -> object:
        return await asyncio.get_running_loop().create_future()

    [listener] = await listening_sockets("127.0.0.1", 0)
    with listener:
        async with worker(tmp_path, listener, {}, {"address": never}, embedded=True) as (_, heard, _):
            await eventually(lambda: heard["alive"] > 1)
            assert not heard["ready"]


async def test_a_worker_that_drains_says_that_it_is_alive(tmp_path: Path, exact_triton: TritonServer) -> None:
    """Its sessions may go on for the whole --drain-limit, because it is not taken for one that hangs."""
    [listener] = await listening_sockets("127.0.0.1", 0)
    flags = {"triton": [exact_triton.grpc_address], "drain_limit": PATIENCE_S}
    with listener:
        async with worker(tmp_path, listener, flags, {}, embedded=False) as (dialogue, heard, process):
            await eventually(lambda: heard["ready"] > 0)
            async with connect(f"ws://127.0.0.1:{listener.getsockname()[1]}/v1/stream", compression=None) as websocket:
                await websocket.send(START)
                assert (await receive(websocket))["type"] == "ready"
                dialogue.tell("stop")
                before = heard["alive"]
                await eventually(lambda: heard["alive"] > before + 2)  # one of them may have been under way
                await websocket.send(SPOKEN)
                await websocket.send('{"type":"stop"}')
                assert text(await rest(websocket))
                assert websocket.close_code == 1000
            assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0
