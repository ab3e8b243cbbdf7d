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
from http.client import HTTPException
from pathlib import Path

import psutil
import pytest

from streamer.bridge.access.keys import make_key
from streamer.bridge.triton.server import TritonServer
from streamer.commands.cli import run
from streamer.testing.exact_service import exact_repository
from tests.bridge.service_client import SPOKEN, eventually, recognise, rest, session, text
from tests.command_run import streamer_here
from tests.project import ROOT
from tests.pseudo_terminal import COMMAND, Terminal
from tests.serve_process import serving

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
    (tmp_path / "streamer.toml").write_text('prt = 9000\nopen = "yes"\n')
    done = streamer_here("serve", "--config", "streamer.toml", "--port", "70000", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "streamer: unknown setting 'prt' in streamer.toml, line 1; did you mean 'port'?",
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
    ("arguments", "told"),
    [
        (
            ("--reader", "moonshine-bass"),
            "--reader: no reader moonshine-bass is known; did you mean moonshine-base?",
        ),
        (
            ("--reader", "moonshine-base"),
            "--reader names moonshine-base, which is not on this machine: `streamer models get moonshine-base` fetches "
            "it.",
        ),
        (
            ("--reader", "moonshine-tiny", "--triton", "localhost:1"),
            "--reader is only for the embedded Triton: another Triton has the reader that it loaded.",
        ),
    ],
)
def test_a_reader_that_cannot_be_had(
    arguments: tuple[str, ...], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that is not known, not here, or for another Triton is refused in a line, and nothing is started."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    done = streamer_here("serve", *arguments)
    assert (done.returncode, done.stderr) == (2, f"streamer: {told}\n")


@pytest.mark.parametrize(
    ("wrong", "right"),
    [(("--log-format", "xml"), "text or json"), (("--log-level", "loud"), "debug, info, warning or error")],
)
def test_wrong_options(wrong: tuple[str, str], right: str) -> None:
    """A wrong format or level is named together with the possible ones."""
    done = streamer_here("serve", *wrong)
    assert done.returncode == 2
    assert done.stderr == f"streamer: {wrong[0]} must be {right}, not '{wrong[1]}'.\n"


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


async def test_a_closed_terminal_after_nohup(triton: TritonServer, tmp_path: Path) -> None:
    """A service that was started with nohup goes on, and so does a session."""
    port = free_port()
    command = ["/usr/bin/env", "-C", str(tmp_path), "nohup", *COMMAND]
    terminal = Terminal("serve", "--port", str(port), "--triton", triton.grpc_address, command=command)
    log = tmp_path / "nohup.out"
    try:
        await asyncio.to_thread(wait_ready, port)
        async with session(f"ws://127.0.0.1:{port}/v1/stream") as websocket:
            terminal.hang_up()
            await eventually(lambda: "streamer: SIGHUP: " in log.read_text())
            await websocket.send(SPOKEN[:100_000])
            await websocket.send('{"type":"stop"}')
            assert (await rest(websocket))[-1]["type"] == "done"
        terminal.process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(terminal.process.wait, 60) == 0
    finally:
        with suppress(psutil.NoSuchProcess):
            terminal.process.kill()
