"""The command `serve` as a process in front of the Triton that the tests share."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from websockets.asyncio.client import connect

from streamer.bridge.access.keys import make_key
from streamer.cli import run
from streamer.engine.graphs.loading import load_public_model
from streamer.engine.recogniser import Chunk
from streamer.engine.stream_events import Final
from streamer.engine.stream_options import StreamOptions
from streamer.library.model_library import ModelLibrary
from streamer.testing.exact_repository import add_exact_model, exact_repository
from streamer.testing.exact_speech import say
from streamer.testing.graphs.exact_nemo import make_nemotron_folder
from streamer.testing.graphs.exact_t_one import make_t_one_folder
from streamer.testing.graphs.exact_zipformer2 import make_ctc_folder
from streamer.testing.graphs.sounds import random_sound
from streamer.triton.server import TritonServer
from tests.bridge.service_client import SPOKEN, disturbed, recognise, rest, session, text
from tests.command_run import streamer, streamer_here
from tests.project import ROOT
from tests.pseudo_terminal import COMMAND, Terminal
from tests.serve_process import Serving, serving
from tests.triton_processes import stubs

# A port on which nobody listens.
DEAD = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def triton(exact_triton: TritonServer) -> TritonServer:
    """An exact model: these tests are about the process."""
    return exact_triton


async def test_text(triton: TritonServer) -> None:
    """The log has the address, then one line for each event with the session's id; SIGTERM gives status 0."""
    with serving("--triton", triton.grpc_address) as served:
        assert served.lines[-1].startswith("streamer: ready: ")
        assert text(await recognise(served.url, SPOKEN[:100_000]))
        assert served.end() == 0
    of_session = [line for line in served.lines if " session=" in line]
    assert len({word for line in of_session for word in re.findall(r" session=(\w+)", line)}) == 1
    assert re.match(r"\S+Z info ready session=\w+ encoding=pcm_s16le sample_rate=16000 channels=1$", of_session[0])
    assert re.match(r"\S+Z info ended session=\w+ reason=done audio_ms=3125$", of_session[-1])


async def test_json(triton: TritonServer) -> None:
    """Every line is a JSON object, including messages to the operator."""
    with serving("--triton", triton.grpc_address, "--log-format", "json") as served:
        await recognise(served.url, SPOKEN[:100_000])
        assert served.end() == 0
    lines = [json.loads(line) for line in served.lines]
    assert all({"time", "level", "event"} <= set(line) for line in lines)
    assert [line["event"] for line in lines if "session" in line] == ["ready", "ended"]


async def test_level(triton: TritonServer) -> None:
    """At a higher level, sessions without problems leave no lines."""
    with serving("--triton", triton.grpc_address, "--log-level", "warning") as served:
        await recognise(served.url, SPOKEN[:100_000])
        assert served.end() == 0
    assert not any("session=" in line for line in served.lines)


async def test_a_dead_collector(triton: TritonServer) -> None:
    """If nobody takes the traces, sessions are not disturbed, and the end is hardly later."""
    with serving("--triton", triton.grpc_address, "--traces", DEAD) as served:
        assert text(await recognise(served.url, SPOKEN[:100_000]))
        assert served.end() == 0


async def test_a_settings_file(triton: TritonServer, tmp_path: Path) -> None:
    """The file applies unless a variable or a flag says something else."""
    file = tmp_path / "streamer.toml"
    file.write_text(f'triton = ["{triton.grpc_address}"]\nsessions = 3\nlog-format = "json"\nlog-level = "error"\n')
    variables = {"STREAMER_SERVE_LOG_LEVEL": "info", "STREAMER_SERVE_LOG_FORMAT": "text"}
    with serving("--config", str(file), "--log-format", "json", environment=variables) as served:
        assert served.state["sessions_limit"] == 3
        await recognise(served.url, SPOKEN[:100_000])
        assert served.end() == 0
    lines = [json.loads(line) for line in served.lines]
    assert [line["event"] for line in lines if "session" in line] == ["ready", "ended"]


