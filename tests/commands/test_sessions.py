"""`streamer sessions` with real services: of one process, of workers, of several services, and of none."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from websockets.asyncio.client import connect

from streamer.bridge.triton.server import TritonServer
from streamer.commands.arguments import USAGE
from tests.bridge.access.bare_port import ALICE
from tests.bridge.service_client import SPOKEN, START, receive, rest, resume
from tests.command_run import streamer_here
from tests.commands.worker_service import at_worker, has, worker_pids
from tests.redis_server import RedisServer, redis_server
from tests.serve_process import PATIENCE_S, Serving, serving

UNKNOWN = "0123456789abcdef"


@pytest.fixture(scope="module")
def triton(exact_triton: TritonServer) -> TritonServer:
    """An exact model: these tests are about processes."""
    return exact_triton


@pytest.fixture
def store() -> Iterator[RedisServer]:
    """A store that is empty."""
    with redis_server() as running:
        yield running


@pytest.fixture(scope="module")
def served(triton: TritonServer) -> Iterator[Serving]:
    """Three workers."""
    with serving("--triton", triton.grpc_address, "--workers", "3") as running:
        yield running
        assert running.end() == 0


async def of(served: Serving, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `streamer sessions` for this service."""
    command = [sys.executable, "-m", "streamer", "sessions", *arguments, "--control", str(served.control)]

    def finish() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)

    return await asyncio.to_thread(finish)


