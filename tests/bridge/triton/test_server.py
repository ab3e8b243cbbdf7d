"""TritonServer with the real binary: its parts, its start, the memory of its models, and an end that leaves nothing."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import psutil
import pytest

import streamer
from streamer.bridge.triton import TritonError, installation
from streamer.bridge.triton import server as server_module
from streamer.bridge.triton.installation import find_tritonserver
from streamer.bridge.triton.link import Link, LinkError
from streamer.bridge.triton.server import TritonServer, memory_of
from streamer.bridge.triton.server_process import Endpoint, loopback_ports

MODELS = Path(__file__).parent / "models"
GOOD, BAD = MODELS / "good", MODELS / "bad"


def get(address: str, path: str) -> bytes:
    with urllib.request.urlopen(f"http://{address}{path}", timeout=60) as answer:
        return answer.read()


def config(server: TritonServer) -> Any:
    return json.loads(get(server.http_address, "/v2/models/probe/config"))


def test_a_server_answers_and_leaves_nothing(place: Any) -> None:
    """Within the with block all three endpoints answer; after it no process, memory or file is left."""
    with TritonServer(GOOD) as server:
        assert psutil.Process(server.pid).name() == "tritonserver"
        assert config(server)["name"] == "probe"
        assert b"nv_inference_count" in get(server.metrics_address, "/metrics")
        host, port = server.grpc_address.split(":")
        socket.create_connection((host, int(port)), timeout=60).close()
        assert len(place.folders()) == 1
        assert len(place.regions()) == 1
        assert len(place.processes()) == 3  # guard, server, one Python process
        assert server.running
    assert not server.running
    assert place.leftovers() == []


def test_it_listens_on_loopback_only(server: TritonServer) -> None:
    """No endpoint can be reached from another machine."""
    listening = [each for each in psutil.Process(server.pid).net_connections() if each.status == psutil.CONN_LISTEN]
    assert len(listening) == 3
    assert {each.laddr.ip.removeprefix("::ffff:") for each in listening} == {"127.0.0.1"}


async def test_a_private_server(place: Any, tmp_path: Path) -> None:
    """A private server listens at no port, only its user can open its sockets, and they answer everything."""
    repository = tmp_path / "repository"
    shutil.copytree(GOOD, repository)
    with TritonServer(repository, private=True) as server:
        (folder,) = place.folders()
        connections = psutil.Process(server.pid).net_connections("inet")
        assert [each for each in connections if each.status == psutil.CONN_LISTEN] == []
        assert {path.name for path in folder.iterdir() if path.is_socket()} == {"grpc:1", "http", "metrics"}
        assert folder.stat().st_mode & 0o777 == 0o700
        await (await Link.connect(server.grpc_address, "probe")).close()
        server.unload("probe")
        with pytest.raises(LinkError, match="does not have the model probe ready"):
            await Link.connect(server.grpc_address, "probe")
        server.load("probe")
        await (await Link.connect(server.grpc_address, "probe")).close()
    assert place.leftovers() == []


def test_a_private_server_in_a_folder_with_a_long_name(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the path is too long for a socket, it listens at loopback ports."""
    long = place.folder / ("long" * 25)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with TritonServer(GOOD, private=True) as server:
        assert config(server)["name"] == "probe"


def test_an_exception_in_the_block_ends_the_server(place: Any) -> None:
    """An exception passes through, and the server has ended."""

    def fail() -> None:
        with TritonServer(GOOD):
            assert len(place.folders()) == 1
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert place.leftovers() == []


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_to_the_program_ends_the_server(place: Any, program: Any, eventually: Any, sent: int) -> None:
    """Ctrl-C in a terminal (SIGINT to the whole group), SIGTERM and SIGKILL leave nothing."""
    with program("with server:\n    print('ready', flush=True)\n    time.sleep(60)") as running:
        place.folders()
        os.killpg(running.pid, sent)
        assert running.wait(60) == -sent
        if sent == signal.SIGINT:  # the block was left in order
            assert place.leftovers() == []
    assert eventually(lambda: not place.leftovers())


def test_a_program_that_forgets_to_stop_leaves_nothing(place: Any, program: Any, eventually: Any) -> None:
    """The end of the interpreter ends the server."""
    with program("server.start(); server.wait_ready()\nprint('ready', flush=True)\nsys.exit(3)") as running:
        assert running.wait(60) == 3
    assert eventually(lambda: not place.leftovers())


