"""Choosing a microphone, and the audio it delivers. Real devices: tests/commands/test_mic.py."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from streamer.audio import microphone
from streamer.audio.decoder import Int16Samples
from streamer.audio.microphone import InputDevice, Inputs, Microphone, MicrophoneError
from tests.audio.delivery import OVERFLOW, deliver

BUILT_IN = InputDevice(0, "HDA Intel: ALC257 (hw:0,0)", 2, 48_000)
HEADSET = InputDevice(3, "USB Headset: Audio (hw:1,0)", 1, 44_100, default=True)
CAMERA = InputDevice(5, "USB Camera: Audio (hw:2,0)", 2, 48_000)
ALL = [BUILT_IN, HEADSET, CAMERA]


@pytest.mark.parametrize(
    ("wanted", "device"), [(None, HEADSET), ("5", CAMERA), ("headset", HEADSET), ("HDA", BUILT_IN), ("cam", CAMERA)]
)
def test_a_microphone_is_chosen(wanted: str | None, device: InputDevice) -> None:
    """A device is chosen by its number, by part of its name, or by the system."""
    assert Inputs(ALL).choose(wanted) is device


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("usb", "'usb' fits several microphones: 3 is USB Headset.*; 5 is USB Camera"),
        ("1", "there is no microphone '1': 0 is HDA Intel.*; 3 is"),
        ("bluetooth", "there is no microphone 'bluetooth'"),
    ],
)
def test_a_choice_that_is_none(wanted: str, words: str) -> None:
    """A refusal says which microphones there are."""
    with pytest.raises(MicrophoneError, match=words):
        Inputs(ALL).choose(wanted)


def test_a_whole_name_is_meant() -> None:
    """A full name is exact, even if it is part of another name."""
    default, other = InputDevice(1, "default", 2, 48_000), InputDevice(0, "default (front)", 2, 48_000)
    assert Inputs([other, default]).choose("Default") is default
    with pytest.raises(MicrophoneError, match="no microphone that PortAudio can see"):
        Inputs([]).choose(None)


def test_more_channels_than_there_are() -> None:
    """Too many channels are refused before the device is opened."""

    async def make() -> None:
        Microphone(HEADSET, 2)

    with pytest.raises(MicrophoneError, match="has 1 channels, not 2"):
        asyncio.run(make())


def test_a_device_that_cannot_be_opened() -> None:
    """A device that cannot be opened is refused with PortAudio's reason and our advice."""

    async def hear() -> None:
        with Microphone(InputDevice(99, "Webcam", 1, 44_100)):
            pass

    with pytest.raises(MicrophoneError, match=r"^Webcam cannot be opened \(.+\): another program may have it"):
        asyncio.run(hear())


async def gathered(heard: Microphone) -> Int16Samples:
    """All audio until the end."""
    return np.concatenate([chunk async for chunk in heard.chunks()])


async def test_audio_is_resampled_without_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audio at the rate of the device becomes as many seconds at 16 kHz; the last moment comes after the end."""
    monkeypatch.setattr(microphone, "TAIL_S", 0.05)
    heard = Microphone(HEADSET)
    for _ in range(20):
        deliver(heard, 0.05)
    heard.finish()
    deliver(heard, 0.05)
    audio = await gathered(heard)
    assert len(audio) == pytest.approx(16_000 * 1.05, abs=2)
    assert np.abs(audio[500:-500] - 16384).max() < 100


HEADSET_SOURCE = InputDevice(None, "alsa_input.usb-headset", 1, 44_100, description="USB Headset")
HEADSET_OUTPUT = InputDevice(
    None, "alsa_output.usb-headset.monitor", 2, 48_000, description="Monitor of USB Headset", monitor=True
)
SERVED = [*ALL, HEADSET_OUTPUT, HEADSET_SOURCE]


@pytest.mark.parametrize(
    ("wanted", "device"),
    [
        (None, HEADSET),
        ("headset", HEADSET_SOURCE),
        ("alsa_output.usb-headset.monitor", HEADSET_OUTPUT),
        ("monitor of usb", HEADSET_OUTPUT),
        ("usb headset", HEADSET_SOURCE),
        ("hw:1,0", HEADSET),
        ("camera", CAMERA),
    ],
)
def test_a_source_is_chosen(wanted: str | None, device: InputDevice) -> None:
    """A part of a name means the microphone before the output of the same headset, and through the server."""
    assert Inputs(SERVED).choose(wanted) is device


def test_a_choice_without_a_server() -> None:
    """The refusal says why no sources of a server are among the microphones; without PortAudio there is no default."""
    with pytest.raises(MicrophoneError, match=r"5 is USB Camera.*; none of PulseAudio or PipeWire, because of fog\.$"):
        Inputs(ALL, "of fog").choose("monitor")
    with pytest.raises(MicrophoneError, match="choose a source of the sound server by --device"):
        Inputs([HEADSET_SOURCE]).choose(None)


async def test_overflow_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses of the device are counted in times, those of our queue in seconds; the queue keeps the oldest audio."""
    monkeypatch.setattr(microphone, "MOST_WAITING_S", 0.5)
    heard = Microphone(HEADSET)
    for loudness in (0.5, 0.25):
        for _ in range(10):
            deliver(heard, 0.05, loudness, OVERFLOW)
    assert (heard.overflows, heard.lost_s) == (20, pytest.approx(0.5))
    heard.finish()
    audio = await gathered(heard)
    assert len(audio) == pytest.approx(8000, abs=2)
    assert np.abs(audio[500:-500] - 16384).max() < 100


async def test_a_pause_hands_out_what_came_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """During a pause audio is dropped and not counted as lost, but its level is shown."""
    heard = Microphone(HEADSET)
    deliver(heard, 0.5)
    chunks = heard.chunks()
    heard.paused = True
    audio = 0
    while not heard.resting:
        audio += len(await chunks.__anext__())
    assert audio == pytest.approx(8000, abs=2)
    deliver(heard, 0.5, 0.9)
    assert heard.peak() == pytest.approx(0.9)
    assert heard.peak() == 0
    heard.paused = False
    deliver(heard, 0.1)
    heard.finish()
    after = np.concatenate([chunk async for chunk in chunks])
    assert not heard.resting
    assert len(after) == pytest.approx(1600, abs=2)
    assert heard.lost_s == 0


async def test_a_device_that_falls_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that gives no audio for a while counts as gone."""
    monkeypatch.setattr(microphone, "SILENT_DEVICE_S", 0.6)
    heard = Microphone(HEADSET)
    deliver(heard, 0.5)
    received = []

    async def listen() -> None:
        async for chunk in heard.chunks():
            received.append(len(chunk))

    with pytest.raises(MicrophoneError, match=r"USB Headset.* has given no audio for 0\.6 s: it was unplugged"):
        await listen()
    assert sum(received) == pytest.approx(8000, abs=2)
