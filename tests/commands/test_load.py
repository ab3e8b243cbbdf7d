"""`streamer load` as a user runs it: real sockets, a real Triton, and client processes."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import psutil
import pytest

from streamer.bridge.service import Service
from streamer.commands.cli import parser_of
from streamer.commands.load import EXAMPLES
from tests.command_run import AWAY, Said, streamer_here
from tests.commands.load_process import LEVEL_OVER, Start, starting, with_text
from tests.project import DOCS, SAMPLES
from tests.pseudo_terminal import PATIENCE_S, Terminal
from tests.samples import reference


@pytest.fixture(scope="module")
def service(exact_service: Service) -> Service:
    """An exact model: where its words are the subject, they must be right under load too."""
    return exact_service


@pytest.fixture(scope="module")
def phrase(said: Said, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seconds of speech for the exact model, with its text beside it."""
    return with_text(said.short, "This takes three seconds.\n", tmp_path_factory.mktemp("load"))


@pytest.fixture
def loading(tmp_path: Path) -> Iterator[Start]:
    """Start the command in a process."""
    with starting(tmp_path) as start:
        yield start


@pytest.mark.parametrize("format", ["native", "deepgram"])
def test_two_levels(service: Service, phrase: Path, tmp_path: Path, format: str) -> None:
    """Every word of every session is right, and the report has the delays and the work of each level."""
    report, picture = tmp_path / "load.json", tmp_path / "load.svg"
    arguments = ["--server", service.url, "--sessions", "1,3", "--seconds", "5", "--format", format]
    done = streamer_here("load", *arguments, str(phrase), "--json", str(report), "--picture", str(picture))
    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_text())
    assert (found["end"], found["format"], found["recordings"]) == ("whole", format, ["short.flac"])
    assert [level["sessions"] for level in found["levels"]] == [1, 3]
    for level in found["levels"]:
        assert level["whole"]
        assert level["live"] == level["sessions"]
        assert (level["refused"], level["failed"], level["recovered"]) == ({}, {}, 0)
        assert level["opened"] == level["done"] >= level["sessions"]
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
        assert 3 <= level["audio_s"] <= 5.2 * level["sessions"]
    assert found["levels"][0]["delays_s"]["first"]["count"] >= 1
    assert "Delays in seconds" in done.stdout
    assert "| 3 | " in done.stdout
    assert "The busiest client process used" in done.stdout
    assert ElementTree.parse(picture).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_ctrl_c_prints_what_was_measured(service: Service, phrase: Path, loading: Start) -> None:
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


def test_nobody_answers(phrase: Path) -> None:
    """Without a service at the address, one sentence says so, and nothing is measured."""
    done = streamer_here("load", "--server", AWAY, str(phrase))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("streamer: No service answers at ws://127.0.0.1:")
    assert done.stderr.count("\n") == 1


def test_ctrl_c_on_a_terminal(service: Service, phrase: Path) -> None:
    """The key reaches only the command itself, which ends the clients in order."""
    terminal = Terminal("load", "--server", service.url, "--sessions", "2", "--seconds", "60", str(phrase), width=120)
    terminal.watch("delays p50/p95: partials ")
    terminal.type("\x03")
    assert terminal.status() == 128 + signal.SIGINT
    assert "streamer: stopping: " in terminal.shown
    assert "| 2* | " in terminal.shown
    assert "Traceback" not in terminal.shown


def test_a_terminal_shows_the_level(service: Service, phrase: Path) -> None:
    """On a terminal, lines change in place, and the figures of each level stay."""
    terminal = Terminal("load", "--server", service.url, "--sessions", "2", "--seconds", "4", str(phrase), width=120)
    terminal.watch("level 1: 2 sessions, ")
    terminal.watch("delays p50/p95: partials ")
    terminal.watch("\x1b[K2 sessions: partials ")
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


def test_the_talk_that_comes_along(service: Service, tmp_path: Path) -> None:
    """Without recordings, a talk with its text is spoken. Its text is that of the table of the recordings."""
    report = tmp_path / "load.json"
    arguments = ["--server", service.url, "--sessions", "1", "--seconds", "1", "--json", str(report)]
    assert streamer_here("load", *arguments).returncode == 0
    found = json.loads(report.read_text())
    assert (found["recordings"], found["without_text"]) == (["talk.flac"], [])
    assert (SAMPLES / "talk.txt").read_text() == f"{reference('talk.flac')}\n"


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


def test_the_examples_are_commands() -> None:
    """Each example of the help and of the page is a command line that the program takes."""
    page = (DOCS / "how-to" / "load.md").read_text(encoding="utf-8")
    lines = re.findall(r"^ *(streamer load.*)$", f"{EXAMPLES}\n{page}", re.MULTILINE)
    assert len(lines) == 11
    for line in lines:
        words = shlex.split(re.split(r"  +", line)[0])[2:]
        assert parser_of("load").read(words).seconds >= 1