def test_a_forked_child_does_not_keep_the_server(place: Any, program: Any, eventually: Any) -> None:
    """A killed program's server ends although a forked child has inherited the lifeline."""
    lines = "server.start(); server.wait_ready()\nif os.fork(): print('ready', flush=True)\ntime.sleep(120)"
    with program(lines) as running:
        (child,) = [each for each in psutil.Process(running.pid).children() if each.cmdline()[1] == "-c"]
        running.kill()
        assert eventually(lambda: len(place.processes()) == 0)
        assert child.is_running()
        child.kill()
    assert eventually(lambda: not place.leftovers())


def test_a_killed_guard_takes_the_server_along(place: Any, eventually: Any) -> None:
    """When the guard is killed, the server dies, and stop() removes what is left."""
    server = TritonServer(GOOD)
    server.start()
    try:
        server.wait_ready()
        psutil.Process(server.pid).parent().kill()
        assert eventually(lambda: not server.running)
        assert eventually(lambda: not place.processes())
        assert place.folders()
    finally:
        server.stop()
    assert place.leftovers() == []


def test_the_next_start_removes_what_a_killed_guard_left(place: Any, program: Any, eventually: Any) -> None:
    """Leftovers of dead servers are removed; those of a living server are not touched."""
    with program("with server:\n    print('ready', flush=True)\n    time.sleep(60)") as running:
        (left,) = place.folders()
        guard = psutil.Process(running.pid).children()
        for process in guard + guard[0].children(recursive=True) + [running]:
            process.kill()
    assert eventually(lambda: not place.processes())
    assert place.regions()
    with TritonServer(GOOD) as living:
        assert eventually(lambda: not left.exists())
        assert [name for name in place.regions() if name.startswith(left.name)] == []
        with TritonServer(GOOD):
            assert len(place.folders()) == 2
        assert config(living)["name"] == "probe"
        assert len(place.regions()) == 1


def test_a_server_that_dies_is_noticed(place: Any, eventually: Any) -> None:
    """A crashed server is not `running`, its traces are removed on their own, and stop() still works."""
    with TritonServer(GOOD) as server:
        place.folders()
        os.kill(server.pid, signal.SIGKILL)
        assert eventually(lambda: not server.running)
        assert eventually(lambda: not place.leftovers())


def test_stop_may_be_called_any_time(place: Any) -> None:
    """stop() works before the start, right after it, and again."""
    server = TritonServer(GOOD)
    server.stop()
    server.start()
    server.stop()
    server.stop()
    assert place.leftovers() == []
    with pytest.raises(TritonError, match="has not been started"):
        _ = server.grpc_address
    with pytest.raises(TritonError, match="has not been started"):
        server.wait_ready()


def test_stop_ends_a_wait_under_way(place: Any) -> None:
    """wait_ready() in another thread fails at once when the server is stopped."""
    server = TritonServer(GOOD)
    server.start()
    problems: list[BaseException] = []

    def wait() -> None:
        try:
            server.wait_ready()
        except TritonError as error:
            problems.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    server.stop()
    waiting.join(60)
    assert not waiting.is_alive()
    assert [str(problem) for problem in problems] == ["Triton was stopped before it was ready"]
    assert place.leftovers() == []


def test_a_broken_model_is_reported_with_its_traceback(place: Any) -> None:
    """The error has little but the model's own words, and nothing is left running."""
    server = TritonServer(BAD)
    server.start()
    with pytest.raises(TritonError, match=r"FileNotFoundError: weights\.pt is not there") as caught:
        server.wait_ready()
    text = str(caught.value)
    assert f"{BAD}/broken/1/model.py(9): read_weights" in text
    assert len(text.splitlines()) < 10
    assert not server.running
    assert place.leftovers() == []


def test_a_model_that_is_killed_while_it_is_loaded(place: Any, tmp_path: Path) -> None:
    """The kernel kills it like this when memory runs out; only our message says so."""
    shutil.copytree(GOOD, tmp_path / "models")
    model = tmp_path / "models" / "probe" / "1" / "model.py"
    model.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    with pytest.raises(TritonError, match="was killed while it loaded, usually because memory ran out"):
        TritonServer(tmp_path / "models").__enter__()
    assert place.leftovers() == []