async def test_a_supervisor_is_told(triton: TritonServer, tmp_path: Path) -> None:
    """A supervisor hears when the service is ready, that it lives, and once that it stops."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(str(tmp_path / "notify"))
        supervisor.settimeout(60)
        variables = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "300000"}
        with serving("--triton", triton.grpc_address, environment=variables) as served:
            told = [supervisor.recv(100)]
            while told[-1] != b"READY=1":
                told.append(supervisor.recv(100))
            assert served.state["ready"]
            told = [supervisor.recv(100), supervisor.recv(100)]
            assert set(told) == {b"WATCHDOG=1"}
            assert served.end() == 0
        while told[-1] != b"STOPPING=1":
            told.append(supervisor.recv(100))
        assert set(told[:-1]) == {b"WATCHDOG=1"}


def test_a_service_of_a_test_ends_with_its_process(triton: TritonServer) -> None:
    """If the process of the tests is killed, no service is left behind."""
    command = [sys.executable, "-c", KILLED, triton.grpc_address]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as tests:
        assert tests.stdout is not None
        service = psutil.Process(int(tests.stdout.readline()))
        assert service.is_running()
        tests.kill()
    service.wait(60)


KILLED = """
import sys
from tests.serve_process import serving
with serving("--triton", sys.argv[1]) as served:
    print(served.process.pid, flush=True)
    served.ended(60)
"""


def test_the_settings_are_printed(tmp_path: Path) -> None:
    """The settings go to standard output, and nothing is started, even with contradictions or a missing file."""
    done = streamer_here("serve", "--print-config", "--keys", "missing", "--tls-key", "key", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "streamer.toml").write_text(done.stdout)
    again = streamer_here("serve", "--print-config", "--config", "streamer.toml", folder=tmp_path)
    values = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    assert f'keys = "{tmp_path}/missing"' in values
    assert [line for line in again.stdout.splitlines() if not line.startswith("#")] == values


def test_mistakes_are_lines(tmp_path: Path) -> None:
    """Each mistake has its line, and nothing is started."""
    (tmp_path / "streamer.toml").write_text('prot = 9000\nopen = "yes"\n')
    done = streamer_here("serve", "--config", "streamer.toml", "--port", "70000", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "streamer: unknown setting 'prot' in streamer.toml, line 1; did you mean 'port'?",
        "streamer: --port must be a whole number from 0 to 65535, not 70000.",
        'streamer: open in streamer.toml, line 2, must be true or false, not "yes".',
    ]


def test_a_contradiction_names_the_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A contradiction names the line of the file."""
    (tmp_path / "a.toml").write_text("\nper-key = 4\n")
    assert run(["serve", "--config", str(tmp_path / "a.toml")]) == 2
    told = f"per-key in {tmp_path}/a.toml, line 2, is a limit for each key: give --keys too."
    assert capsys.readouterr().err == f"streamer: {told}\n"


@pytest.mark.parametrize(
    ("wrong", "right"),
    [(("--log-format", "xml"), "text or json"), (("--log-level", "loud"), "debug, info, warning or error")],
)
def test_wrong_options(wrong: tuple[str, str], right: str) -> None:
    """A wrong format or level is named together with the possible ones."""
    done = streamer_here("serve", *wrong)
    assert done.returncode == 2
    assert done.stderr == f"streamer: {wrong[0]} must be {right}, not '{wrong[1]}'.\n"


async def test_models(tmp_path: Path) -> None:
    """Models come from the repository and from another folder, under public names; one of them can be replaced."""
    repository, elsewhere = tmp_path / "repository", tmp_path / "elsewhere"
    for folder, name in ((repository, "one"), (repository, "three"), (elsewhere, "two")):
        add_exact_model(folder, name, slots=8)
    models = f"one,fast={elsewhere / 'two'}"
    with serving("--repository", str(repository), "--model", models, "--slots", "4") as served:
        assert {name: state["model"] for name, state in served.state["models"].items()} == {
            "default": "one",
            "fast": "two",
        }
        audio = say("hello").tobytes()
        asked: list[dict[str, Any]] = [{}, {"model": "fast"}]
        for options in asked:
            assert text(await recognise(served.url, audio, **options)) == "hello"
        assert served.roll("three", "--name", "slow").returncode == 1
        assert served.roll("three", "--name", "fast").returncode == 0
        assert served.state["models"]["fast"]["model"] == "three"
        assert served.end() == 0


async def test_public_models_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One service has several of them; each session gets the words of the model that it asks for."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    library = ModelLibrary()
    audio = random_sound(np.random.default_rng(1), 4.0)
    expected = {}
    for name, make in (("first", make_ctc_folder), ("second", make_t_one_folder)):
        (library.folder / name).mkdir(parents=True)
        recogniser = load_public_model(make(library.folder / name), name=name, slots=1)
        recogniser.open(1, StreamOptions(search="greedy", step_ms=recogniser.model.step_ms[0]))
        [(_, events)] = recogniser.step([Chunk(1, audio, end=True)])
        assert not isinstance(events, Exception)
        expected[name] = " ".join(event.text for event in events if isinstance(event, Final))
    assert expected["first"] != expected["second"] != ""
    with serving("--model", "first,other=second", "--slots", "2") as served:
        for public, name in (("default", "first"), ("other", "second")):
            assert text(await recognise(served.url, audio.tobytes(), model=public)) == expected[name]
        assert served.end() == 0


