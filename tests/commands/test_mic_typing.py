"""Dictation into windows: speech in a virtual room becomes keys of real desktops, by the command as a user runs it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from streamer.bridge.service import Service
from streamer.testing.exact_speech import say, silence
from tests.pseudo_terminal import COMMAND, PATIENCE_S, Terminal
from tests.virtual_desktop import Desktop, wayland_desktop, x11_desktop
from tests.virtual_microphone import Room, room

# An output with the rate of the model: what is played there is heard sample by sample, as the exact model needs it.
OUTPUT = "exact"
MIC = ("mic", "--device", f"{OUTPUT}.monitor")
DESKTOPS = {"X11": x11_desktop, "Wayland": wayland_desktop}


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """A room for all tests."""
    with room(tmp_path_factory.mktemp("room")) as opened:
        opened.add_output(OUTPUT, "Exact", rate=16_000, channels=1)
        yield opened


@pytest.fixture(params=DESKTOPS, scope="module")
def any_desktop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desktop]:
    """Run each of the desktops."""
    with DESKTOPS[request.param](tmp_path_factory.mktemp("desktop")) as desktop:
        yield desktop


@pytest.fixture(scope="module")
def desktop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desktop]:
    """Run X11."""
    with x11_desktop(tmp_path_factory.mktemp("desktop")) as running:
        yield running


@pytest.fixture(scope="module")
def service(exact_service: Service) -> Service:
    """One that hears what was said."""
    return exact_service


class Speaker:
    """Says words in the room."""

    def __init__(self, place: Room, folder: Path) -> None:
        self._place = place
        self._folder = folder

    def begin(self, *words: str) -> subprocess.Popen[bytes]:
        """Begin to say these, with a pause after each."""
        # PulseAudio gives the beginning of what an output plays only when it has awoken.
        path = self._folder / f"{len(list(self._folder.iterdir()))}.wav"
        sound = [part for each in words for part in (say(each), silence(1500))]
        soundfile.write(path, np.concatenate([silence(1000), *sound]), 16_000)
        command = ["paplay", f"--device={OUTPUT}", "--latency-msec=2000", str(path)]
        return subprocess.Popen(command, env=self._place.environment)

    def say(self, *words: str) -> None:
        """Say these to the end."""
        assert self.begin(*words).wait(PATIENCE_S) == 0


@pytest.fixture
def speaker(studio: Room, tmp_path: Path) -> Speaker:
    """Somebody in the room."""
    return Speaker(studio, tmp_path)


class Typing(Terminal):
    """The command on a terminal of the desktop."""

    def __init__(self, place: Room, desktop: Desktop, service: Service, *arguments: str) -> None:
        names = ("DISPLAY", "WAYLAND_DISPLAY", "SWAYSOCK")
        own = {name: desktop.environment[name] for name in names if name in desktop.environment}
        others = {name: value for name, value in place.environment.items() if name not in names}
        self.environment = {**others, **own}
        super().__init__(*MIC, "--server", service.url, "--spoken", *arguments, environment=self.environment)
        self.watch("streamer: listening to ")

    def __enter__(self) -> Typing:
        return self

    def __exit__(self, *details: object) -> None:
        if self.process.is_running():  # a test that failed
            self.process.kill()
            self.process.wait(PATIENCE_S)

    def ask(self, request: str) -> str:
        """Send a request by the command for window managers."""
        command = [*COMMAND, "mic", "--control", request]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.strip()

    def end(self) -> None:
        """End it by Ctrl-C."""
        self.type("\x03")
        assert self.status() == 0


def test_words_go_into_the_focused_window(
    studio: Room, any_desktop: Desktop, service: Service, speaker: Speaker
) -> None:
    """Settled words are typed while somebody speaks; spoken commands press Return and take back; focus is followed."""
    first = any_desktop.open_window()
    with Typing(studio, any_desktop, service, "--type", "--clipboard") as typing:
        speaker.say("the cat sat", "new line", "on a hat", "scratch that", "on a mat")
        first.awaits("the cat sat \non a mat ")
        second = any_desktop.open_window()
        speaker.say("it was fat")
        second.awaits("it was fat ")
        speaker.say("scratch that", "scratch that")
        typing.watch("streamer: nothing was taken back: the words are in another window")
        typing.end()
        assert first.text == "the cat sat \non a mat "
        assert second.text == ""
        assert any_desktop.paste() == "the cat sat"


def test_words_are_typed_before_the_sentence_ends(
    studio: Room, desktop: Desktop, service: Service, speaker: Speaker
) -> None:
    """Without a second pass, words come while the sentence goes on; none is typed twice."""
    window = desktop.open_window()
    with Typing(studio, desktop, service, "--type", "--second-pass", "off") as typing:
        with speaker.begin("the early bird catches a worm and the second mouse gets the cheese") as speaking:
            while not window.text.startswith("the early "):
                assert speaking.poll() is None
        window.awaits("the early bird catches a worm and the second mouse gets the cheese ")
        typing.end()
        assert "\x7f" not in window.keys


def test_a_key_begins_and_ends_listening(studio: Room, desktop: Desktop, service: Service, speaker: Speaker) -> None:
    """Nothing is heard before the key; a tap begins and ends it, and a held key listens as long."""
    window = desktop.open_window()
    with Typing(studio, desktop, service, "--type", "--hotkey", "F9") as typing:
        typing.watch("F9 begins and ends it, or is held while you speak")
        speaker.say("secret")
        desktop.ask("xdotool", "key", "F9")
        typing.watch("●", after=len(typing.shown))
        speaker.say("one")
        window.awaits("one ")
        desktop.ask("xdotool", "key", "F9")
        typing.watch("‖ paused", after=len(typing.shown))
        speaker.say("secret")
        desktop.ask("xdotool", "keydown", "F9")
        typing.watch("●", after=len(typing.shown))
        speaker.say("two")
        desktop.ask("xdotool", "keyup", "F9")
        typing.watch("‖ paused", after=len(typing.shown))
        window.awaits("one two ")
        typing.end()
        assert window.text == "one two "


def test_requests_of_a_window_manager(studio: Room, desktop: Desktop, service: Service, speaker: Speaker) -> None:
    """`--control` begins, pauses, takes back and ends; the clipboard has what was said since it began."""
    desktop.open_window()
    with Typing(studio, desktop, service, "--clipboard", "--paused") as typing:
        assert typing.ask("state") == "paused"
        speaker.say("secret")
        assert typing.ask("toggle") == "listening"
        typing.watch("●", after=len(typing.shown))
        speaker.say("one", "two")
        typing.watch("two\r\n")
        assert typing.ask("scratch") == "listening"
        assert typing.ask("pause") == "paused"
        typing.watch("‖ paused", after=len(typing.shown))
        assert typing.ask("toggle") == "listening"
        typing.watch("●", after=len(typing.shown))
        speaker.say("three")
        typing.watch("three\r\n")
        assert typing.ask("end") == "ending"
        assert typing.status() == 0
        assert "secret" not in typing.shown
        assert desktop.paste() == "three"


def test_a_second_dictation(studio: Room, desktop: Desktop, service: Service) -> None:
    """Two would type every word twice, so the second one is refused."""
    with Typing(studio, desktop, service, "--type") as typing:
        command = [*COMMAND, *MIC, "--server", service.url, "--type"]
        done = subprocess.run(command, env=typing.environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        reason = "another `streamer mic` takes requests already: `streamer mic --control end` ends it"
        assert done.stderr == f"streamer: {reason}.\n"
        typing.process.send_signal(signal.SIGTERM)
        assert typing.status() == 0


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--type"], 1, "there is no desktop: neither WAYLAND_DISPLAY nor DISPLAY is set (over SSH and in a "),
        (["--clipboard"], 1, "there is no desktop: neither WAYLAND_DISPLAY nor DISPLAY is set (over SSH and in a "),
        (["--hotkey", "F9"], 1, "there is no desktop: neither WAYLAND_DISPLAY nor DISPLAY is set (over SSH and in a "),
        (["--hotkey", "a"], 2, "argument --hotkey: 'a' alone could not be typed any more"),
        (["--type", "--channels", "separate"], 2, "--type cannot be used with --channels separate"),
        (["--control", "state"], 1, "no `streamer mic` takes requests: start one with --type, --clipboard, "),
        (["--control", "stat"], 2, "argument --control: invalid choice: 'stat'"),
    ],
)
def test_what_is_not_possible(studio: Room, service: Service, arguments: list[str], status: int, message: str) -> None:
    """One sentence says why, before anything is heard."""
    hidden = ("DISPLAY", "WAYLAND_DISPLAY")
    environment = {name: value for name, value in studio.environment.items() if name not in hidden}
    command = [*COMMAND, *MIC, "--server", service.url, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith(f"streamer: {message}")
    assert done.stderr.count("\n") == 1
