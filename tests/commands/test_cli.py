"""The command line as a user runs it: in its own process, with a real service."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from streamer import __version__
from streamer.bridge.service import Service
from streamer.bridge.triton import MODEL
from streamer.commands.cli import COMMANDS, run
from streamer.testing.exact_service import exact_repository
from tests.command_run import SHORT, Said, finals, streamer, streamer_here
from tests.pseudo_terminal import COMMAND, PATIENCE_S, Terminal, finals_on


@pytest.fixture(scope="session")
def service(exact_service: Service) -> Service:
    """A service with an exact model: these tests are not about words."""
    return exact_service


def test_version_and_help() -> None:
    """Both go to standard output, and --help has an example for each kind of use."""
    assert streamer("--version").stdout == f"streamer {__version__}\n"
    shown = streamer("--help")
    assert shown.returncode == 0
    for words in ("streamer serve", "--format", "examples:", "arecord", "standard error"):
        assert words in shown.stdout
    assert "--port" in streamer("serve", "--help").stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_each_command_teaches(name: str) -> None:
    """--help has examples of command lines, and fits a usual terminal."""
    shown = streamer_here(name, "--help").stdout
    assert f"streamer {name} " in shown.partition("options:")[2]
    assert "example" in shown or name == "completion"
    assert max(map(len, shown.splitlines())) <= 120
    assert COMMANDS[name].summary in " ".join(streamer_here("--help").stdout.split())


def test_help_comes_quickly() -> None:
    """The help of no command loads slow modules."""
    done = subprocess.run([sys.executable, "-c", MODULES_FOR_HELP], capture_output=True, text=True, check=True)
    loaded: dict[str, list[str]] = json.loads(done.stderr)
    assert all("argparse" in modules for modules in loaded.values())
    slow = {"asyncio", "grpc", "numpy", "soundfile", "torch", "websockets"}
    assert {name: slow.intersection(modules) for name, modules in loaded.items()} == {name: set() for name in COMMANDS}


MODULES_FOR_HELP = """
import json, sys
from contextlib import suppress
from streamer.commands.cli import COMMANDS, run
loaded = {}
for name in COMMANDS:
    with suppress(SystemExit):
        run([name, "--help"])
    loaded[name] = list(sys.modules)
