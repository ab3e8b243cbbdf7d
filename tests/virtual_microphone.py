"""A room with a microphone: a separate sound system in which recordings are played and PortAudio records them.

It is PulseAudio or PipeWire with a null sink, private to the test (own folders and sockets). ALSA's plugin leads
PortAudio there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from enum import Enum
from pathlib import Path

import pytest

from tests.project import ROOT

SINK = "room"
NEEDED = ("pactl", "paplay")
# PipeWire is only unpacked by scripts/system_packages, because installed it would take the place of PulseAudio.
PIPEWIRE = ROOT / "build/pipewire"
_PATIENCE_S = 60.0
# The programs of PipeWire that others connect to at once, and their sockets.
_SOCKETS = {"dbus-daemon": "bus", "pipewire": "pipewire-0"}


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
        self._sink = self.add_output(SINK, "Null Output")

    def unplug(self) -> None:
        """Disconnect the microphone."""
        self._control("unload-module", self._sink)

    def add_output(self, name: str, description: str, *, rate: int = 48_000, channels: int = 2) -> str:
        """Add another output. Returns its number."""
        properties = f"sink_properties=\"device.description='{description}'\""
        form = (f"rate={rate}", f"channels={channels}")
        return self._control("load-module", "module-null-sink", f"sink_name={name}", *form, properties)

    def speak_into(self, name: str) -> None:
        """Make what this output plays the default microphone."""
        self._control("set-default-source", f"{name}.monitor")

    def _control(self, *arguments: str) -> str:
        done = subprocess.run(["pactl", *arguments], env=self.environment, capture_output=True, text=True, check=True)
        return done.stdout.strip()


class SoundSystem(Enum):
    """What plays and records in a room."""

    PULSEAUDIO = "pulseaudio"
    PIPEWIRE = "pipewire"


@contextmanager
def room(folder: Path, system: SoundSystem = SoundSystem.PULSEAUDIO) -> Iterator[Room]:
    """A private room. Its files are in `folder`."""
    environment = _environment(folder)
    commands = _pulseaudio(environment) if system is SoundSystem.PULSEAUDIO else _pipewire(environment)
    programs = (*NEEDED, *(command[0] for command in commands))
    missing = [program for program in programs if shutil.which(program) is None]
    if missing and "CI" not in os.environ:
        pytest.skip(f"a virtual microphone needs {', '.join(missing)}: scripts/system_packages")
    with ExitStack() as stack:
        log = stack.enter_context((folder / "log").open("wb"))
        processes: list[subprocess.Popen[bytes]] = []

        def wait_until(ready: Callable[[], bool]) -> None:
            deadline = time.monotonic() + _PATIENCE_S
            while not ready():
                assert all(process.poll() is None for process in processes), (folder / "log").read_text()
                assert time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.05)

        for command in commands:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
            processes.append(stack.enter_context(_ended(process)))
            if socket := _SOCKETS.get(Path(command[0]).name):
                wait_until((Path(environment["XDG_RUNTIME_DIR"]) / socket).exists)
        info = ["pactl", "info"]
        wait_until(lambda: subprocess.run(info, env=environment, capture_output=True, check=False).returncode == 0)
        yield Room(environment)


@contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        yield process
    finally:
        process.terminate()
        process.wait(_PATIENCE_S)


def _pulseaudio(environment: Mapping[str, str]) -> list[list[str]]:
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
    return [command]


def _pipewire(environment: dict[str, str]) -> list[list[str]]:
    """Return its programs: a bus, the graph, who connects its parts, and the service for clients of PulseAudio."""
    environment["DBUS_SESSION_BUS_ADDRESS"] = address = f"unix:path={environment['XDG_RUNTIME_DIR']}/bus"
    bus = ["dbus-daemon", "--session", "--nofork", "--nopidfile", f"--address={address}"]
    names = ("pipewire", "wireplumber", "pipewire-pulse")
    if shutil.which("pipewire-pulse"):
        return [bus, *([name] for name in names)]
    libraries = next(PIPEWIRE.glob("usr/lib/*/pipewire-0.3"), PIPEWIRE).parent
    share = PIPEWIRE / "usr/share"
    environment |= {
        "LD_LIBRARY_PATH": str(libraries),
        "PIPEWIRE_CONFIG_DIR": str(share / "pipewire"),
        "PIPEWIRE_MODULE_DIR": str(libraries / "pipewire-0.3"),
        "SPA_PLUGIN_DIR": str(libraries / "spa-0.2"),
        "WIREPLUMBER_CONFIG_DIR": str(share / "wireplumber"),
        "WIREPLUMBER_DATA_DIR": str(share / "wireplumber"),
        "WIREPLUMBER_MODULE_DIR": str(next(libraries.glob("wireplumber-0.*"), libraries)),
    }
    return [bus, *([str(PIPEWIRE / "usr/bin" / name)] for name in names)]


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
    for name in ("run", "run/pulse", "home"):
        (folder / name).mkdir(mode=0o700)
    config = folder / "asound.conf"
    config.write_text("</usr/share/alsa/alsa.conf>\npcm.!default { type pulse hint.description Room }\n")
    return {
        **os.environ,
        "XDG_RUNTIME_DIR": str(folder / "run"),
        "HOME": str(folder / "home"),
        "PULSE_SERVER": f"unix:{folder / 'run' / 'pulse' / 'native'}",
        "ALSA_CONFIG_PATH": str(config),
    }
