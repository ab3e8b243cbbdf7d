"""`streamer load` as a user runs it: real sockets, a real Triton, and client processes."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import psutil
import pytest

from streamer.bridge.service import Service
from streamer.testing.exact_service import exact_repository
from tests.bridge.service_client import WORDS
from tests.command_run import AWAY, Said, streamer_here
from tests.project import SAMPLES
from tests.pseudo_terminal import COMMAND, PATIENCE_S, Terminal
from tests.samples import reference
from tests.serve_process import serving

LEVEL_OVER = "streamer: 1 session: "


@pytest.fixture(scope="module")
def service(exact_service: Service) -> Service:
    """An exact model: where its words are the subject, they must be right under load too."""
    return exact_service


@pytest.fixture(scope="module")
def phrase(said: Said, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six seconds of speech for the exact model, with its text beside it."""
    path = tmp_path_factory.mktemp("load") / "phrase.flac"
    shutil.copy(said.phrase, path)
    path.with_suffix(".txt").write_text(f"{WORDS[0].capitalize()}.\n")
    return path


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The settings of a service with an exact model, which starts and recognises in a tenth of the time."""
    return f"--repository {exact_repository(tmp_path_factory.mktemp('exact'))}"


class Loading:
    """The command in a process of its own."""

    def __init__(self, *arguments: str, folder: Path) -> None:
        self._out, self._err = folder / "out", folder / "err"
        with self._out.open("w") as out, self._err.open("w") as err:
            self.process = psutil.Popen([*COMMAND, "load", *arguments], stdout=out, stderr=err)

    @property
    def out(self) -> str:
        """What it has printed."""
        return self._out.read_text()

    @property
    def err(self) -> str:
        """What it has reported."""
        return self._err.read_text()

    def wait_for(self, words: str) -> None:
        """Wait until it has reported these words."""
        self.wait(lambda: words in self.err)

    def wait(self, condition: Callable[[], object]) -> None:
        """Wait until this holds."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert self.process.is_running(), (self.out, self.err)
            assert time.monotonic() < deadline, (self.out, self.err)
            time.sleep(0.05)

    def status(self) -> int:
        """Wait for its end. Returns the exit status."""
        status: int = self.process.wait(PATIENCE_S)
        assert "Traceback" not in self.err
        return status


@pytest.fixture
def loading(tmp_path: Path) -> Iterator[Callable[..., Loading]]:
    """Start the command. It has ended after the test, with all that it started."""
    started: list[Loading] = []

    def start(*arguments: str) -> Loading:
        started.append(Loading(*arguments, folder=tmp_path))
        return started[-1]

    yield start
    for each in started:
        if each.process.is_running():
            each.process.terminate()
            each.process.wait(PATIENCE_S)


@pytest.mark.parametrize("format", ["native", "deepgram"])
def test_two_levels(service: Service, phrase: Path, tmp_path: Path, format: str) -> None:
    """Every word of every session is right, and the report has the delays and the work of each level."""
    report, picture = tmp_path / "load.json", tmp_path / "load.svg"
    arguments = ["--server", service.url, "--sessions", "1,3", "--seconds", "7", "--format", format]
    done = streamer_here("load", *arguments, str(phrase), "--json", str(report), "--picture", str(picture))
    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_text())
    assert (found["end"], found["format"], found["recordings"]) == ("whole", format, ["phrase.flac"])
    assert [level["sessions"] for level in found["levels"]] == [1, 3]
    for level in found["levels"]:
        assert level["whole"]
        assert level["live"] == level["sessions"]
        assert (level["refused"], level["failed"], level["recovered"]) == ({}, {}, 0)
        assert level["opened"] == level["done"] > level["sessions"]
        assert level["words"]["sessions"] > 0
        assert (level["words"]["errors"], level["words"]["rate"]) == (0, 0)
        for kind in ("partial", "word", "last"):
            delays = level["delays_s"][kind]
            assert delays["count"] > 0, kind
            assert delays["p50"] <= delays["p95"] <= delays["p99"] <= delays["most"], kind
            assert delays["p50"] > 0
        assert {"bridge", "tritonserver", "model", "clients"} <= set(level["processes"])
        assert all(level["processes"][name]["memory_mb"] > 1 for name in ("bridge", "tritonserver", "model"))
        assert level["processes"]["clients"]["processes"] == found["clients"] >= 2
        assert level["audio_s"] == pytest.approx(7 * level["sessions"], rel=0.3)
    assert found["levels"][0]["delays_s"]["first"]["count"] == 2 or format == "deepgram"
    assert "Delays in seconds" in done.stdout
    assert "| 3 | " in done.stdout
    assert "The busiest client process used" in done.stdout
    assert ElementTree.parse(picture).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_a_service_of_its_own(tmp_path: Path, loading: Callable[..., Loading]) -> None:
    """Without a service, one is started; the shipped model's errors are counted, and refusals make the status 1."""
    talk = tmp_path / "quilter.ogg"
    shutil.copy(SAMPLES / talk.name, talk)
    talk.with_suffix(".txt").write_text(reference(talk.name))
    report = tmp_path / "load.json"
    arguments = ["--server", "embedded", "--serve", "--sessions 2", "--sessions", "1,3", "--seconds", "7"]
    running = loading(*arguments, str(talk), "--json", str(report))
    assert running.status() == 1
    first, second = json.loads(report.read_text())["levels"]
    assert first["words"]["words"] == first["words"]["sessions"] * len(reference(talk.name).split())
    assert first["words"]["errors"] < first["words"]["words"] / 3
    assert first["batches"]["mean"] >= 1
    assert first["processes"]["model"]["cpu_s"] > 0
    assert (first["refused"], second["live"]) == ({}, 2)
    assert second["refused"]["full"] >= 1
    assert "With 3 sessions, the service admitted 2 at a time; refusals: full" in running.out
    assert "The knee is at about 1 session. With more, the service refused sessions." in running.out


