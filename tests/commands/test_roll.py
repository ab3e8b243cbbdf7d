"""The command `roll`, which replaces the model of a running service."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from streamer.base.json_types import JsonObject
from streamer.bridge.control import Control, OwnRolls, default_path
from streamer.bridge.telemetry.logs import Failures
from streamer.bridge.triton.server import TritonServer
from streamer.testing.exact_service import add_exact_model
from streamer.testing.exact_speech import say, silence
from tests.bridge.service_client import receive, recognise, rest, session, text
from tests.bridge.upstreams.opened_models import models_at
from tests.command_run import streamer_here
from tests.serve_process import PATIENCE_S, Serving, serving
from tests.triton_processes import recognisers

AUDIO = np.concatenate([say("hello world"), silence(1500), say("and on")]).tobytes()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    for name in ("one", "two"):
        add_exact_model(folder, name)
    add_exact_model(folder, "broken", fault="does not load")
    return folder


@pytest.fixture
def served(repository: Path) -> Iterator[Serving]:
    """A service with its own Triton."""
    with serving("--repository", str(repository), "--model", "one", "--slots", "8") as running:
        yield running


async def test_roll(served: Serving, repository: Path) -> None:
    """Each step is reported until the former model is unloaded; a session goes on; the message says how to restart."""
    assert served.state["models"]["default"]["model"] == "one"
    async with session(served.url) as websocket:
        await websocket.send(AUDIO[:60_000])
        while (await receive(websocket))["type"] != "partial":
            pass
        rolling = asyncio.create_task(asyncio.to_thread(served.roll, "two"))
        for _ in range(600):
            if (await asyncio.to_thread(lambda: served.state))["models"]["default"]["model"] == "two":
                break
            await asyncio.sleep(0.05)
        assert not rolling.done()
        assert text(await recognise(served.url, AUDIO)) == "hello world and on"
        await websocket.send(AUDIO[60_000:])
        done = await rolling
        await websocket.send('{"type":"stop"}')
        assert text(await rest(websocket)) == "hello world and on"
    assert done.returncode == 0
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines == [
        "streamer: asking each Triton to load and test two",
        "streamer: new sessions use two; sequences of one that move at their next cut: 1",
        "streamer: two is in use; one is unloaded",
    ]
    assert served.state["models"]["default"]["sequences"] == {"two": 0}
    [server] = [process for process in served.descendants() if process.name() == "tritonserver"]
    for _ in range(600):
        if len(recognisers(server.pid)) == 1:
            break
        await asyncio.sleep(0.1)
    assert len(recognisers(server.pid)) == 1
    assert served.end() == 0
    assert any(re.search(r" rolled name=default model=two former=one$", line) for line in served.lines)


def wait_for_model(served: Serving, model: str) -> None:
    """Until new sessions get this model."""
    while served.state["models"]["default"]["model"] != model:
        time.sleep(0.05)


async def test_a_service_that_ends_meanwhile(served: Serving) -> None:
    """A roll still waits for a session when the service is stopped: it is told, and nothing fails."""
    async with session(served.url) as websocket:
        await websocket.send(AUDIO[:60_000])
        while (await receive(websocket))["type"] != "partial":
            pass
        rolling = asyncio.create_task(asyncio.to_thread(served.roll, "two"))
        await asyncio.to_thread(wait_for_model, served, "two")
        served.send()
        assert await asyncio.to_thread(served.ended) == 0
    done = await rolling
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("streamer: ")
    assert not [line for line in served.lines if "Traceback" in line or "Cancelled" in line or " error " in line]


def test_a_model_that_cannot_be(served: Serving) -> None:
    """The reason is printed and logged, the status is 1, and the service goes on. No Triton loads an unknown model."""
    done = served.roll("three")
    assert done.returncode == 1
    [said] = done.stderr.splitlines()
    assert re.fullmatch(r"streamer: three cannot be used\. own: there is no model three in .*\. Nothing has .*", said)
    done = served.roll("broken")
    assert done.returncode == 1
    assert "broken cannot be used. own: Triton could not load broken: " in done.stderr
    assert "RuntimeError: no weights" in done.stderr
    assert done.stderr.rstrip().endswith("Nothing has changed.")
    assert (served.state["models"]["default"]["model"], served.state["ready"]) == ("one", True)
    assert text(asyncio.run(recognise(served.url, AUDIO))) == "hello world and on"
    assert served.end() == 0
    assert any(" error not rolled model=broken detail=" in line for line in served.lines)


def test_nobody_there(tmp_path: Path) -> None:
    """If no service listens, the message says so with the path."""
    done = streamer_here("roll", "two", "--control", str(tmp_path / "nothing"))
    assert done.returncode == 1
    assert f"no answer at {tmp_path / 'nothing'}: No such file or directory" in done.stderr


@pytest.mark.parametrize("name", ["../one", "", ".one", "a b", "one/1"])
def test_names(name: str) -> None:
    """An impossible model name is refused before a service is asked."""
    done = streamer_here("roll", name)
    assert done.returncode == 2
    assert "is not a valid name of a model" in done.stderr


def test_only_its_user_may_ask(triton: TritonServer) -> None:
    """Only its user can use the socket; wrong requests are answered; the socket is removed with the service."""
    with serving("--triton", triton.grpc_address) as served:
        assert stat.S_IMODE(served.control.stat().st_mode) == 0o600
        for request in (b"nonsense\n", b"[]\n", b'{"roll": "../x"}\n', b'{"stop": 1}\n', b"x" * 10_000 + b"\n"):
            with socket.socket(socket.AF_UNIX) as asking:
                asking.settimeout(60)
                asking.connect(str(served.control))
                asking.sendall(request)
                answer = json.loads(asking.makefile().readline())
            assert answer["failed"].startswith("the request cannot be understood: ")
        assert served.roll("streaming_asr").stderr.endswith("streaming_asr is already in use. Nothing has changed.\n")
        assert served.end() == 0
        assert not served.control.exists()


async def test_the_socket_is_private_and_nothing_else(triton: TritonServer, tmp_path: Path) -> None:
    """Files that are made while the service opens its socket get their usual mode."""
    modes = list[int]()

    async def make_files() -> None:
        while True:
            file = tmp_path / f"file {len(modes)}"
            file.touch()
            modes.append(stat.S_IMODE(file.stat().st_mode))
            await asyncio.sleep(0)

    making = asyncio.create_task(make_files())

    async def nothing(_: JsonObject) -> JsonObject:
        return {}

    for number in range(5):
        path = tmp_path / "own" / str(number)
        async with Control(OwnRolls(models_at(triton.grpc_address)), nothing, path, Failures(lambda: None)):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    making.cancel()
    assert len(modes) > 5
    assert len(set(modes)) == 1


def test_a_folder_of_others(triton: TritonServer, tmp_path: Path) -> None:
    """In a folder where others can write, no socket is made; the service fails if it was given that path."""
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    command = [sys.executable, "-m", "streamer", "serve", "--port", "0", "--triton", triton.grpc_address]
    done = subprocess.run(
        [*command, "--control", str(folder / "control")],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 1
    assert f"other users may write to {folder}" in done.stderr


def test_the_usual_place(triton: TritonServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a path, both use the port to find the socket. The service also runs if there can be no socket."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    command = [sys.executable, "-m", "streamer", "serve", "--triton", triton.grpc_address, "--port"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([*command, str(port)], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert "ready" in process.stderr.readline()
            assert default_path(port).is_socket()
            assert stat.S_IMODE(default_path(port).parent.stat().st_mode) == 0o700
            done = subprocess.run(
                [sys.executable, "-m", "streamer", "roll", "streaming_asr", "--port", str(port)],
                capture_output=True,
                text=True,
                check=False,
                timeout=PATIENCE_S,
            )
            assert "streaming_asr is already in use" in done.stderr
        finally:
            process.kill()
            process.wait()
    # The killed service has left its socket behind. Nobody listens there, so it is replaced.
    assert default_path(port).exists()
    monkeypatch.setenv("XDG_RUNTIME_DIR", os.devnull)
    with subprocess.Popen([*command, str(port)], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert "`streamer roll` will not reach this service" in process.stderr.readline()
            assert "ready" in process.stderr.readline()
        finally:
            process.kill()
            process.wait()


def test_a_socket_that_was_left(triton: TritonServer, tmp_path: Path) -> None:
    """A socket that a killed service left is replaced; that of a running service is not."""
    path = tmp_path / "control"
    command = ("--triton", triton.grpc_address, "--control", str(path))
    with serving(*command) as first:
        first.process.kill()
        first.process.wait()
        assert path.is_socket()
        with serving(*command) as second:
            again = subprocess.run(
                [sys.executable, "-m", "streamer", "serve", "--port", "0", *command],
                capture_output=True,
                text=True,
                check=False,
                timeout=PATIENCE_S,
            )
            assert again.returncode == 1
            assert f"another process already listens at {path}" in again.stderr
            assert path.is_socket()
            assert second.end() == 0
