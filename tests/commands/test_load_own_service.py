"""`streamer load` with a service that it starts for itself, and with services that die."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from streamer.testing.exact_service import exact_repository
from tests.command_run import Said, streamer_here
from tests.commands.load_process import LEVEL_OVER, Start, starting, with_text
from tests.project import SAMPLES
from tests.pseudo_terminal import PATIENCE_S
from tests.samples import reference
from tests.serve_process import serving


@pytest.fixture(scope="module")
def phrase(said: Said, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seconds of speech for the exact model, with its text beside it."""
    return with_text(said.short, "This takes three seconds.\n", tmp_path_factory.mktemp("load"))


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The settings of a service with an exact model, which starts and recognises in a tenth of the time."""
    return f"--repository {exact_repository(tmp_path_factory.mktemp('exact'))}"


@pytest.fixture
def loading(tmp_path: Path) -> Iterator[Start]:
    """Start the command in a process."""
    with starting(tmp_path) as start:
        yield start


def test_a_service_of_its_own(tmp_path: Path, loading: Start) -> None:
    """Without a service, one is started; the shipped model's errors are counted, and refusals make the status 1."""
    text = reference("airplane.mp3")
    talk = with_text(SAMPLES / "airplane.mp3", text, tmp_path)
    report = tmp_path / "load.json"
    arguments = ["--server", "embedded", "--serve", "--sessions 2", "--sessions", "1,3", "--seconds", "5"]
    running = loading(*arguments, str(talk), "--json", str(report))
    assert running.status() == 1
    first, second = json.loads(report.read_text())["levels"]
    assert first["words"]["words"] == first["words"]["sessions"] * len(text.split())
    assert first["words"]["errors"] < first["words"]["words"] / 3
    assert first["batches"]["mean"] >= 1
    assert first["processes"]["model"]["cpu_s"] > 0
    assert (first["refused"], second["live"]) == ({}, 2)
    assert second["refused"]["full"] >= 1
    assert "With 3 sessions, the service admitted 2 at a time; refusals: full" in running.out


def test_its_own_service_dies(phrase: Path, exact: str, loading: Start) -> None:
    """If the service dies, the report says so and how, and the status is 1."""
    arguments = ["--server", "embedded", "--serve", exact, "--sessions", "1,2", "--seconds", "4"]
    running = loading(*arguments, str(phrase))
    running.wait_for(LEVEL_OVER)
    [own] = [each for each in running.process.children() if "streamer.commands.traffic.service" in each.cmdline()]
    own.kill()
    assert running.status() == 1
    assert "The service died during the measurement: its process was ended by the signal SIGKILL." in running.out
    assert "| 1 | " in running.out


def test_another_service_dies(phrase: Path, exact: str, loading: Start) -> None:
    """A service that was not started for it is missed when nobody can connect any more."""
    with serving(*exact.split()) as served:
        running = loading("--server", served.url, "--sessions", "1,4", "--seconds", "4", str(phrase))
        running.wait_for(LEVEL_OVER)
        served.process.kill()
        assert running.status() == 1
    assert "The service died during the measurement: nobody can connect to 127.0.0.1:" in running.out


def test_its_own_service_ends_with_it(phrase: Path, exact: str, loading: Start) -> None:
    """Even if the command is killed, nothing of what it started is left."""
    running = loading("--server", "embedded", "--serve", exact, "--sessions", "1,2", "--seconds", "4", str(phrase))
    running.wait_for(LEVEL_OVER)
    children = running.process.children(recursive=True)
    assert len(children) > 4
    running.process.kill()
    assert not psutil.wait_procs(children, PATIENCE_S)[1]


def test_a_service_that_does_not_start(phrase: Path, tmp_path: Path) -> None:
    """The reason is that of the service."""
    missing = tmp_path / "missing"
    done = streamer_here("load", "--server", "embedded", "--serve", f"--repository {missing}", str(phrase))
    assert done.returncode == 1
    assert "streamer: the service did not start:\n" in done.stderr
    assert str(missing) in done.stderr
