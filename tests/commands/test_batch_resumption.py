"""Recordings that go on where an earlier command was killed, with the words of one run."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile

from streamer.bridge.service import Service
from streamer.testing import say
from streamer.testing.exact_speech import silence
from tests.bridge.service_client import WORDS
from tests.command_run import streamer_here
from tests.pseudo_terminal import COMMAND, PATIENCE_S

RECEIVED_S = "streamer_received_seconds_total"
FORMATS = ("--format", "srt,text,json")
# So that some segments end at their greatest length, in the middle of a sentence.
ENDPOINT = ("--endpoint", "800:2000:6000")


@pytest.fixture(scope="session")
def service(exact_service: Service) -> Service:
    """An exact model: these tests are not about the words of the shipped one."""
    return exact_service


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half a minute of sentences with pauses."""
    path = tmp_path_factory.mktemp("long") / "talk.flac"
    audio = [part for _ in range(4) for part in (say(WORDS[0]), silence(1300))]
    soundfile.write(path, np.concatenate(audio), 16_000)
    return path


def received_s(service: Service) -> float:
    """How much audio the service has received."""
    lines = service.metrics.exposition().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(f"{RECEIVED_S} "))


def stopped(number: signal.Signals, finals: int, folder: Path, *command: str) -> None:
    """Run a command at the pace of speech, and send it this signal when the journal has so many finals."""
    journal = folder / "talk.partial.journal"
    deadline = time.monotonic() + PATIENCE_S
    with subprocess.Popen([*COMMAND, *command, "--paced"], stderr=subprocess.DEVNULL) as process:
        while not journal.exists() or journal.read_text().count('"final":') < finals:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(number)
        process.wait(PATIENCE_S)


def contents(folder: Path) -> dict[str, str]:
    """The names and texts of all files."""
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_recording_goes_on_where_it_was_stopped(
    service: Service, recording: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """The same command, stopped twice, gives the files of one run; it hears little twice, and leaves nothing else."""
    command = (str(recording), *FORMATS, *ENDPOINT, "--server", service.url)
    before = received_s(service)
    assert streamer_here(*command, "-o", str(tmp_path / "whole/")).returncode == 0
    whole_s = received_s(service) - before
    folder = tmp_path / "parts"
    parts = (*command, "-o", f"{folder}/")
    stopped(number, 2, folder, *parts)
    stopped(number, 4, folder, *parts)
    assert [name for name in contents(folder) if "partial-" in name] == []
    if number is signal.SIGINT:
        assert contents(folder)["talk.partial.txt"].splitlines()[-1].startswith("[stopped at 0:")
    before = received_s(service)
    done = streamer_here(*parts, "--resume")
    assert (done.returncode, done.stderr) == (0, "")
    assert contents(folder) == contents(tmp_path / "whole")
    assert received_s(service) - before < 0.7 * whole_s


def test_channels_go_on_where_they_were_stopped(service: Service, recording: Path, tmp_path: Path) -> None:
    """Each channel goes on behind its own last final, and no word is lost or written twice."""
    left, _ = soundfile.read(recording, dtype="int16")
    stereo = tmp_path / "talk.wav"
    soundfile.write(stereo, np.stack([left, np.roll(left, 20_000)], 1), 16_000)
    command = (str(stereo), "--channels", "separate", "--server", service.url)
    assert streamer_here(*command, "-o", str(tmp_path / "whole.txt")).returncode == 0
    (tmp_path / "parts").mkdir()
    stopped(signal.SIGKILL, 3, tmp_path / "parts", *command, "-o", str(tmp_path / "parts" / "talk.txt"))
    assert streamer_here(*command, "-o", str(tmp_path / "parts" / "talk.txt")).returncode == 0
    lines = [
        (folder / name).read_text() for folder, name in ((tmp_path, "whole.txt"), (tmp_path / "parts", "talk.txt"))
    ]
    said = [
        [line[4:] for line in text.splitlines() if line.startswith(side)] for text in lines for side in ("[1]", "[2]")
    ]
    words = [" ".join(texts).split() for texts in said]
    assert words[:2] == words[2:]