def test_ctrl_c_prints_what_was_measured(service: Service, phrase: Path, loading: Callable[..., Loading]) -> None:
    """What was measured before Ctrl-C is printed, the status is 130, and no client is left."""
    running = loading("--server", service.url, "--sessions", "1,2", "--seconds", "4", str(phrase))
    running.wait_for(LEVEL_OVER)
    children = running.process.children(recursive=True)
    running.process.send_signal(signal.SIGINT)
    assert running.status() == 128 + signal.SIGINT
    assert "streamer: stopping: " in running.err
    assert "| 1 | " in running.out
    assert "| 2* | " in running.out
    assert "The measurement was interrupted; this is what was found until then." in running.out
    assert not psutil.wait_procs(children, PATIENCE_S)[1]


def test_its_own_service_dies(phrase: Path, exact: str, loading: Callable[..., Loading]) -> None:
    """If the service dies, the report says so and how, and the status is 1."""
    arguments = ["--server", "embedded", "--serve", exact, "--sessions", "1,2", "--seconds", "4"]
    running = loading(*arguments, str(phrase))
    running.wait_for(LEVEL_OVER)
    [own] = [each for each in running.process.children() if "streamer.commands.traffic.service" in each.cmdline()]
    own.kill()
    assert running.status() == 1
    assert "The service died during the measurement: its process was ended by the signal SIGKILL." in running.out
    assert "| 1 | " in running.out


def test_another_service_dies(phrase: Path, exact: str, loading: Callable[..., Loading]) -> None:
    """A service that was not started for it is missed when nobody can connect any more."""
    with serving(*exact.split()) as served:
        running = loading("--server", served.url, "--sessions", "1,4", "--seconds", "4", str(phrase))
        running.wait_for(LEVEL_OVER)
        served.process.kill()
        assert running.status() == 1
    assert "The service died during the measurement: nobody could connect to 127.0.0.1:" in running.out


def test_its_own_service_ends_with_it(phrase: Path, exact: str, loading: Callable[..., Loading]) -> None:
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


def test_nobody_answers(phrase: Path) -> None:
    """Without a service at the address, one sentence says so, and nothing is measured."""
    done = streamer_here("load", "--server", AWAY, str(phrase))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("streamer: No service answers at ws://127.0.0.1:")
    assert done.stderr.count("\n") == 1


def test_a_terminal_shows_the_level(service: Service, phrase: Path) -> None:
    """On a terminal, lines change in place, and the figures of each level stay."""
    terminal = Terminal("load", "--server", service.url, "--sessions", "2", "--seconds", "4", str(phrase), width=120)
    terminal.watch("level 1: 2 sessions, ")
    terminal.watch("delays p50/p95: partials ")
    terminal.watch("\r\n2 sessions: partials ")
    assert terminal.status() == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--sessions", "1,no"], "must be numbers above 0 with commas between them, not '1,no'"),
        (["--sessions", "0"], "must be numbers above 0"),
        (["--seconds", "0.5"], "must be a number of seconds from 1 to 86400, not '0.5'"),
        (["--format", "nativ"], "did you mean native?"),
        (["--json", "missing/load.json"], "the folder missing does not exist"),
        (["--format", "deepgram", "--second-pass", "on"], "have no options: leave out --second-pass"),
        (["--serve", "--slots 3"], "--serve is for a service that is started"),
        (["--serve", "'"], "argument --serve: cannot be read"),
    ],
)
def test_what_cannot_be_meant(service: Service, phrase: Path, arguments: list[str], words: str) -> None:
    """A mistake in the command line is a sentence, and nothing is started."""
    done = streamer_here("load", "--server", service.url, str(phrase), *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_a_recording_that_is_not_there(service: Service) -> None:
    """A recording that cannot be read is named."""
    done = streamer_here("load", "--server", service.url, "missing.flac")
    assert done.returncode == 1
    assert "missing.flac" in done.stderr


def test_help_in_a_process() -> None:
    """The help has an example of each kind."""
    command = [sys.executable, "-m", "streamer", "load", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    for option in ("--sessions", "--seconds", "--server", "--serve", "--format", "--clients", "--json", "--picture"):
        assert option in done.stdout