def test_a_model_without_program_is_reported_at_once(place: Any, tmp_path: Path) -> None:
    """Triton itself would wait for more than half a minute."""
    (tmp_path / "models" / "probe" / "1").mkdir(parents=True)
    (tmp_path / "models" / "probe" / "config.pbtxt").write_text((GOOD / "probe" / "config.pbtxt").read_text())
    server = TritonServer(tmp_path / "models", ready_timeout=25)
    with pytest.raises(TritonError, match=r"could not start: [^Z]*Python model file not found"), server:
        pass
    assert place.leftovers() == []


@pytest.mark.parametrize(
    ("models", "words"),
    [(["nothing"], "model not found in any model repository"), (["broken"], 'has no field named "sequence"')],
)
def test_a_wrong_repository_is_reported(place: Any, tmp_path: Path, models: list[str], words: str) -> None:
    """A missing model and an unreadable configuration are reported in the server's words."""
    (tmp_path / "models" / "broken").mkdir(parents=True)
    (tmp_path / "models" / "broken" / "config.pbtxt").write_text("sequence: 1")
    with pytest.raises(TritonError) as caught, TritonServer(tmp_path / "models", models=models):
        pass
    assert words in str(caught.value)
    assert place.leftovers() == []


def test_a_model_that_takes_too_long_is_reported(place: Any) -> None:
    """wait_ready() raises an error after its limit."""
    with pytest.raises(TritonError, match=r"not ready after 0\.1 s"), TritonServer(GOOD, ready_timeout=0.1):
        pass
    assert place.leftovers() == []


