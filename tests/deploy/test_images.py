"""The images: their start scripts as processes in front of a real Triton, and what their recipes name."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tritonclient.grpc import InferenceServerClient

from streamer import __version__
from streamer.bridge.access.keys import KeyFile
from streamer.bridge.triton import MODEL
from streamer.bridge.triton.installation import find_tritonserver
from streamer.commands.checks.packages import PARTS
from streamer.testing.exact_service import add_exact_model
from streamer.testing.exact_speech import say
from tests.bridge.service_client import recognise, text
from tests.project import ROOT

IMAGES = ROOT / "deploy" / "images"
RECIPES = sorted(IMAGES.glob("*.Containerfile"))
# PATH as in the images: the environment with the command `streamer` comes first.
PROGRAMS = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
PATIENCE_S = 60.0


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def environment(state: Path, **variables: str) -> dict[str, str]:
    """The variables of the all-in-one image; but the service listens on loopback, as all services of the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STREAMER_")}
    return {**kept, "PATH": PROGRAMS, "STREAMER_STATE": str(state), "STREAMER_SERVE_HOST": "127.0.0.1", **variables}


def refused(*arguments: str, state: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A start that ends by itself."""
    command, variables = [str(IMAGES / "entry"), *arguments], environment(state, **variables)
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


class Container:
    """The all-in-one image as a process, and what it has printed."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process, self.port = process, port
        self.lines: list[str] = []
        assert process.stderr is not None
        for line in process.stderr:
            self.lines.append(line.rstrip("\n"))
            if "ready: ws://" in line:
                return
        raise AssertionError(self.lines)

    def end(self) -> int:
        """Send what `docker stop` sends. Returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.stderr is not None
        self.lines += self.process.stderr.read().splitlines()
        return self.process.wait(PATIENCE_S)

    def healthy(self) -> bool:
        """Run what HEALTHCHECK runs."""
        variables = {**os.environ, "STREAMER_SERVE_PORT": str(self.port)}
        return subprocess.run([sys.executable, IMAGES / "healthy"], env=variables, check=False).returncode == 0


@contextmanager
def started(*arguments: str, state: Path, **variables: str) -> Iterator[Container]:
    """The image, started with these arguments. It is killed at the end if it has not ended."""
    port = free_port()
    variables = environment(state, STREAMER_SERVE_PORT=str(port), TMPDIR=str(state.parent), **variables)
    command = [str(IMAGES / "entry"), *arguments]
    with subprocess.Popen(command, env=variables, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield Container(process, port)
        finally:
            process.kill()


def status_of(url: str) -> int:
    """The status of a request without a key."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


async def test_all_in_one(tmp_path: Path) -> None:
    """The first start makes a key and prints it once; without it the port refuses; the second start keeps it."""
    repository, state = tmp_path / "repository", tmp_path / "state"
    add_exact_model(repository, slots=4)
    state.mkdir()
    with started(state=state, STREAMER_SERVE_REPOSITORY=str(repository)) as first:
        [key] = [line for line in first.lines if line.startswith("streamer_")]
        assert first.healthy()
        url = f"ws://127.0.0.1:{first.port}/v1/stream"
        assert await asyncio.to_thread(status_of, url.replace("ws", "http", 1)) == 401
        assert text(await recognise(f"{url}?key={key}", say("hello").tobytes())) == "hello"
        assert first.end() == 0
        assert not first.healthy()
    kept = (state / "keys").read_text(encoding="utf-8")
    assert key not in kept
    assert (state / "keys").stat().st_mode & 0o077 == 0
    with started(state=state, STREAMER_SERVE_REPOSITORY=str(repository)) as second:
        assert not [line for line in second.lines if "streamer_" in line]
        assert second.end() == 0
    assert (state / "keys").read_text(encoding="utf-8") == kept


def test_open_is_said_aloud(tmp_path: Path) -> None:
    """With --open no key is made, and the log says what that means."""
    done = refused("--open", "--port", "70000", state=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("streamer: --open: anybody who reaches this port can use the service")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [("--keys", "mine"), ("--keys=mine",), ("--config", "mine")])
def test_own_keys(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """A given file is used, even if it is wrong, and no key is made beside it."""
    done = refused(*arguments, state=tmp_path)
    assert done.returncode == 2
    assert "mine" in done.stderr
    assert not list(tmp_path.iterdir())


def test_no_place_for_the_key(tmp_path: Path) -> None:
    """If nothing can be kept, nothing is started, and the message says what to do."""
    done = refused(state=tmp_path / "missing")
    assert done.returncode == 1
    assert "mount a volume" in done.stderr
    assert "streamer_" not in done.stderr


def test_other_commands(tmp_path: Path) -> None:
    """A first argument without a dash is another command."""
    done = refused("key", "anna", state=tmp_path)
    (tmp_path / "keys").write_text(done.stdout, encoding="utf-8")
    KeyFile(tmp_path / "keys")
    assert refused("--help", state=tmp_path / "missing").returncode == 0


def test_the_service_itself_refuses_an_open_port(tmp_path: Path) -> None:
    """Without the script's key, `serve` does not listen beyond the container: the script has no way around it."""
    done = refused("serve", "--host", "0.0.0.0", state=tmp_path)
    assert done.returncode == 2
    assert "give --keys FILE, or --open" in done.stderr


@pytest.mark.parametrize("wrong", ["two", "0"])
def test_wrong_numbers_of_models(wrong: str, tmp_path: Path) -> None:
    """A wrong number is a sentence, and Triton is not started."""
    add_exact_model(tmp_path / "models")
    variables = environment(tmp_path, STREAMER_MODELS=str(tmp_path / "models"), STREAMER_SLOTS=wrong)
    variables["TMPDIR"] = str(tmp_path)
    done = subprocess.run([IMAGES / "models-entry"], env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("models-entry: ")
    assert "Traceback" not in done.stderr


def test_models(tmp_path: Path) -> None:
    """The entry of the model image starts Triton with these numbers of instances and slots, and SIGTERM ends it."""
    add_exact_model(tmp_path / "models", slots=64)
    installation = find_tritonserver()
    installation.link_backend(tmp_path / "backends")
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "tritonserver").symlink_to(installation.binary)
    variables = installation.environment(tmp_path)
    variables |= {"STREAMER_MODELS": str(tmp_path / "models"), "STREAMER_INSTANCES": "2", "STREAMER_SLOTS": "3"}
    variables["PATH"] = f"{tmp_path / 'programs'}{os.pathsep}{variables['PATH']}"
    variables["TMPDIR"] = str(tmp_path)
    ports = {name: free_port() for name in ("grpc", "http", "metrics")}
    places = [f"--{name}-{what}" for name, port in ports.items() for what in ("address=127.0.0.1", f"port={port}")]
    prefix = f"--backend-config=python,shm-region-prefix-name=test{os.getpid()}-"
    command = [str(IMAGES / "models-entry"), f"--backend-directory={tmp_path / 'backends'}", prefix, *places]
    with subprocess.Popen(command, env=variables, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            told = []
            for line in process.stderr:
                told.append(line)
                if "Started Metrics Service" in line:
                    break
            with InferenceServerClient(f"127.0.0.1:{ports['grpc']}") as client:
                assert client.is_model_ready(MODEL), told
                config = client.get_model_config(MODEL).config
            assert config.instance_group[0].count == 2
            assert config.sequence_batching.oldest.max_candidate_sequences == 3
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_recipes(recipe: Path) -> None:
    """An image is built in stages from pinned packages, and runs as a user without rights, with a health check."""
    written = recipe.read_text(encoding="utf-8")
    assert written.count("\nFROM ") >= 2
    assert "/source/requirements.lock" in written
    [user] = re.findall(r"^USER (.*)$", written, re.MULTILINE)
    assert user == "10001:10001"
    assert "\nHEALTHCHECK " in written
    assert "\nSTOPSIGNAL SIGTERM\n" in written
    assert f'org.opencontainers.image.version="{__version__}"' in written
    for copied in re.findall(r"^COPY (?!--from)(.*) \S+$", written, re.MULTILINE):
        for name in copied.split():
            assert (ROOT / name).exists()


def test_the_image_of_the_models_has_the_packages_of_the_engine() -> None:
    """It installs the packages of the extras `engine` and `reader` by name, and for a GPU those of the extra `gpu`."""
    written = (IMAGES / "models.Containerfile").read_text(encoding="utf-8")
    [always, for_gpu] = re.findall(r"--constraint .*\n +([^$]*) \$\{GPU:\+(.*)\}", written)[0]
    installed = [Requirement(each) for each in shlex.split(always.replace("\\\n", " "))]
    names = {each.name for each in installed if each.marker is None or each.marker.evaluate()}
    # What a client of a service needs is not needed here, except for arrays.
    assert names == {*PARTS["engine"], *PARTS["reader"], "numpy", "tritonclient"}
    assert [each.extras for each in installed if each.name == "tritonclient"] == [{"grpc"}]
    assert for_gpu.split() == list(PARTS["gpu"])
    assert "'.[embedded,reader]'" in (IMAGES / "all-in-one.Containerfile").read_text(encoding="utf-8")


def test_the_context_has_what_is_copied() -> None:
    """Only what the images need is sent to the builder, and nothing of that is missing."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in lines
    sent = {line.removeprefix("!") for line in lines if line.startswith("!")}
    assert all((ROOT / name).exists() for name in sent)
    needed = {"pyproject.toml", "requirements.lock", "streamer", "asr_repo", "README.md", "LICENSE", "deploy/images"}
    assert needed <= sent


def test_scripts_are_programs() -> None:
    """What images start can be started, and a shell can read it."""
    for name in ("entry", "models-entry"):
        assert os.access(IMAGES / name, os.X_OK)
        subprocess.run([shutil.which("sh") or "sh", "-n", IMAGES / name], check=True)
    assert os.access(IMAGES / "healthy", os.X_OK)