async def test_a_model_of_several_languages(tmp_path: Path) -> None:
    """Each session gets the words of its language, even if the process of the model is killed; others are refused."""
    folder = tmp_path / "nemotron"
    folder.mkdir()
    recogniser = load_public_model(make_nemotron_folder(folder), name="nemotron", slots=1)
    [step_ms] = recogniser.model.step_ms
    audio = random_sound(np.random.default_rng(1), 3.0)
    expected = {}
    for language in ("auto", "ja-JP"):
        recogniser.open(1, StreamOptions(step_ms=step_ms, search="greedy", language=language))
        [(_, events)] = recogniser.step([Chunk(1, audio, end=True)])
        assert not isinstance(events, Exception)
        expected[language] = " ".join(event.text for event in events if isinstance(event, Final))
    assert expected["auto"] != expected["ja-JP"] != ""
    with serving("--model", str(folder), "--slots", "2") as served:
        assert text(await recognise(served.url, audio.tobytes())) == expected["auto"]
        found = await disturbed(served.url, partial(_kill_model, served), audio.tobytes(), language="ja")
        assert "recovered" in {event["type"] for event in found}
        assert text(found) == expected["ja-JP"]
        async with connect(served.url) as websocket:
            await websocket.send('{"type":"start","language":"nl"}')
            [refused] = await rest(websocket)
        assert (refused["code"], websocket.close_code) == ("bad_option", 4000)
        assert "this model has no language 'nl'; it has auto, de-DE, en-GB" in refused["message"]
        assert served.end() == 0


async def _kill_model(served: Serving) -> None:
    [stub] = stubs(served.process.pid)
    stub.kill()


@pytest.mark.parametrize(
    ("models", "words"),
    [
        ("nowhere", "which is not in "),
        ("one,one", "has one twice"),
        ("no/such/folder", "which is not the folder of a model"),
        ("../one", "which is not the folder of a model"),
        ("a b", "must be the name or folder of a model"),
    ],
)
def test_models_that_cannot_be(models: str, words: str) -> None:
    """Impossible models are refused before anything is started."""
    done = streamer_here("serve", "--model", models)
    assert done.returncode == 2
    assert words in done.stderr


async def test_models_on_demand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all models of this machine, the first is loaded at the start, and another one when a session asks for it."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    library = ModelLibrary()
    for name in ("first", "second"):
        (library.folder / name).mkdir(parents=True)
        make_ctc_folder(library.folder / name)
    with serving("--model", "first,library", "--load", "on-demand", "--slots", "4") as served:

        def states() -> dict[str, str]:
            return {name: model["state"] for name, model in served.state["models"].items()}

        assert states() == {"default": "loaded", "streaming_asr": "unloaded", "second": "unloaded"}
        async with connect(served.url) as websocket:
            await websocket.send('{"type":"start","model":"second"}')
            await websocket.send(bytes(32_000))
            await websocket.send('{"type":"stop"}')
            events = await rest(websocket)
        assert [event["type"] for event in events[:2]] == ["starting", "ready"]
        assert (events[1]["triton_model"], events[-1]["type"]) == ("second", "done")
        assert states() == {"default": "loaded", "streaming_asr": "unloaded", "second": "loaded"}
        assert served.end() == 0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--load", "on-demand", "--triton", "localhost:1"], "--load on-demand is only for the embedded Triton"),
        (["--load", "on-demand", "--instances", "1-2"], "--load on-demand cannot be combined with a range"),
        (["--models-memory", "3"], "--models-memory is only for --load on-demand."),
    ],
)
def test_loading_that_cannot_be(given: list[str], words: str, capfd: pytest.CaptureFixture[str]) -> None:
    """It is refused before anything is started."""
    assert run(["serve", "--port", "0", *given]) == 2
    assert words in capfd.readouterr().err


def test_a_model_without_room() -> None:
    """A model that does not fit into the memory even alone is refused before anything is started."""
    done = streamer("serve", "--port", "0", "--load", "on-demand", "--models-memory", "0.2")
    assert done.returncode == 1
    assert re.search(r"default needs about 0\.\d GB, and models may hold 0\.2 GB: give more with --models", done.stderr)