json.dump(loaded, sys.stderr)
"""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name a recording"),
        (["--bad", "a.wav"], "unknown option --bad"),
        (["--formt", "srt", "a.wav"], "unknown option --formt; did you mean --format?"),
        (["-x", "a.wav"], "unknown option -x"),
        (["serv", "--port", "9000"], "neither a command nor a file 'serv'; did you mean streamer serve?"),
        (["mik"], "neither a command nor a file 'mik'; did you mean streamer mic?"),
        (["Doctor"], "neither a command nor a file 'Doctor'; did you mean streamer doctor?"),
        (["help", "mic"], "neither a command nor a file 'help'; did you mean streamer --help?"),
        (["transcribe", "a.wav"], "did you mean streamer FILE…?"),
        (["--jobs", "2", "mic"], "'mic' is a command: write it first, as in streamer mic; see streamer mic --help."),
        (["-format", "srt", "a.wav"], "unknown option -format; did you mean --format?"),
        (["--separate", "a.wav"], "unknown option --separate; did you mean --channels separate?"),
        (["--format", "strt", "a.wav"], "; did you mean srt?"),
        (["--format", "srt,jsn", "a.wav"], "choose from"),
        (["evaluate", "--limt=3"], "unknown option --limt; did you mean --limit?"),
        (["roll", "--prt", "9000"], "unknown option --prt; did you mean --port?"),
        (["a.wav", "--format", "doc"], "choose from"),
        (["a.wav", "--format"], "expected one argument"),
        (["a.wav", "--step-ms", "100"], "choose from 160, 320, 640"),
        (["a.wav", "--server", "ftp://a"], "'ftp://a' is not an address of a service"),
        (["-", "-"], "read only once"),
        (["a.wav", "--alternatives", "11"], "from 0 to 10, not 11"),
        (
            ["a.wav", "--endpoint", "soon"],
            "must be 'off', 'turn', or milliseconds such as 800 or 800:2000:15000, not 'soon'",
        ),
        (["a.wav", "--jobs", "0"], "argument --jobs: must be 1 or more, not 0"),
        (["a.wav", "--hotwords", "missing.txt"], "missing.txt cannot be read: No such file or directory"),
        (["a.wav", "--channels", "left"], "choose from"),
        (["--speakers", "a.wav"], "takes a number, which 'a.wav' is not: put --speakers behind the recordings"),
        (["a.wav", "--speakers", "1"], "from 2 to 20, not 1"),
        (["a.wav", "--encoding", "mulaw"], "are only for raw PCM on standard input: give - as FILE"),
        (["-", "--encoding", "opus"], "choose from"),
        (["-", "--sample-rate", "4000"], "from 8000 to 192000"),
        (["-", "--input-channels", "9"], "from 1 to 8"),
        (["serve", "--port", "x"], "--port must be a whole number from 0 to 65535, not 'x'"),
        (["serve", "--port", "70000"], "not 70000"),
        (["serve", "--prt", "9000"], "unknown option --prt; did you mean --port?"),
        (["serve", "--slots", "0"], "--slots must be 1 or more, not 0"),
        (["serve", "--triton", "10.0.0.7:8001,somewhere"], "an address of a Triton, HOST:PORT, not 'somewhere'"),
        (["serve", "a.wav"], "unexpected argument 'a.wav'"),
        (["a.wav", "--output", "missing/a.txt"], "the folder missing does not exist"),
    ],
)
def test_a_wrong_command_line_is_one_sentence(tmp_path: Path, arguments: list[str], words: str) -> None:
    """A wrong command line gives one sentence and the status 2, before anything is done."""
    done = streamer_here(*arguments, folder=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("streamer: ")
    assert done.stderr.count("\n") == 1
    assert words in done.stderr


def test_a_wrong_command_line_of_a_process() -> None:
    """The sentence goes to standard error, and the process has the status."""
    done = streamer("--bad", "a.wav")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "streamer: unknown option --bad; see streamer --help.\n"


def test_a_file_named_like_a_command(service: Service, said: Said, tmp_path: Path) -> None:
    """./serve is a recording."""
    (tmp_path / "serve").write_bytes(Path(said.short).read_bytes())
    done = streamer("./serve", "--server", service.url, folder=tmp_path)
    assert done.returncode == 0
    assert done.stdout.splitlines() == finals(service, said.short)


def test_a_reader_that_has_enough_ends_it_quietly(service: Service, said: Said) -> None:
    """If the reader of standard output closes it, the command ends without a message."""
    command = [*COMMAND, said.talk, "--paced", "--format", "jsonl", "--server", service.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 141
        assert process.stderr.read() == b""


def test_a_closed_standard_output_is_survived(service: Service, said: Said, tmp_path: Path) -> None:
    """Without standard output, a file can still be written."""
    command = f'exec "{sys.executable}" -m streamer "{said.short}" -o a.txt --server {service.url} >&- 2>&-'
    assert subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, check=False).returncode == 0
    assert (tmp_path / "a.txt").read_text().splitlines() == finals(service, said.short)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_in_order(service: Service, said: Said, number: signal.Signals, status: int) -> None:
    """A signal ends the command quickly, and it says at once what it waits for."""
    command = [*COMMAND, said.talk, "--paced", "--format", "jsonl", "--server", service.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.send_signal(number)
        assert process.wait(60) == status
        told = b"streamer: stopping: saving what was recognised so far, and ending what this command started."
        assert process.stderr.read() == told + b" Press Ctrl-C again to quit at once.\n"


def test_a_terminal_shows_words_as_they_come(service: Service, said: Said) -> None:
    """Partials change in place and never wrap; each final has its time, and its lines break between words."""
    terminal = Terminal("--paced", said.short, "--server", service.url, width=40)
    assert terminal.status() == 0
    drawn = terminal.shown.split("\r\x1b[K")
    assert len(drawn) > 3
    for line in drawn[1:]:
        if not line.endswith("\r\n"):
            assert len(line.replace("\x1b[2m", "").replace("\x1b[0m", "")) < 40
    shown = finals_on(terminal.shown)
    assert [text for _, text in shown] == finals(service, said.short)
    assert all(time.startswith("0:0") for time, _ in shown)


def test_progress_is_only_for_a_terminal(service: Service, said: Said, tmp_path: Path) -> None:
    """If the words go to a file, the terminal shows the progress, and is clean at the end."""
    terminal = Terminal("--paced", said.talk, "--server", service.url, "-o", f"{tmp_path}/a.txt", width=100)
    terminal.watch("talk.flac  0:01")
    assert re.search(r" of 0:(19|20) \(", terminal.shown)
    terminal.type("\x03")
    assert terminal.status() == 130
    assert terminal.shown.rpartition("\r\x1b[K")[2].startswith("streamer: stopping: ")


def test_a_service_of_this_machine_is_used(
    service: Service, said: Said, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without --server, a ready Streamer service on the usual port is used."""
    monkeypatch.delenv("STREAMER_SERVER", raising=False)
    monkeypatch.setattr("streamer.commands.service.DEFAULT_PORT", urlsplit(service.url).port)
    assert run([said.short, "--timing"]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines() == finals(service, said.short)
    assert "Triton" not in shown.err


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port of this machine that another program uses."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def test_serve_says_that_a_port_is_taken(taken_port: int) -> None:
    """One sentence reports the taken port, and nothing is left running."""
    done = streamer("serve", "--reader", "off", "--port", str(taken_port))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"streamer: Port {taken_port} of 127.0.0.1 is already in use")
    assert done.stderr.count("\n") == 1


