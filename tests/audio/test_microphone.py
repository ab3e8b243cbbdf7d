"""Microphones by name, and what becomes of the sound that a device delivers. Real ones: tests/commands/test_mic.py."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import sounddevice

from streamer.audio import microphone
from streamer.audio.conversion import Block
from streamer.audio.microphone import Device, Microphone, MicrophoneError, choose

BUILT_IN = Device(0, "HDA Intel: ALC257 (hw:0,0)", 2, 48_000)
HEADSET = Device(3, "USB Headset: Audio (hw:1,0)", 1, 44_100, default=True)
CAMERA = Device(5, "USB Camera: Audio (hw:2,0)", 2, 48_000)
ALL = [BUILT_IN, HEADSET, CAMERA]
FINE, OVERFLOW = sounddevice.CallbackFlags(0), sounddevice.CallbackFlags(2)


@pytest.mark.parametrize(
    ("wanted", "device"), [(None, HEADSET), ("5", CAMERA), ("headset", HEADSET), ("HDA", BUILT_IN), ("cam", CAMERA)]
)
def test_a_microphone_is_chosen(wanted: str | None, device: Device) -> None:
    """By its number, by a part of its name in any case, or by the system."""
    assert choose(ALL, wanted) is device


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("usb", "'usb' fits several microphones: 3 is USB Headset.*; 5 is USB Camera"),
        ("1", "there is no microphone '1': 0 is HDA Intel.*; 3 is"),
        ("bluetooth", "there is no microphone 'bluetooth'"),
    ],
)
def test_a_choice_that_is_none(wanted: str, words: str) -> None:
    """The sentence says which there are."""
    with pytest.raises(MicrophoneError, match=words):
        choose(ALL, wanted)


def test_a_whole_name_is_meant() -> None:
    """Also if it is a part of another."""
    default, other = Device(1, "default", 2, 48_000), Device(0, "default (front)", 2, 48_000)
    assert choose([other, default], "Default") is default
    with pytest.raises(MicrophoneError, match="no microphone that PortAudio can see"):
        choose([], None)


def test_more_channels_than_there_are() -> None:
    """They are refused before anything is opened."""

    async def make() -> None:
        Microphone(HEADSET, 2)

    with pytest.raises(MicrophoneError, match="has 1 channels, not 2"):
        asyncio.run(make())


def test_a_device_that_cannot_be_opened() -> None:
    """The reason is PortAudio's, the advice ours."""

    async def hear() -> None:
        with Microphone(Device(99, "Webcam", 1, 44_100)):
            pass

    with pytest.raises(MicrophoneError, match=r"^Webcam cannot be opened \(.+\): another program may have it"):
        asyncio.run(hear())


def deliver(heard: Microphone, seconds: float, loudness: float = 0.5, status: object = FINE) -> None:
    """A block, as PortAudio hands it over."""
    frames = round(seconds * heard.device.sample_rate)
    samples = np.full((frames, 1), loudness, np.float32)
    heard._heard(samples, frames, None, status)


async def gathered(heard: Microphone) -> Block:
    """All sound until the end."""
    return np.concatenate([block async for block in heard.blocks()])


async def test_sound_is_resampled_without_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a device at its own rate become as many seconds at 16 kHz; the last moment comes after the end."""
    monkeypatch.setattr(microphone, "TAIL_S", 0.05)
    heard = Microphone(HEADSET)
    for _ in range(20):
        deliver(heard, 0.05)
    heard.finish()
    deliver(heard, 0.05)
    sound = await gathered(heard)
    assert len(sound) == pytest.approx(16_000 * 1.05, abs=2)
    assert np.abs(sound[500:-500] - 16384).max() < 100


async def test_overflow_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the device by times, that of our own queue by seconds; the queue keeps what was said first."""
    monkeypatch.setattr(microphone, "MOST_WAITING_S", 0.5)
    heard = Microphone(HEADSET)
    for loudness in (0.5, 0.25):
        for _ in range(10):
            deliver(heard, 0.05, loudness, OVERFLOW)
    assert (heard.overflows, heard.lost_s) == (20, pytest.approx(0.5))
    heard.finish()
    sound = await gathered(heard)
    assert len(sound) == pytest.approx(8000, abs=2)
    assert np.abs(sound[500:-500] - 16384).max() < 100


async def test_a_pause_hands_out_what_came_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it rests; what comes during it is dropped and not counted as lost, though its level is seen."""
    heard = Microphone(HEADSET)
    deliver(heard, 0.5)
    blocks = heard.blocks()
    heard.paused = True
    sound = 0
    while not heard.resting:
        sound += len(await blocks.__anext__())
    assert sound == pytest.approx(8000, abs=2)
    deliver(heard, 0.5, 0.9)
    assert heard.peak() == pytest.approx(0.9)
    assert heard.peak() == 0
    heard.paused = False
    deliver(heard, 0.1)
    heard.finish()
    after = np.concatenate([block async for block in blocks])
    assert not heard.resting
    assert len(after) == pytest.approx(1600, abs=2)
    assert heard.lost_s == 0


async def test_a_device_that_falls_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some never say that they are gone: after a while without any sound it is taken for that."""
    monkeypatch.setattr(microphone, "SILENT_DEVICE_S", 0.6)
    heard = Microphone(HEADSET)
    deliver(heard, 0.5)
    received = []

    async def listen() -> None:
        async for block in heard.blocks():
            received.append(len(block))

    with pytest.raises(MicrophoneError, match=r"USB Headset.* has given no sound for 0\.6 s: it was unplugged"):
        await listen()
    assert sum(received) == pytest.approx(8000, abs=2)