def test_a_range_that_cannot_be() -> None:
    """A range of instances is only for the embedded Triton, and not for an ensemble; nothing is started."""
    done = streamer_here("serve", "--instances", "1-2", "--triton", "localhost:1")
    assert done.returncode == 2
    assert done.stderr == "streamer: --instances can be a range only for the embedded Triton, not with --triton.\n"
    done = streamer("serve", "--instances", "1-2", "--model", "asr_heads", "--port", "0")
    assert done.returncode == 1
    assert "asr_heads is an ensemble: the number of its instances cannot follow the load" in done.stderr


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def wait_ready(port: int, limit_s: float = 60.0) -> None:
    """Wait until /readyz reports it, for a service whose log nobody reads."""
    until = time.monotonic() + limit_s
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=60):
                return
        except (OSError, HTTPException):
            assert time.monotonic() < until
            time.sleep(0.05)


@contextmanager
def started(command: list[str], log: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A service whose log nobody reads. It is killed at the end if it has not ended."""
    with subprocess.Popen(command, stderr=log) as process:
        try:
            yield process
        finally:
            process.kill()


async def serves(process: subprocess.Popen[bytes], port: int) -> None:
    """Check that it serves a session and ends in order."""
    await asyncio.to_thread(wait_ready, port)
    assert text(await recognise(f"ws://127.0.0.1:{port}/v1/stream", SPOKEN[:100_000]))
    process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(process.wait, 60) == 0


async def test_nobody_reads_the_log(triton: TritonServer) -> None:
    """A full pipe for the log stops neither the start nor a session nor the end."""
    port = free_port()
    readable, writable = os.pipe()
    os.write(writable, b"\n" * fcntl.fcntl(writable, fcntl.F_GETPIPE_SZ))
    command = [*COMMAND, "serve", "--port", str(port), "--triton", triton.grpc_address, "--log-level", "debug"]
    with started(command, writable) as process:
        await serves(process, port)
    os.close(readable)
    os.close(writable)


async def test_no_standard_descriptors(tmp_path: Path) -> None:
    """A daemon without standard descriptors starts its own Triton and serves."""
    port = free_port()
    models = str(exact_repository(tmp_path))
    arguments = ["serve", "--port", str(port), "--repository", models, "--instances", "1", "--slots", "2"]
    closed = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *COMMAND, *arguments]
    with started(closed) as process:
        await serves(process, port)


async def test_a_hangup_ends_nothing(triton: TritonServer, tmp_path: Path) -> None:
    """After SIGHUP the keys are read again, and a session goes on to its end."""
    keys = tmp_path / "keys"
    keys.write_text(make_key("alice").line + "\n")
    with serving("--triton", triton.grpc_address, "--keys", str(keys), "--open-metrics") as served:
        secret = make_key("bob")
        keys.write_text(secret.line + "\n" + make_key("carol").line + "\n")
        os.utime(keys, ns=(1, 1))  # in the past: fresh files are read again in any case
        served.send(signal.SIGHUP)
        await asyncio.to_thread(served.wait_for, "keys read again keys=2")
        url = f"{served.url}?key={secret.secret}"
        async with session(url) as websocket:
            served.send(signal.SIGHUP)
            await websocket.send(SPOKEN[:100_000])
            await websocket.send('{"type":"stop"}')
            assert (await rest(websocket))[-1]["type"] == "done"
        assert served.end() == 0
    assert sum(line.startswith("streamer: SIGHUP: keys and certificate") for line in served.lines) == 2


async def test_a_closed_terminal_ends_it(triton: TritonServer) -> None:
    """A closed terminal ends it in order, as SIGTERM does, and sessions get the recognised words."""
    port = free_port()
    terminal = Terminal("serve", "--port", str(port), "--triton", triton.grpc_address, "--drain-limit", "0.1")
    try:
        await asyncio.to_thread(wait_ready, port)
        async with session(f"ws://127.0.0.1:{port}/v1/stream") as websocket:
            await websocket.send(SPOKEN[:100_000])
            terminal.hang_up()
            events = await rest(websocket)
        assert text(events)
        assert events[-1]["code"] == "shutting_down"
        assert await asyncio.to_thread(terminal.process.wait, 60) == 129
    finally:
        with suppress(psutil.NoSuchProcess):
            terminal.process.kill()