def test_serve_says_only_that_an_address_is_not_of_this_machine() -> None:
    """It gives no advice about TLS besides, for a service that does not start."""
    done = streamer("serve", "--triton", "127.0.0.1:1", "--host", "192.0.2.1", "--port", "0", "--open")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "streamer: '192.0.2.1' is not an address of this machine.\n"


@pytest.fixture(scope="module")
def exact_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with an exact model, for commands that start a Triton."""
    return exact_repository(tmp_path_factory.mktemp("models"))


def test_serve_runs_until_it_is_told_to_stop(exact_models: Path, said: Said, tmp_path: Path) -> None:
    """It reports its address, other commands find it, and after SIGTERM nothing of it is left."""
    arguments = ("--port", "0", "--repository", str(exact_models), "--instances", "1", "--slots", "3")
    command = [*COMMAND, "serve", "--reader", "off", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, cwd=tmp_path, text=True) as process:
        assert process.stderr is not None
        ready = process.stderr.readline()
        assert ready.startswith("streamer: ready: ws://127.0.0.1:"), ready
        url = ready.split()[2]
        assert streamer(said.short, "--server", url).returncode == 0
        family = psutil.Process(process.pid).children(recursive=True)
        assert "tritonserver" in [each.name() for each in family]
        process.terminate()
        assert process.wait(60) == 0
        assert psutil.wait_procs(family, timeout=60)[1] == []
        assert "Traceback" not in process.stderr.read()


def test_without_a_service_one_is_started_and_ended(exact_models: Path, said: Said) -> None:
    """Without a service, one command starts a real Triton, which is gone afterwards, also after Ctrl-C."""
    done = streamer("--server", "embedded", SHORT, "--timing", "--format", "json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["file"] == SHORT
    names = [line.split(maxsplit=2)[2] for line in done.stderr.splitlines()[1:]]
    assert names.index("Triton spawned") < names.index("client imported") < names.index("service ready")

    model = str(exact_models / MODEL)
    terminal = Terminal("--server", "embedded", "--model", model, "--paced", said.talk)
    terminal.watch("[0:0")
    family = terminal.process.children(recursive=True)
    assert "tritonserver" in [each.name() for each in family]
    terminal.type("\x03")
    assert terminal.status() == 130
    assert psutil.wait_procs(family, timeout=60)[1] == []


def test_no_standard_descriptors(tmp_path: Path) -> None:
    """If standard descriptors are closed, as for a daemon, files that are opened later do not get their numbers."""
    program = (
        "import os, sys\nfrom streamer.commands.cli import run\n"
        "run(['key', ''])\n"
        "opened = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)\n"
        "os.write(opened, str(opened).encode())\n"
    )
    told = tmp_path / "told"
    command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", program, str(told)]
    subprocess.run(command, check=True, timeout=60)
    assert int(told.read_text()) > 2
