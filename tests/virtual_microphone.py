"""A room with a microphone: a separate sound system in which recordings are played and PortAudio records them.

It is PulseAudio with a null sink, private to the test (own folders and socket). ALSA's plugin leads PortAudio there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

SINK = "room"
NEEDED = ("pulseaudio", "pactl", "paplay")
_PATIENCE_S = 60.0


class Room:
    """Processes with this `environment` hear what is played here."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = dict(environment)
        self._sink = ""
        self.plug_in()

    def play(self, recording: str | Path, output: str = SINK) -> subprocess.Popen[bytes]:
        """Begin to play a recording (WAV, FLAC, OGG) as fast as it was spoken."""
        return subprocess.Popen(["paplay", f"--device={output}", str(recording)], env=self.environment)

    def plug_in(self) -> None:
        """Connect the microphone."""
        self._sink = self._control("load-module", "module-null-sink", f"sink_name={SINK}", "rate=48000", "channels=2")

    def unplug(self) -> None:
        """Disconnect the microphone."""
        self._control("unload-module", self._sink)

    def add_output(self, name: str, description: str, *, rate: int = 48_000, channels: int = 2) -> None:
        """Add another output."""
        properties = f'sink_properties=device.description="{description}"'
        form = (f"rate={rate}", f"channels={channels}")
        self._control("load-module", "module-null-sink", f"sink_name={name}", *form, properties)

    def speak_into(self, name: str) -> None:
        """Make what this output plays the default microphone."""
        self._control("set-default-source", f"{name}.monitor")

    def _control(self, *arguments: str) -> str:
        done = subprocess.run(["pactl", *arguments], env=self.environment, capture_output=True, text=True, check=True)
        return done.stdout.strip()


@contextmanager
def room(folder: Path) -> Iterator[Room]:
    """A private room. Its files are in `folder`."""
    missing = [command for command in NEEDED if shutil.which(command) is None]
    if missing and "CI" not in os.environ:
        pytest.skip(f"a virtual microphone needs {', '.join(missing)}: scripts/system_packages")
    environment = _environment(folder)
    socket = environment["PULSE_SERVER"].removeprefix("unix:")
    command = [
        "pulseaudio",
        "-n",
        "--daemonize=no",
        "--use-pid-file=no",
        "--exit-idle-time=-1",
        "--disable-shm=yes",
        "--realtime=no",
        "--high-priority=no",
        "--log-target=stderr",
        f"--load=module-native-protocol-unix socket={socket} auth-anonymous=1",
    ]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, env=environment, stderr=log) as process:
        try:
            deadline = time.monotonic() + _PATIENCE_S
            while subprocess.run(["pactl", "info"], env=environment, capture_output=True, check=False).returncode:
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.05)
            yield Room(environment)
        finally:
            process.terminate()
            process.wait(_PATIENCE_S)


def silent_environment(folder: Path) -> dict[str, str]:
    """The environment of a machine without any sound device, such as a server or container."""
    cards = Path("/proc/asound/cards")
    if cards.exists() and "no soundcards" not in cards.read_text() and "CI" not in os.environ:
        pytest.skip("this machine has sound devices, which cannot be hidden")
    return {**os.environ, "PULSE_SERVER": f"unix:{folder / 'nowhere'}"}


def without_portaudio(*arguments: str) -> list[str]:
    """The command on a machine on which the system finds no PortAudio."""
    code = "import ctypes.util, sys; ctypes.util.find_library = lambda name: None; import runpy"
    return [sys.executable, "-c", f"{code}; runpy.run_module('streamer', run_name='__main__')", *arguments]


def _environment(folder: Path) -> dict[str, str]:
    for name in ("run", "home"):
        (folder / name).mkdir(mode=0o700)
    config = folder / "asound.conf"
    config.write_text("</usr/share/alsa/alsa.conf>\npcm.!default { type pulse hint.description Room }\n")
    return {
        **os.environ,
        "XDG_RUNTIME_DIR": str(folder / "run"),
        "HOME": str(folder / "home"),
        "PULSE_SERVER": f"unix:{folder / 'run' / 'native'}",
        "ALSA_CONFIG_PATH": str(config),
    }