async def listed(served: Serving) -> list[dict[str, Any]]:
    done = await of(served, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    content = json.loads(done.stdout)
    assert content["problems"] == []
    sessions: list[dict[str, Any]] = content["sessions"]
    return sessions


async def test_a_service_of_one_process(triton: TritonServer, tmp_path: Path) -> None:
    """The table has the session with its key and none of its words; it is ended, and the log says so."""
    (tmp_path / "keys").write_text(f"{ALICE.line}\n")
    with serving("--triton", triton.grpc_address, "--keys", str(tmp_path / "keys"), "--open-metrics") as running:
        assert (await of(running)).stdout == "No session is live.\n"
        async with connect(f"{running.url}?key={ALICE.secret}", compression=None) as websocket:
            await websocket.send(START)
            ready = await receive(websocket)
            await websocket.send(SPOKEN[: len(SPOKEN) // 2])
            while (partial := await receive(websocket))["type"] != "partial":
                pass
            done = await of(running)
            headings, row, total = done.stdout.splitlines()
            assert headings.split() == ["id", "key", "format", "model", "state", "age", "audio", "lag"]
            assert row.split()[:5] == [ready["session"], "alice", "native", "default", "streaming"]
            assert (total, done.returncode) == ("1 session.", 0)
            assert not [word for word in partial["text"].split() if word in done.stdout.split()]
            ending = await of(running, "end", ready["session"])
            assert (ending.returncode, ready["session"] in ending.stdout) == (0, True)
            events = await rest(websocket)
            assert "final" in [event["type"] for event in events]
            assert (events[-1]["code"], websocket.close_code) == ("ended_by_operator", 1008)
        await has(running, 'streamer_sessions_ended_total{reason="ended_by_operator"}', 1)
        again = await of(running, "end", ready["session"])
        assert again.returncode == 1
        assert again.stderr == f"streamer: There is no session '{ready['session']}'; it may have ended.\n"
        assert running.end() == 0
        assert [line for line in running.lines if " ended " in line and "reason=ended_by_operator" in line]


async def test_workers(served: Serving) -> None:
    """The list has the sessions of all workers, and any of them is ended, wherever it is."""
    async with AsyncExitStack() as stack:
        opened = {number: await stack.enter_async_context(at_worker(served.url, number)) for number in (1, 2, 3)}
        await has(served, "streamer_sessions", 3)
        workers = {session["id"]: session["worker"] for session in await listed(served)}
        assert workers == {ready["session"]: number for number, (_, ready) in opened.items()}
        for websocket, ready in opened.values():
            assert (await of(served, "end", ready["session"])).returncode == 0
            events = await rest(websocket)
            assert (events[-1]["code"], websocket.close_code) == ("ended_by_operator", 1008)
        await has(served, "streamer_sessions", 0)
        assert await listed(served) == []
        for _ in range(3):  # through workers that the system chooses
            async with connect(served.url, compression=None) as websocket:
                await websocket.send(resume(ready, 1))
                assert (await rest(websocket))[-1]["code"] == "ended_by_operator"


async def test_a_worker_that_does_not_answer(served: Serving) -> None:
    """What the others have is listed, with the worker that is missing; a session is not found for certain."""
    async with at_worker(served.url, 1) as (_, ready), at_worker(served.url, 3):
        stopped = psutil.Process(worker_pids(served)[3])
        stopped.send_signal(signal.SIGSTOP)
        try:
            done = await of(served, "--json")
            content = json.loads(done.stdout)
            assert [session["id"] for session in content["sessions"]] == [ready["session"]]
            assert content["problems"] == ["Worker 3 does not answer."]
            assert done.returncode == 1
            assert "Worker 3 does not answer. Some sessions may be missing here." in done.stderr
            ending = await of(served, "end", UNKNOWN)
            assert ending.returncode == 1
            assert "Worker 3 does not answer. Try again later." in ending.stderr
        finally:
            stopped.send_signal(signal.SIGCONT)
        assert len(await listed(served)) == 2


@asynccontextmanager
async def two_bridges(triton: TritonServer, store: RedisServer) -> AsyncIterator[tuple[Serving, Serving]]:
    """A bridge of two workers and one of one process, that share a store."""
    with (
        serving("--triton", triton.grpc_address, *store.options, "--workers", "2") as first,
        serving("--triton", triton.grpc_address, *store.options) as second,
    ):
        for each in (first, second):
            await has(each, "streamer_bridges_together", 1)  # all workers have told the others of themselves
            await has(each, "streamer_other_bridges", 1)
        yield first, second


async def test_several_bridges(triton: TritonServer, store: RedisServer) -> None:
    """Either bridge lists the sessions of both, and ends any of them; one that is stopped is named."""
    async with two_bridges(triton, store) as (first, second), AsyncExitStack() as stack:
        opened = {2: await stack.enter_async_context(at_worker(first.url, 2))}
        websocket = await stack.enter_async_context(connect(second.url, compression=None))
        await websocket.send(START)
        opened[0] = websocket, await receive(websocket)
        await has(first, "streamer_sessions", 1)
        lists = [await listed(each) for each in (first, second)]
        for sessions in lists:
            assert {session["id"]: session["worker"] for session in sessions} == {
                ready["session"]: worker for worker, (_, ready) in opened.items()
            }
            assert len({session["bridge"] for session in sessions}) == 2
        assert "bridge" in (await of(first)).stdout.splitlines()[0].split()
        for other, worker in ((second, 2), (first, 0)):
            websocket, ready = opened[worker]
            assert (await of(other, "end", ready["session"])).returncode == 0
            assert (await rest(websocket))[-1]["code"] == "ended_by_operator"
        await has(first, "streamer_sessions", 0)
        await has(second, "streamer_sessions", 0)
        assert (await of(first, "end", UNKNOWN)).stderr.startswith("streamer: There is no session")
        second.send(signal.SIGSTOP)
        try:
            done = await of(first, "--json")
            assert done.returncode == 1
            [problem] = json.loads(done.stdout)["problems"]
            assert re.fullmatch(r"Bridge \w{10} does not answer\.", problem)
        finally:
            second.send(signal.SIGCONT)


async def test_the_store_is_away(triton: TritonServer, store: RedisServer) -> None:
    """What this bridge has is listed and ended, with a sentence about the rest."""
    async with two_bridges(triton, store) as (first, second), at_worker(first.url, 1) as (websocket, ready):
        await has(first, "streamer_sessions", 1)
        store.kill()
        await has(first, "streamer_bridges_together", 0)
        done = await of(first, "--json")
        content = json.loads(done.stdout)
        assert (done.returncode, [session["id"] for session in content["sessions"]]) == (1, [ready["session"]])
        assert content["problems"] == ["The store is away, so only this bridge is known."]
        await has(second, "streamer_bridges_together", 0)
        ending = await of(second, "end", ready["session"])
        assert ending.returncode == 1
        assert "The store is away, so only this bridge is known. Try again later." in ending.stderr
        assert (await of(first, "end", ready["session"])).returncode == 0
        assert (await rest(websocket))[-1]["code"] == "ended_by_operator"


def test_no_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a service, a sentence says how to start one, or which path was tried."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    done = streamer_here("sessions")
    assert done.returncode == 1
    assert f"no service of this user runs on this machine (none listens in {tmp_path / 'streamer'})" in done.stderr
    for arguments, path in (
        (["--port", "4242"], tmp_path / "streamer/4242.sock"),
        (["--control", str(tmp_path / "other")], tmp_path / "other"),
    ):
        done = streamer_here("sessions", *arguments)
        assert done.returncode == 1
        assert f"no answer at {path}: No such file or directory" in done.stderr


def test_two_services(triton: TritonServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One service is found by itself; of two, one must be chosen."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    command = [sys.executable, "-m", "streamer", "serve", "--port", "0", "--triton", triton.grpc_address]
    (tmp_path / "streamer").mkdir(mode=0o700)
    (tmp_path / "streamer" / "77.sock").touch()  # left by a service that was killed
    running = list[subprocess.Popen[str]]()
    try:
        for number in (1, 2):
            running.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
            stderr = running[-1].stderr
            assert stderr is not None
            while "ready: ws" not in (line := stderr.readline()):
                assert line
            done = streamer_here("sessions")
            if number == 1:
                assert (done.returncode, done.stdout) == (0, "No session is live.\n")
        ports = sorted(int(path.stem) for path in (tmp_path / "streamer").glob("*.sock") if path.stem != "77")
        assert done.returncode == 1
        assert f"2 services run on this machine: choose one with --port, of {ports[0]}, {ports[1]}." in done.stderr
        done = streamer_here("sessions", "--port", str(ports[0]))
        assert (done.returncode, done.stdout) == (0, "No session is live.\n")
    finally:
        for process in running:
            process.terminate()
            process.wait(PATIENCE_S)
            assert process.stderr is not None
            process.stderr.close()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["end"], "end needs the ID of a session"),
        (["list", UNKNOWN], f"list takes no ID, unlike '{UNKNOWN}'"),
        (["stop", UNKNOWN], "stop"),
    ],
)
def test_odd_arguments(arguments: list[str], words: str) -> None:
    """A mistake in the command line is told before a service is asked."""
    done = streamer_here("sessions", *arguments)
    assert (done.returncode, words in done.stderr) == (USAGE, True)
