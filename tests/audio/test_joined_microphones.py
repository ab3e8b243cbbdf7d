"""Several microphones as one. Real devices: tests/commands/test_mic.py."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from streamer.audio import microphone
from streamer.audio.decoder import Int16Samples
from streamer.audio.joined_microphones import JoinedMicrophones, Track
from streamer.audio.microphone import InputDevice, Microphone, MicrophoneError
from tests.audio.delivery import deliver

RATE = 16_000
# Both devices have delivered when the test begins to listen, but the audio of one is taken a little later.
LATE = RATE // 10
HEADSET = InputDevice(1, "USB Headset", 1, RATE)
OUTPUT = InputDevice(None, "Output", 2, 48_000, monitor=True)


async def gathered(recorder: JoinedMicrophones) -> Int16Samples:
    """All audio until the end."""
    return np.concatenate([chunk async for chunk in recorder.chunks()])


def level(samples: Int16Samples) -> float:
    """How loud the middle of it is; 1 is full scale."""
    return float(np.abs(samples[500:-500]).mean()) / 32768


@pytest.fixture(autouse=True)
def short_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recording ends soon after it is finished."""
    monkeypatch.setattr(microphone, "TAIL_S", 0.05)


async def test_each_device_is_a_channel() -> None:
    """Devices of different rates give as many seconds, each in its own column."""
    parts = [Microphone(HEADSET), Microphone(OUTPUT)]
    recorder = JoinedMicrophones(parts, separate=True)
    for _ in range(10):
        for part, loudness in zip(parts, (0.5, 0.25), strict=True):
            deliver(part, 0.05, loudness)
    recorder.finish()
    audio = await gathered(recorder)
    assert audio.shape == (pytest.approx(RATE / 2, abs=LATE), 2)
    assert [level(audio[-RATE // 4 :, each]) for each in range(2)] == pytest.approx([0.5, 0.25], abs=0.01)


async def test_devices_are_mixed() -> None:
    """Without channels of their own, the devices are one, as the channels of one device are."""
    parts = [Microphone(HEADSET), Microphone(HEADSET)]
    recorder = JoinedMicrophones(parts, separate=False)
    for part, loudness in zip(parts, (0.5, 0.25), strict=True):
        deliver(part, 0.5, loudness)
    recorder.finish()
    audio = await gathered(recorder)
    assert audio.shape == (pytest.approx(RATE / 2, abs=LATE),)
    assert level(audio[LATE:-LATE]) == pytest.approx(0.375, abs=0.01)


async def test_a_pause_of_both() -> None:
    """A pause is one of all devices: all before it is handed out, nothing of it is heard."""
    parts = [Microphone(HEADSET), Microphone(OUTPUT)]
    recorder = JoinedMicrophones(parts, separate=True)
    for part in parts:
        deliver(part, 0.5)
    recorder.paused = True
    assert all(part.paused for part in parts)
    assert recorder.paused
    chunks, before = recorder.chunks(), 0
    while not recorder.resting:
        before += len(await anext(chunks))
    assert before == pytest.approx(RATE / 2, abs=LATE)
    for part in parts:
        deliver(part, 0.5)
    recorder.paused = False
    for part in parts:
        deliver(part, 0.25)
    recorder.finish()
    after = np.concatenate([chunk async for chunk in chunks])
    assert not recorder.resting
    assert len(after) == pytest.approx(RATE / 4, abs=LATE)


async def test_a_device_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """When a device falls silent, the others end as well, and nothing of what they have recorded is lost."""
    monkeypatch.setattr(microphone, "SILENT_DEVICE_S", 1.5)  # more than may wait for the lost one
    heard, lost = Microphone(HEADSET), Microphone(OUTPUT)
    recorder = JoinedMicrophones([heard, lost], separate=True)
    received: list[Int16Samples] = []

    async def listen() -> None:
        async for chunk in recorder.chunks():
            received.append(chunk)

    deliver(lost, 0.2)
    loop = asyncio.get_running_loop()
    listening = asyncio.create_task(listen())
    began, seconds = loop.time(), 0.0
    while not listening.done():
        now_s = loop.time() - began
        deliver(heard, now_s - seconds)
        seconds = now_s
        await asyncio.sleep(0.05)
    with pytest.raises(MicrophoneError, match=r"Output has given no audio for 1\.5 s: it was unplugged"):
        await listening
    audio = np.concatenate(received)
    assert len(audio) == pytest.approx(seconds * RATE, abs=0.25 * RATE)
    assert level(audio[-RATE // 2 :, 0]) == pytest.approx(0.5, abs=0.01)
    assert not audio[-RATE // 2 :, 1].any()


# One device beside the time that has passed. Blocks of 50 ms.
BLOCK = np.full(RATE // 20, 1000, np.int16)


class Recording:
    """The track of a device, and all that was taken of it."""

    def __init__(self) -> None:
        self.track = Track()
        self.blocks: list[Int16Samples] = []

    def hear(self, at_s: float) -> None:
        """Let a block arrive at this time."""
        self.track.add(BLOCK, round(at_s * RATE), at_s)
        self.blocks.append(self.track.take(self.track.waiting))

    @property
    def samples(self) -> Int16Samples:
        """All of it."""
        return np.concatenate(self.blocks)

    @property
    def sound_s(self) -> float:
        """How much of it is sound."""
        return float(np.count_nonzero(self.samples)) / RATE

    @property
    def silence_s(self) -> float:
        """How much of it is silence."""
        return len(self.samples) / RATE - self.sound_s


def test_a_device_that_begins_later() -> None:
    """Silence stands for what it had not recorded yet."""
    recording = Recording()
    for number in range(20):
        recording.hear(2 + 0.05 * number)
    assert (recording.sound_s, recording.silence_s) == (pytest.approx(1), pytest.approx(1.95))
    assert not recording.samples[: RATE * 19 // 10].any()


def test_a_device_that_delivers_late() -> None:
    """Audio that waited somewhere is neither filled up nor left out."""
    recording = Recording()
    for number in range(400):
        late = 4 if 100 <= number < 180 else 0  # four seconds come at once
        recording.hear(max(0.05 * (number + 1), 5 + late) if late else 0.05 * (number + 1))
    assert (recording.sound_s, recording.silence_s) == (pytest.approx(20), 0)


def test_a_device_that_loses_audio() -> None:
    """Silence takes the place of a second that the device has dropped, so that the channels stay together."""
    recording = Recording()
    for number in range(400):
        recording.hear(0.05 * (number + 1) + (number >= 100))
    assert (recording.sound_s, recording.silence_s) == (pytest.approx(20), pytest.approx(1, abs=0.06))


@pytest.mark.parametrize("speed", [1.001, 0.999])
def test_a_clock_that_is_wrong(speed: float) -> None:
    """After 20 minutes a device has recorded a second too much or too little, and yet it has never left the time."""
    recording, length = Recording(), 0
    for number in range(24_000):
        at_s = 0.05 * (number + 1) / speed
        recording.hear(at_s)
        length += len(recording.blocks[-1])
        assert length / RATE == pytest.approx(at_s, abs=0.35)
