"""The microphone: recordings are played in a virtual room, and the command transcribes them."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import psutil
import pytest
import soundfile
from websockets.asyncio.server import ServerConnection, serve

from streamer.audio.microphone import NO_SOUNDDEVICE
from streamer.bridge.access.rules import PortPolicy
from streamer.bridge.service import Service
from streamer.bridge.triton.server import TritonServer
from streamer.commands.accuracy.manifest import normalise
from streamer.commands.accuracy.word_errors import count_errors
from streamer.testing.faulty_proxy import proxy
from tests.bridge.service_client import eventually, serving
from tests.project import SAMPLES
from tests.pseudo_terminal import COMMAND, PATIENCE_S, Terminal, finals_on
from tests.virtual_microphone import SINK, Room, SoundSystem, room, silent_environment, without_portaudio
from workshop.graphs.exact_icefall import make_transducer_folder

PHRASE = SAMPLES / "quilter.ogg"
READY = "streamer: listening to "
ENDING = "streamer: stopping: waiting for the last words. Press Ctrl-C again to quit at once.\n"
MUTED = " gives only silence: is it muted? --devices lists others."
NOTHING_PLAYS = " gives only silence: does anything play there? --devices lists others."
MONITOR = f"{SINK}.monitor"
# The microphone of the room, even if the machine has others.
MIC = ("mic", "--device", "default")
# The audio is resampled and begins at another sample, so a few words may be different from those of the file.
MOST_WRONG = 0.3


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """A room for all tests that do not unplug its microphone."""
    with room(tmp_path_factory.mktemp("room")) as opened:
        yield opened


@pytest.fixture(scope="module")
def sentence(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Almost four seconds of clear speech."""
    samples, rate = soundfile.read(SAMPLES / "talk.flac", frames=int(3.7 * 16_000))
    path = tmp_path_factory.mktemp("speech") / "sentence.wav"
    soundfile.write(path, samples, rate)
    return path


@pytest.fixture(scope="module")
def later(sentence: Path) -> Path:
    """The sentence after a moment: PulseAudio gives the beginning of what an output plays only when it has awoken."""
    samples, rate = soundfile.read(sentence)
    path = sentence.with_name("later.wav")
    soundfile.write(path, np.concatenate([np.zeros(3 * rate), samples]), rate)
    return path


class Listening:
    """The command as a process without a terminal."""

    def __init__(self, place: Room, *arguments: str, folder: Path | None = None) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, *(MIC[:1] if "--device" in arguments else MIC), *arguments],
            env=place.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
        )

    def wait_until_ready(self) -> Listening:
        """Wait until it listens."""
        assert self.process.stderr is not None
        assert self.process.stderr.readline().startswith(READY)
        return self

    def end(self, number: signal.Signals = signal.SIGINT) -> tuple[str, str]:
        """End it in order. Returns its standard output and standard error."""
        self.process.send_signal(number)
        return self.rest(0)

    def rest(self, status: int) -> tuple[str, str]:
        """The same, if it ends by itself with this exit status."""
        output, errors = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == status, errors
        # If nothing is played for long, the room is as silent as a muted microphone.
        return output, "".join(line for line in errors.splitlines(keepends=True) if " gives only silence: " not in line)