@pytest.mark.parametrize("endpoint", ["grpc", "http", "metrics"])
def test_a_taken_port_leads_to_another(place: Any, monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    """If a chosen port is taken before the server uses it, others are chosen."""
    choose = loopback_ports
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        taken_one: dict[str, Any] = {endpoint: Endpoint("127.0.0.1", port)}
        choices = [replace(choose(), **taken_one)]
        monkeypatch.setattr(server_module, "loopback_ports", lambda: choices.pop() if choices else choose())
        with TritonServer(GOOD) as server:
            assert config(server)["name"] == "probe"
            assert str(port) not in server.grpc_address + server.http_address + server.metrics_address
            assert len(place.folders()) == 1
    assert place.leftovers() == []


def test_ports_that_are_always_taken_are_reported(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a limited number of attempts, the error says that the ports are in use."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = replace(loopback_ports(), grpc=Endpoint(*taken.getsockname()))
        monkeypatch.setattr(server_module, "loopback_ports", lambda: ports)
        monkeypatch.setattr(server_module, "START_ATTEMPTS", 2)
        with pytest.raises(TritonError, match="already in use"), TritonServer(GOOD):
            pass
    assert place.leftovers() == []


def test_settings_of_ones_own(place: Any) -> None:
    """Instances and slots reach the server, and the repository itself does not change."""
    before = (GOOD / "probe" / "config.pbtxt").read_text()
    with TritonServer(GOOD, instances=2, slots=7) as server:
        seen = config(server)
        assert seen["instance_group"][0]["count"] == 2
        assert seen["sequence_batching"]["oldest"]["max_candidate_sequences"] == 7
        assert seen["parameters"]["note"]["string_value"] == "max_candidate_sequences: 3"
        assert len(place.processes()) == 4
    assert (GOOD / "probe" / "config.pbtxt").read_text() == before
    assert place.folders() == []


def test_settings_that_a_model_lacks_are_refused(place: Any) -> None:
    """The message names the model, and nothing was started."""
    with pytest.raises(TritonError, match="slots cannot be set: the model broken has no sequence_batching"):
        TritonServer(BAD, slots=7).start()
    assert place.leftovers() == []


def test_a_model_imports_what_we_import(place: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above all they import our own package, which need not be installed, and no other version of it."""
    version = tmp_path / "models" / "importer" / "1"
    version.mkdir(parents=True)
    (version.parent / "config.pbtxt").write_text((MODELS / "plain" / "plain" / "config.pbtxt").read_text())
    (version / "model.py").write_text(
        "import numpy, only_here, streamer\n"
        f"assert streamer.__file__ == {streamer.__file__!r}, streamer.__file__\n"
        "class TritonPythonModel: pass\n"
    )
    (tmp_path / "extra").mkdir()
    (tmp_path / "extra" / "only_here.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "extra")
    with TritonServer(tmp_path / "models") as server:
        assert server.running


def test_the_log_is_kept_and_appended_to(place: Any, tmp_path: Path) -> None:
    """A given log outlives the server; earlier content stays, and is not mistaken for the server's."""
    log = tmp_path / "triton.log"
    earlier = "Failed to preinitialize Python stub\nAll models are stopped\nalready in use\n"
    log.write_text(earlier)
    with TritonServer(GOOD, log=log):
        pass
    text = log.read_text()
    assert text.startswith(earlier)
    assert "Started GRPCInferenceService" in text


def test_a_log_that_cannot_be_written_is_reported(place: Any, tmp_path: Path) -> None:
    """A wrong path is reported in one sentence."""
    with pytest.raises(TritonError, match="No such file or directory"):
        TritonServer(GOOD, log=tmp_path / "missing" / "triton.log").start()
    assert place.leftovers() == []


def test_starting_imports_nothing_heavy() -> None:
    """The server can be spawned before slow imports."""
    lines = "import sys; import streamer.bridge.triton.server; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "torch", "grpc", "asyncio", "http.client", "pytriton", "tritonclient"} & set(loaded)


def test_the_parts_are_found_without_importing_the_wheel() -> None:
    """Every part exists, and pytriton's own package stays unloaded."""
    found = find_tritonserver()
    assert all(path.exists() for path in vars(found).values())
    assert "pytriton" not in sys.modules


def test_a_missing_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the wheel the message says what to install."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(TritonError, match=r"pip install 'streamer-asr\[embedded\]'"):
        find_tritonserver()


def test_a_python_that_the_wheel_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the versions that would work."""
    monkeypatch.setattr(installation, "PYTHON", "3.99")
    with pytest.raises(TritonError, match=r"cannot run models in Python 3\.99, only in .*3\.10, 3\.11, 3\.12"):
        find_tritonserver()


def test_a_python_without_its_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The message names the missing library and the Debian package that has it."""
    found = find_tritonserver()
    monkeypatch.setattr(installation, "PYTHON", "3.99")
    with pytest.raises(TritonError, match=r"needs libpython3\.99\.so\.1\.0.* apt install libpython3\.99"):
        found.environment(tmp_path)


def test_what_the_user_has_set_comes_after_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Search paths keep their entries, and a given number of threads stays."""
    monkeypatch.setenv("LD_LIBRARY_PATH", "/theirs")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    found = find_tritonserver()
    variables = found.environment(tmp_path)
    libraries = variables["LD_LIBRARY_PATH"].split(os.pathsep)
    assert libraries[0] == str(found.libraries)
    assert libraries[-1] == "/theirs"
    assert variables["OMP_NUM_THREADS"] == "3"
    assert variables["MKL_NUM_THREADS"] == "1"


def test_models_import_what_we_import(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """python3 of the path is this Python with our search paths, even in isolated mode as the backend runs it."""
    extra = tmp_path / "ex\u00e4tra"
    extra.mkdir()
    (extra / "only_here.py").touch()
    monkeypatch.syspath_prepend(extra)
    variables = find_tritonserver().environment(tmp_path)
    lines = "import only_here, numpy, streamer, sys; print(ascii([numpy.__file__, streamer.__file__, sys.version]))"
    command = ["python3", "-I", "-c", lines]
    answer = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    assert ast.literal_eval(answer.stdout) == [numpy.__file__, streamer.__file__, sys.version]


def test_processes_of_a_model() -> None:
    """Children of any depth count if their command names the model's code; other processes do not."""
    here = os.getpid()
    waits = "import sys; print(flush=True); sys.stdin.read()"
    starts = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:]])"
    commands = [[waits, "/models/mine/1/model.py"], [starts, waits, "/models/other/2/model.py"]]
    started = [
        subprocess.Popen([sys.executable, "-c", *each], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for each in commands
    ]
    try:
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()  # then it has begun
        assert (memory_of(here, "mine") or 0) > 100_000
        assert (memory_of(here, "other") or 0) > 100_000
        assert memory_of(here, "models") is None
        assert memory_of(here, "min") is None
    finally:
        for process in started:
            process.communicate()
    assert memory_of(here, "mine") is None
