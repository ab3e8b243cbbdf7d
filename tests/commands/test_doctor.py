"""`streamer doctor` as a user runs it, and the conclusion from all of its checks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

import streamer.commands.checks.models
import streamer.commands.checks.packages
from streamer.base.address import is_ready
from streamer.bridge.service import Service
from streamer.commands.checks import packages
from streamer.commands.checks.examination import Examination, usable
from streamer.commands.checks.finding import FINE, WARNING, WRONG, Finding
from streamer.commands.cli import run
from tests.command_run import streamer_here
from tests.project import ROOT
from tests.pseudo_terminal import COMMAND, Terminal
from tests.virtual_microphone import room

LIGHT = (
    "numpy",
    "numpy.libs",
    "soundfile.py",
    "_soundfile.py",
    "_soundfile_data",
    "typing_extensions.py",
    "soxr",
    "websockets",
    "cffi",
    "argcomplete",
)
METADATA = ("argcomplete", "numpy", "soundfile", "soxr", "websockets")
LINE = re.compile(r"[✓!✗] \S.{14} \S")


@pytest.mark.timeout(300)  # torch is imported twice, in the end by the model of a whole service
def test_this_machine_is_fine() -> None:
    """Every line is aligned, a recording is recognised, and nothing private is shown."""
    environment = {**os.environ, "STREAMER_KEY": "streamer_abc"}
    done = subprocess.run([*COMMAND, "doctor"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert all(LINE.match(line) for line in lines[:-1])
    assert "✗" not in done.stdout
    assert lines[-2].startswith("✓ trial")
    assert "apostle" in lines[-2]
    assert lines[-1].startswith("Recordings can be transcribed.")
    assert "streamer_abc" not in done.stdout
    assert "\x1b" not in done.stdout
    assert f"{Path.home()}/" not in done.stdout


def test_a_report_for_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    """--json prints one object with the same findings."""
    assert run(["doctor", "--json", "--quick"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["usable"] is True
    assert {"Python", "streamer", "Triton", "model files", "shared memory"} <= {
        found["subject"] for found in content["findings"]
    }
    assert {frozenset(found) for found in content["findings"]} == {frozenset({"subject", "state", "said", "remedy"})}


def test_a_problem_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With a problem the exit status is 1, and no server is started."""
    monkeypatch.setattr(streamer.commands.checks.models, "NEEDED", ("1/no.such.file",))
    monkeypatch.setattr(streamer.commands.checks.packages, "torch", lambda: ())  # slow, and tested elsewhere
    assert run(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert re.search(r"^✗ model files     \S+/1/no.such.file: No such file or directory → ", shown, re.MULTILINE)
    assert "! trial           not tried" in shown
    assert shown.splitlines()[-1].startswith("1 problem, ")


@pytest.mark.parametrize("no_color", ["", "1"])
def test_colour_is_for_terminals(no_color: str) -> None:
    """Colours are used only on terminals, and not with NO_COLOR."""
    terminal = Terminal("doctor", "--quick", environment={**os.environ, "NO_COLOR": no_color})
    assert terminal.status() == 0
    assert ("\x1b[32m✓\x1b[0m Python" in terminal.shown) == (not no_color)


def test_without_portaudio_and_with_a_microphone(tmp_path: Path) -> None:
    """A missing library is a warning that names the package; a microphone is listed."""
    # No Python process finds PortAudio on this machine.
    (tmp_path / "sitecustomize.py").write_text("import ctypes.util\nctypes.util.find_library = lambda name: None\n")
    hidden = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    command = [*COMMAND, "doctor", "--quick"]
    done = subprocess.run(command, env=hidden, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert re.search(r"^! microphone      PortAudio.* is not installed → apt install libportaudio2", done.stdout, re.M)
    with room(tmp_path) as place:
        done = subprocess.run(command, env=place.environment, capture_output=True, text=True, check=False)
    assert re.search(
        r"^✓ microphone      PortAudio finds \d; the default is \d+ \S.*; PulseAudio or PipeWire has 1 source$",
        done.stdout,
        re.MULTILINE,
    )


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the packages of `pip install streamer-asr` and nothing else."""
    folder = tmp_path_factory.mktemp("light")
    venv.create(folder, symlinks=True)
    there = Path(sysconfig.get_path("purelib"))
    (packages,) = folder.glob("lib/python*/site-packages")
    for path in there.iterdir():
        name = path.name.split(".")[0]
        if path.name in LIGHT or name.startswith("_cffi_backend") or re.match(rf"({'|'.join(METADATA)})-", path.name):
            (packages / path.name).symlink_to(path)
    (packages / "streamer.pth").write_text(f"{ROOT}\n")
    return folder / "bin" / "python"


def test_the_light_client(light: Path, service: Service) -> None:
    """It lists its parts. Alone it cannot transcribe anything; with a service elsewhere it can."""
    command = [str(light), "-m", "streamer", "doctor"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run([*command], env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert re.search(r"^✓ client .* numpy ", done.stdout, re.MULTILINE)
    assert re.search(r"^! embedded        nvidia-pytriton missing → make install", done.stdout, re.M)
    assert re.search(r"^! mic             sounddevice, python-xlib missing → make install", done.stdout, re.M)
    if not is_ready():
        assert done.returncode == 1
        assert "✗ service         only the light client is installed, and no service runs" in done.stdout
    done = subprocess.run(
        [*command, "--server", service.url], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"^✓ service         ws://127.*recognised 5.9 s of audio", done.stdout, re.MULTILINE)
    assert done.stdout.splitlines()[-1].startswith("Recordings can be transcribed with the service.")


def test_a_client_that_cannot_be_imported(light: Path) -> None:
    """A client package that cannot be imported is a problem, even if a service is named."""
    code = "from streamer.commands.cli import run; sys.exit(run(sys.argv[1:]))"
    code = f"import sys; sys.modules['soundfile'] = None; {code}"
    command = [str(light), "-c", code, "doctor", "--server", "127.0.0.1:1"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert re.search(
        r"^✗ client          soundfile cannot be imported: .* → pip install --force-reinstall soundfile$",
        done.stdout,
        re.MULTILINE,
    )


def test_a_wrong_argument_is_one_sentence() -> None:
    """A wrong argument gives one sentence, as for all commands."""
    done = streamer_here("doctor", "x")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


WELL, WARNED, BROKEN = (Finding("ffmpeg", state, "said") for state in (FINE, WARNING, WRONG))


def test_only_what_is_wrong_makes_it_unusable() -> None:
    """A warning does not make it unusable."""
    assert usable([WELL, WARNED])
    assert not usable([WELL, BROKEN])


@pytest.mark.parametrize(
    ("light", "quick", "found", "concluded"),
    [
        (False, False, [WELL], "Recordings can be transcribed. 0 warnings."),
        (False, False, [WELL, WARNED], "Recordings can be transcribed. 1 warning."),
        (False, True, [WELL], "No problem was found. 0 warnings."),
        (True, True, [WELL], "Recordings can be transcribed with the service. 0 warnings."),
        (False, False, [WARNED, WARNED, BROKEN], "1 problem, 2 warnings."),
    ],
)
def test_the_conclusion_promises_only_what_was_tried(
    monkeypatch: pytest.MonkeyPatch, light: bool, quick: bool, found: list[Finding], concluded: str
) -> None:
    """Without the trial, the conclusion says nothing about transcribing."""
    monkeypatch.setattr(packages, "is_light", lambda: light)
    assert Examination(quick=quick).conclusion(found) == concluded
