"""Sources of a real PulseAudio and PipeWire: they are listed, and a recording of one is of nothing else."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from streamer.audio.decoder import FloatSamples
from streamer.audio.sound_server import (
    NoSoundServerError,
    SoundServerError,
    Source,
    SourceStream,
    parse_sources,
    sources,
)
from tests.virtual_microphone import SINK, Room, SoundSystem, room

PATIENCE_S = 60
MONITOR = f"{SINK}.monitor"
OTHER = "other"


@pytest.fixture(params=SoundSystem)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Room]:
    """A room of its own, of which this process is a client."""
    with room(tmp_path, request.param) as opened:
        for name, value in opened.environment.items():
            monkeypatch.setenv(name, value)
        yield opened


class Tape:
    """What a stream records."""

    def __init__(self, name: str = MONITOR, channels: int = 1) -> None:
        self.loudest = np.zeros(channels)
        self.has_sound = threading.Event()
        self.is_loud = threading.Event()
        self.has_ended = threading.Event()
        self.stream = SourceStream(name, channels, 48_000, self._take, self.has_ended.set)

    def _take(self, samples: FloatSamples) -> None:
        self.loudest = np.maximum(self.loudest, np.abs(samples).max(axis=0))
        self.has_sound.set()
        if self.loudest.max() > 0.1:
            self.is_loud.set()


def tone(path: Path, seconds: float) -> Path:
    """A loud tone on the left, silence on the right."""
    left = 0.8 * np.sin(np.arange(round(48_000 * seconds)) * 0.05)
    soundfile.write(path, np.stack([left, 0 * left], axis=1), 48_000)
    return path


def test_sources_are_listed(place: Room) -> None:
    """A source has its name, its description in any alphabet, its form, and whether it is a monitor."""
    place.add_output(OTHER, "Kopfhörer")
    first, second = sources()
    assert first == Source(MONITOR, "Monitor of Null Output", 2, 48_000, monitor=True)
    assert second == Source(f"{OTHER}.monitor", "Monitor of Kopfhörer", 2, 48_000, monitor=True)


def test_a_microphone_is_no_monitor() -> None:
    """What `pactl` says of a microphone, and of an entry that cannot be read."""
    text = (
        "Source #1\n\tState: RUNNING\n\tName: alsa_input.usb\n\tDescription: USB: 2 m\n\tDriver: PipeWire\n"
        "\tSample Specification: s24le 4ch 96000Hz\n\tMonitor of Sink: n/a\n\tProperties:\n\t\tName: no\n\n"
        "Source #2\n\tName: strange\n\tDescription: (null)\n\tSample Specification: unknown\n\tMonitor of Sink: n/a\n"
    )
    assert parse_sources(text) == [Source("alsa_input.usb", "USB: 2 m", 4, 96_000, monitor=False)]


def test_what_an_output_plays_is_recorded(place: Room, tmp_path: Path) -> None:
    """Channels come in their order, until the recording is closed."""
    tape = Tape(channels=2)
    assert tape.has_sound.wait(PATIENCE_S)
    playing = place.play(tone(tmp_path / "tone.wav", 30))
    assert tape.is_loud.wait(PATIENCE_S)
    playing.kill()
    playing.wait()
    tape.stream.abort()
    tape.stream.close()
    assert tape.has_ended.is_set()
    assert tape.loudest[0] > 0.1
    assert tape.loudest[1] < 0.01


def test_a_source_that_is_gone_is_not_replaced(place: Room, tmp_path: Path) -> None:
    """The server goes on with another source by itself; nothing of that is heard, and the recording ends."""
    place.add_output(OTHER, "Other")
    tape = Tape()
    assert tape.has_sound.wait(PATIENCE_S)
    with place.play(tone(tmp_path / "tone.wav", 30), OTHER) as playing:
        witness = Tape(f"{OTHER}.monitor")
        assert witness.is_loud.wait(PATIENCE_S)
        place.unplug()
        assert tape.has_ended.wait(PATIENCE_S)
        playing.kill()
    assert not tape.loudest.any()
    for each in (tape, witness):
        each.stream.close()


@pytest.mark.usefixtures("place")
def test_a_source_that_never_was() -> None:
    """A recording of an unknown source ends at once."""
    tape = Tape("theremin")
    assert tape.has_ended.wait(PATIENCE_S)
    tape.stream.close()
    assert not tape.has_sound.is_set()


@pytest.mark.parametrize("system", SoundSystem)
def test_a_server_that_ends(system: SoundSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording ends with its server, and then there are no sources."""
    with room(tmp_path, system) as place:
        for name, value in place.environment.items():
            monkeypatch.setenv(name, value)
        tape = Tape()
        assert tape.has_sound.wait(PATIENCE_S)
    assert tape.has_ended.wait(PATIENCE_S)
    tape.stream.close()
    with pytest.raises(NoSoundServerError, match="no PulseAudio and no PipeWire answers"):
        sources()


def test_a_search_starts_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where clients start PulseAudio by themselves, to list sources still does not."""
    for name in ("run", "home"):
        (tmp_path / name).mkdir(mode=0o700)
    monkeypatch.delenv("PULSE_SERVER", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with pytest.raises(NoSoundServerError):
        sources()
    assert not list((tmp_path / "run").rglob("native"))


def test_programs_that_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is named if there seems to be a server; without one there is nothing to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("PULSE_SERVER", raising=False)
    with pytest.raises(NoSoundServerError):
        sources()
    (tmp_path / "pulse").mkdir()
    (tmp_path / "pulse" / "native").touch()
    names = r"^pactl and parec are not installed \(apt install pulseaudio-utils\)$"
    with pytest.raises(SoundServerError, match=names):
        sources()
    with pytest.raises(SoundServerError, match=names):
        Tape()


def test_a_server_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not answer is not waited for."""
    monkeypatch.setattr("streamer.audio.sound_server._LISTING_S", 0.5)
    for name in ("pactl", "parec"):
        (tmp_path / name).write_text("#!/bin/sh\nexec sleep 60\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(SoundServerError, match=r"^the sound server has not answered for 0\.5 s$"):
        sources()