@pytest.fixture(scope="module")
def expected(service: Service, sentence: Path) -> str:
    """What the service recognises in the file of the sentence."""
    command = [*COMMAND, str(sentence), "--server", service.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert "adventure" in done.stdout
    return " ".join(done.stdout.split())


def assert_heard(text: str, expected: str) -> None:
    """Check that these are the words, except for a few."""
    right = normalise(expected)  # marks and capitals depend on a few milliseconds of the pauses
    wrong = count_errors(right, normalise(text)).word_errors
    assert wrong <= MOST_WRONG * len(right), f"{text!r} instead of {expected!r}"


def test_words_appear_while_they_are_spoken(studio: Room, service: Service, sentence: Path, expected: str) -> None:
    """On a terminal there are a level and partials in place; Ctrl-C adds the last words as a line that stays."""
    terminal = Terminal(*MIC, "--server", service.url, environment=studio.environment)
    terminal.watch(f"{READY}default (44100 Hz); space pauses, Ctrl-C ends")
    assert studio.play(sentence).wait() == 0
    terminal.watch("adventure")
    terminal.type("\x03")
    assert terminal.status() == 0
    drawn = [line for line in terminal.shown.split("\r\x1b[K") if line]
    changing = [line for line in drawn if not line.endswith("\r\n")]
    assert any("█" in line for line in changing)
    assert any("\x1b[2m" in line for line in changing)
    assert max(len(re.sub(r"\x1b\[\d*m", "", line)) for line in changing) < 80
    assert_heard(" ".join(text for _, text in finals_on(terminal.shown)), expected)


def test_what_is_said_during_a_pause_is_not_heard(
    studio: Room, service: Service, sentence: Path, expected: str
) -> None:
    """Space makes the words so far final and stops listening until it is pressed again."""
    began = time.monotonic()
    terminal = Terminal(*MIC, "--server", service.url, environment=studio.environment)
    terminal.watch(READY)
    studio.play(sentence).wait()
    terminal.type(" ")
    terminal.watch("‖ paused")
    paused = time.monotonic()
    terminal.watch("together.\r\n")  # it was final at once
    secret = studio.play(PHRASE)
    time.sleep(2)
    secret.kill()
    secret.wait()
    time.sleep(0.5)  # the sound system has delivered what was played
    paused_s = time.monotonic() - paused
    terminal.type(" ")
    terminal.watch("●", after=len(terminal.shown))
    studio.play(sentence).wait()
    passed_s = time.monotonic() - began
    terminal.type("\x03")
    assert terminal.status() == 0
    lines = finals_on(terminal.shown)
    assert_heard(" ".join(text for _, text in lines), f"{expected} {expected}")
    assert "apostle" not in terminal.shown.lower()
    # Pauses do not count in the times.
    minutes, seconds = lines[-1][0].split(":")
    assert 60 * int(minutes) + float(seconds) < passed_s - paused_s - 3


def test_a_public_model(studio: Room, sentence: Path, tmp_path: Path) -> None:
    """With the folder of a model, the command starts a service of its own."""
    folder = make_transducer_folder(tmp_path)
    listening = Listening(studio, "--model", str(folder), "--format", "jsonl").wait_until_ready()
    studio.play(sentence).wait()
    output, _ = listening.end()
    events = [json.loads(line) for line in output.splitlines()]
    assert events[0]["triton_model"] == tmp_path.name
    assert any(event["type"] == "final" for event in events)


def test_every_format_while_somebody_speaks(
    studio: Room, service: Service, sentence: Path, expected: str, tmp_path: Path
) -> None:
    """Text, subtitles and events grow as words become final; the json document comes at the end."""
    formats = {"text": "txt", "srt": "srt", "vtt": "vtt", "jsonl": "jsonl", "json": "json"}
    arguments = ("--server", service.url, "--format", ",".join(formats), "-o", str(tmp_path))
    listening = Listening(studio, *arguments).wait_until_ready()
    files = {name: tmp_path / f"microphone.{ending}" for name, ending in formats.items()}
    studio.play(sentence).wait()
    deadline = time.monotonic() + PATIENCE_S
    while not all("together" in _content(files[name]) for name in ("text", "srt", "vtt")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    early = {name: _content(path) for name, path in files.items()}
    assert early["json"] == ""
    assert {json.loads(line)["type"] for line in early["jsonl"].splitlines()} >= {"ready", "partial", "final"}
    studio.play(sentence).wait()
    listening.end(signal.SIGTERM)
    whole = {name: _content(path) for name, path in files.items()}
    for name in ("text", "srt", "vtt", "jsonl"):
        assert whole[name].startswith(early[name])
    assert_heard(" ".join(whole["text"].split()), f"{expected} {expected}")
    numbers = [block.split("\n")[0] for block in whole["srt"].strip().split("\n\n")]
    assert numbers == [str(number) for number in range(1, len(numbers) + 1)]
    assert whole["vtt"].startswith("WEBVTT\n\n00:0")
    content = json.loads(whole["json"])
    assert content["file"] == "microphone"
    assert_heard(content["text"], f"{expected} {expected}")
    assert json.loads(whole["jsonl"].splitlines()[-1])["type"] == "done"


def test_a_device_that_is_unplugged(
    service: Service, sentence: Path, expected: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What was said until then is transcribed, here for one of two channels, and a message says why it ended."""
    with room(tmp_path_factory.mktemp("room")) as place:
        samples, rate = soundfile.read(sentence)
        both = tmp_path_factory.mktemp("speech") / "both.wav"
        soundfile.write(both, np.stack([0 * samples, samples], axis=1), rate)
        apart = ("--input-channels", "2", "--channels", "separate")
        listening = Listening(place, "--server", service.url, *apart).wait_until_ready()
        place.play(both).wait()
        place.unplug()
        output, errors = listening.rest(1)
    assert all(line.startswith("[2] ") for line in output.splitlines())
    assert_heard(output.replace("[2] ", "").replace("\n", " "), expected)
    assert errors == "streamer: default is gone: it was unplugged, or the sound system ended.\n"


def test_a_meeting(studio: Room, service: Service, later: Path, expected: str) -> None:
    """What an output of the machine plays is heard; a part of the name of its monitor chooses it."""
    listening = Listening(studio, "--server", service.url, "--device", "Monitor of Null").wait_until_ready()
    assert studio.play(later).wait() == 0
    output, errors = listening.end()
    assert errors == ENDING
    assert_heard(" ".join(output.split()), expected)


def test_an_output_that_is_gone(
    service: Service, later: Path, expected: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What was played until then is transcribed, and nothing of the source to which the sound server moves."""
    with room(tmp_path_factory.mktemp("room")) as place:
        place.add_output("private", "Private")
        listening = Listening(place, "--server", service.url, "--device", MONITOR).wait_until_ready()
        place.play(later).wait()
        with place.play(PHRASE, "private") as secret:
            place.unplug()
            output, errors = listening.rest(1)
            secret.kill()
    assert_heard(" ".join(output.split()), expected)
    assert errors == f"streamer: {MONITOR} is gone: it was unplugged, or the sound system ended.\n"


@pytest.mark.parametrize(
    ("channels", "system"),
    [
        ("separate", SoundSystem.PULSEAUDIO),
        ("mix", SoundSystem.PULSEAUDIO),
        ("separate", SoundSystem.PIPEWIRE),
    ],
)
def test_both_sides_of_a_meeting(
    channels: str,
    system: SoundSystem,
    service: Service,
    later: Path,
    expected: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The microphone and what is played are heard at the same time, as two channels or as one."""
    with room(tmp_path_factory.mktemp("room"), system) as place:
        place.add_output("voice", "Voice")
        place.speak_into("voice")
        more = [] if channels == "separate" else ["--channels", channels]
        both = ("--device", "default", "--device", MONITOR, *more)
        listening = Listening(place, "--server", service.url, *both).wait_until_ready()
        for output in ("voice", SINK):
            place.play(later, output).wait()
        text, errors = listening.end()
    assert errors == ENDING
    if channels == "mix":
        assert_heard(" ".join(text.split()), f"{expected} {expected}")
        return
    for number in (1, 2):
        lines = [line.removeprefix(f"[{number}] ") for line in text.splitlines() if line.startswith(f"[{number}] ")]
        assert_heard(" ".join(lines), expected)


def test_one_side_of_a_meeting_that_is_gone(
    service: Service, later: Path, expected: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """When an output is unplugged, the words of the microphone until then come, and one sentence says which is gone."""
    with room(tmp_path_factory.mktemp("room")) as place:
        place.add_output("voice", "Voice")
        place.speak_into("voice")
        both = ("--device", "default", "--device", MONITOR)
        listening = Listening(place, "--server", service.url, *both).wait_until_ready()
        place.play(later, "voice").wait()
        place.unplug()
        text, errors = listening.rest(1)
    assert_heard(text.replace("[1] ", "").replace("\n", " "), expected)
    assert errors == f"streamer: {MONITOR} is gone: it was unplugged, or the sound system ended.\n"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--device", "default", "--device", "default"], 1, "default was chosen twice."),
        (["--device", "default", "--device", MONITOR, "--input-channels", "2"], 2, "--input-channels cannot be used"),
        (["--device", "default"] * 9, 2, "at most 8 devices can be used at the same time"),
    ],
)
def test_devices_that_cannot_be_used_together(studio: Room, arguments: list[str], status: int, message: str) -> None:
    """One sentence says why, before anything is heard."""
    command = [*COMMAND, "mic", *arguments]
    done = subprocess.run(command, env=studio.environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith(f"streamer: {message}")
    assert done.stderr.count("\n") == 1


async def test_a_connection_that_is_lost(studio: Room, service: Service, sentence: Path, expected: str) -> None:
    """A lost connection is restored in the middle of a sentence, and no word is missing."""
    async with proxy(service.url.split("/")[2]) as (address, cut):
        listening = await asyncio.to_thread(Listening, studio, "--server", address)
        await asyncio.to_thread(listening.wait_until_ready)
        playing = await asyncio.to_thread(studio.play, sentence)
        await asyncio.sleep(2)
        await cut()
        await asyncio.to_thread(playing.wait)
        output, errors = await asyncio.to_thread(listening.end)
    assert errors == ENDING
    assert_heard(" ".join(output.split()), expected)


class Mute:
    """A service that loads a model until it is told to go on, and then opens a session and sends nothing."""

    def __init__(self) -> None:
        self.address = ""
        self.loaded = threading.Event()
        self._listens = threading.Event()
        self._over = asyncio.Event()

    def __enter__(self) -> Mute:
        self._thread = threading.Thread(target=asyncio.run, args=(self._run(),))
        self._thread.start()
        assert self._listens.wait(PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.loaded.set()
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(PATIENCE_S)

    async def _run(self) -> None:
        async with serve(self._talk, "127.0.0.1", 0) as server:
            self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
            self._loop = asyncio.get_running_loop()
            self._listens.set()
            await self._over.wait()

    async def _talk(self, websocket: ServerConnection) -> None:
        await websocket.recv()
        await websocket.send(json.dumps({"type": "starting", "n": 0, "model": "chinese"}))
        await asyncio.to_thread(self.loaded.wait, PATIENCE_S)
        await websocket.send(json.dumps({"type": "ready", "n": 1, "token": "t", "session": "s"}))
        async for _ in websocket:
            pass


@pytest.fixture
def mute() -> Iterator[Mute]:
    """The service that sends nothing."""
    with Mute() as service:
        yield service


SHORT_QUEUE = """
import streamer.audio.microphone, sys, runpy
streamer.audio.microphone.MOST_WAITING_S = 0.2
runpy.run_module("streamer", run_name="__main__")
"""


def read(address: str) -> bytes:
    """All that comes from an address."""
    with urlopen(address, timeout=PATIENCE_S) as answer:
        return bytes(answer.read())


async def test_captions_of_what_is_said(studio: Room, exact_triton: TritonServer) -> None:
    """With --captions, the command says the address of a page; the words there end with the session."""
    async with serving(exact_triton, policy=PortPolicy(listeners=2)) as service:
        listening, line = await asyncio.to_thread(captioned, studio, service.url)
        assert line.startswith(f"streamer: captions for a second screen or OBS: http://127.0.0.1:{service.port}/")
        address = line.split()[-1].replace("/captions?id=", "/v1/captions/")
        reading = asyncio.create_task(asyncio.to_thread(read, address))
        await eventually(lambda: service.metrics.connections()["listening"] == 1)
        await asyncio.to_thread(listening.end)
        assert (await reading).endswith(b"event: end\ndata: {}\n\n")


async def test_captions_that_the_service_does_not_allow(studio: Room, exact_triton: TritonServer) -> None:
    """Where sessions cannot be shared, the command says why, and goes on."""
    async with serving(exact_triton) as service:
        listening, line = await asyncio.to_thread(captioned, studio, service.url)
        assert line.startswith("streamer: there are no captions: Sessions cannot be shared here; ")
        await asyncio.to_thread(listening.end)
        assert listening.process.returncode == 0


def captioned(studio: Room, url: str) -> tuple[Listening, str]:
    """Start the command with captions. Return what it says about them, too."""
    listening = Listening(studio, "--captions", "--server", url).wait_until_ready()
    assert listening.process.stderr is not None
    return listening, listening.process.stderr.readline()


def test_a_service_that_hangs(studio: Room, mute: Mute) -> None:
    """Audio that the service does not take is counted and shown; a second Ctrl-C does not wait for the last words."""
    command = [sys.executable, "-c", SHORT_QUEUE, *MIC, "--server", mute.address]
    terminal = Terminal(command=command, environment=studio.environment)
    terminal.watch("… ")  # it is already listening
    terminal.watch("streamer: the model chinese is being loaded …\r\n")
    terminal.watch(" s of audio were lost because the service was too slow.\r\n")
    mute.loaded.set()
    terminal.watch(READY)
    terminal.watch("lost ", after=len(terminal.shown))
    terminal.type("\x03")
    terminal.watch("■ ending")
    terminal.type("\x03")
    assert terminal.status() == 130
    assert "Traceback" not in terminal.shown


def test_a_terminal_that_is_closed(studio: Room, service: Service, tmp_path: Path) -> None:
    """If the terminal is closed, the command ends in order and writes the transcript."""
    path = tmp_path / "talk.vtt"
    terminal = Terminal(
        *MIC, "--server", service.url, "--format", "vtt", "-o", str(path), environment=studio.environment
    )
    terminal.watch("●")
    terminal.hang_up()
    assert terminal.process.wait(PATIENCE_S) == 0
    assert path.read_text() == "WEBVTT\n"


NOHUP = ("nohup", "nohup.out")  # the command, and where the command that it runs says that it listens
IGNORING = ('sh -c \'trap "" HUP; exec "$@"\' sh', "")


@pytest.mark.parametrize(("ignoring", "log"), [NOHUP, IGNORING])
def test_a_closed_terminal_that_does_not_count(
    ignoring: str, log: str, studio: Room, service: Service, sentence: Path, expected: str, tmp_path: Path
) -> None:
    """If SIGHUP was ignored at the start, as nohup does, the command goes on without its terminal."""
    notes = tmp_path / "notes.txt"
    command = ["/usr/bin/env", "-C", str(tmp_path), *shlex.split(ignoring), *COMMAND]
    arguments = (*MIC, "--server", service.url, "-o", str(notes))
    terminal = Terminal(*arguments, environment=studio.environment, command=command)
    try:
        if log:
            wait_for(READY, tmp_path / log, terminal)
        else:
            terminal.watch("●")
        terminal.hang_up()
        assert studio.play(sentence).wait() == 0
        wait_for("together", notes, terminal)
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.process.wait(PATIENCE_S) == 0
        assert_heard(" ".join(notes.read_text().split()), expected)
    finally:
        with suppress(psutil.NoSuchProcess):
            terminal.process.kill()
        terminal.process.wait(PATIENCE_S)


def wait_for(words: str, path: Path, terminal: Terminal) -> None:
    """Wait until the command has written these words into a file."""
    deadline = time.monotonic() + PATIENCE_S
    while words not in _content(path):
        assert terminal.process.poll() is None
        assert time.monotonic() < deadline, _content(path)
        time.sleep(0.05)


def test_the_list_and_the_choice(studio: Room) -> None:
    """--devices marks the default with a star, and has the sources of the server; a wrong choice lists them."""
    done = subprocess.run([*COMMAND, "mic", "--devices"], env=studio.environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^[* ] +\d+  default  \(32 channels, 44100 Hz\)$", done.stdout, re.MULTILINE)
    assert f"\n      {MONITOR}  Monitor of Null Output  (2 channels, 48000 Hz)\n" in done.stdout
    for wanted, words in {
        "theremin": "there is no microphone 'theremin': ",
        "77": "there is no microphone '77'",
    }.items():
        command = [*COMMAND, "mic", "--device", wanted]
        done = subprocess.run(command, env=studio.environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert words in done.stderr
        assert f"; {MONITOR} is Monitor of Null Output.\n" in done.stderr
        assert done.stderr.count("\n") == 1


def test_sources_that_cannot_be_listed(studio: Room, tmp_path: Path) -> None:
    """If a sound server seems to be there, a sentence beside the list says what is missing; the list is as without."""
    environment = {**studio.environment, "PATH": str(tmp_path)}
    done = subprocess.run([*COMMAND, "mic", "--devices"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    reason = "pactl and parec are not installed (apt install pulseaudio-utils)"
    assert done.stderr == f"streamer: sources of PulseAudio and PipeWire cannot be listed: {reason}.\n"
    assert "default  (32 channels" in done.stdout
    assert MONITOR not in done.stdout


@pytest.mark.parametrize("arguments", [["--devices"], []])
def test_a_machine_without_a_microphone(tmp_path: Path, arguments: list[str]) -> None:
    """One sentence says what to do, and no service is started."""
    environment = silent_environment(tmp_path)
    done = subprocess.run([*COMMAND, "mic", *arguments], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "this machine has no microphone that PortAudio can see" in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_goes_into_a_file_is_seen_too(
    studio: Room, service: Service, sentence: Path, expected: str, tmp_path: Path
) -> None:
    """Finals stay on the terminal; an earlier text comes before them only with --append."""
    notes = tmp_path / "notes.txt"
    notes.write_text("the work of an hour\n")
    command = (*MIC, "--server", service.url, "-o", str(notes))
    done = subprocess.run([*COMMAND, *command], env=studio.environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    ways = "--append adds to its end, --overwrite replaces it when the new one is complete"
    assert done.stderr == f"streamer: {notes} exists already: {ways}.\n"
    terminal = Terminal(*command, "--append", environment=studio.environment)
    terminal.watch(READY)
    studio.play(sentence).wait()
    terminal.watch("adventure")
    terminal.type("\x03")
    terminal.watch(ENDING.strip())
    assert terminal.status() == 0
    said = notes.read_text().removeprefix("the work of an hour\n")
    assert_heard(" ".join(said.split()), expected)
    assert [text for _, text in finals_on(terminal.shown)] == said.splitlines()


@pytest.mark.parametrize(("device", "message"), [("default", MUTED), (MONITOR, NOTHING_PLAYS)])
def test_a_microphone_that_is_muted(studio: Room, service: Service, tmp_path: Path, device: str, message: str) -> None:
    """Silence is reported during the dictation and at the end, and does not replace an old file."""
    notes = tmp_path / "notes.txt"
    notes.write_text("the work of an hour\n")
    arguments = ("mic", "--device", device, "--server", service.url, "-o", str(notes), "--overwrite")
    terminal = Terminal(*arguments, environment=studio.environment)
    terminal.watch(f"streamer: {device}{message}")
    terminal.type("\x03")
    assert terminal.status() == 0
    assert "streamer: no words were recognised: the file was not changed." in terminal.shown
    assert [path.read_text() for path in tmp_path.iterdir()] == ["the work of an hour\n"]


def test_a_machine_without_portaudio() -> None:
    """The message names the package."""
    done = subprocess.run(without_portaudio("mic"), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "apt install libportaudio2" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_python_without_the_package() -> None:
    """The light client has no microphone support unless it is installed with that part."""
    code = (
        "import sys; sys.modules['sounddevice'] = None; from streamer.commands.cli import run; sys.exit(run(['mic']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"streamer: {NO_SOUNDDEVICE}\n"


def test_a_place_that_cannot_be_written(studio: Room) -> None:
    """A file that cannot be written is reported before the microphone is opened."""
    command = [*COMMAND, *MIC, "-o", "missing/talk.txt"]
    done = subprocess.run(command, env=studio.environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "streamer: --output missing/talk.txt: the folder missing does not exist.\n"


def _content(path: Path) -> str:
    return path.read_text() if path.exists() else ""
