"""Sound from a microphone as int16 at 16 kHz, through PortAudio (the package `sounddevice`).

The device calls from a thread of its own. Between it and the event loop is one bounded queue; what does not fit is
counted, as is what the device itself had to throw away.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

import numpy as np

from streamer.audio.conversion import Block, Conversion, Samples
from streamer.distribution import install_command

BLOCK_S: Final = 0.05
# A connection that was lost is made again within 30 s, and what was said meanwhile comes after it.
MOST_WAITING_S: Final = 60.0
# A device that works gives sound all the time, if only silence. Some of them never say that they are gone.
SILENT_DEVICE_S: Final = 5.0
FIRST_SOUND_S: Final = 10.0
# What was said as the key went down is still on its way through the system.
TAIL_S: Final = 0.2

_IDLE_S: Final = 0.5
_MOST_AT_ONCE: Final = 20  # blocks; a queue that is long is emptied in pieces
NO_PORTAUDIO: Final = (
    "PortAudio, through which microphones are heard, is not installed: apt install libportaudio2 "
    "(Debian, Ubuntu), dnf install portaudio (Fedora), brew install portaudio (macOS)."
)
NO_SOUNDDEVICE: Final = f"microphones need the Python package sounddevice: {install_command('mic')}."
NO_DEVICE: Final = (
    "this machine has no microphone that PortAudio can see: plug one in, or hand it in (a container, SSH); "
    "where sound goes through PulseAudio or PipeWire, apt install libasound2-plugins."
)


class MicrophoneError(Exception):
    """What is wrong with the microphone, in one sentence for the person before it."""


@dataclass(frozen=True)
class Device:
    """A microphone, or whatever else gives sound."""

    number: int
    name: str
    channels: int
    sample_rate: int
    default: bool = False


def devices() -> list[Device]:
    """All that give sound; MicrophoneError if nobody could know."""
    with quiet_libraries():
        portaudio = _portaudio()
        apis = [api["default_input_device"] for api in portaudio.query_hostapis()]
        default = next((number for number in apis if number >= 0), -1)
        return [
            Device(
                number,
                found["name"],
                found["max_input_channels"],
                round(found["default_samplerate"]),
                number == default,
            )
            for number, found in enumerate(portaudio.query_devices())
            if found["max_input_channels"] > 0
        ]


def choose(found: Sequence[Device], wanted: str | None) -> Device:
    """The device with this number, or whose name has this part; the system's own choice if nothing is wanted."""
    if not found:
        raise MicrophoneError(NO_DEVICE)
    if wanted is None:
        return next((device for device in found if device.default), found[0])
    if wanted.isdecimal():
        fitting = [device for device in found if device.number == int(wanted)]
    else:
        fitting = [device for device in found if wanted.lower() in device.name.lower()]
        fitting = [device for device in fitting if wanted.lower() == device.name.lower()] or fitting
    if len(fitting) == 1:
        return fitting[0]
    named = "; ".join(f"{device.number} is {device.name}" for device in fitting or found)
    if fitting:
        raise MicrophoneError(f"'{wanted}' fits several microphones: {named}.")
    raise MicrophoneError(f"there is no microphone '{wanted}': {named}.")


class Microphone:
    """One device, heard from entry to exit; made and used in an event loop.

    Iterate over `blocks()` once. Other members may be used meanwhile.
    """

    def __init__(self, device: Device, channels: int = 1, *, separate: bool = False) -> None:
        """`channels` of the device are heard and mixed, or kept apart: then blocks are [samples, channels]."""
        if channels > device.channels:
            raise MicrophoneError(f"{device.name} has {device.channels} channels, not {channels}.")
        self.device = device
        self.overflows = 0  # times that the device or the system had to throw sound away
        self.paused = False
        self.resting = False  # a pause has begun: all that was said before it has been handed out
        self._channels = channels
        self._separate = separate
        self._peak = 0.0
        self._lost = self._put = self._taken = 0  # frames
        self._waiting: deque[Samples] = deque()
        self._arrived = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._ending = self._ended = False
        self._gone = ""
        self._stream: Any = None

    def __enter__(self) -> Microphone:
        self._stream = self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending = self._ended = True
        # Of a device that is gone PortAudio may know nothing any more.
        with suppress(Exception):
            self._stream.abort()
        with suppress(Exception):
            self._stream.close()

    @property
    def lost_s(self) -> float:
        """How much sound did not fit into the queue, as nobody fetched it."""
        return self._lost / self.device.sample_rate

    def peak(self) -> float:
        """The loudest sample since the last time that this was asked; 1 is as loud as it gets."""
        peak, self._peak = self._peak, 0.0
        return peak

    def finish(self) -> None:
        """Ends the sound in a moment; what has been heard is still handed out."""
        if not self._ending:
            self._ending = True
            self._loop.call_later(TAIL_S, self._end)

    async def blocks(self) -> AsyncGenerator[Block, None]:
        """The sound as it comes; an empty block when there has been none for a while.

        Raises MicrophoneError at the end if the device has gone.
        """
        nothing, conversion = np.empty((0, self._channels), np.float32), self._conversion()
        heard, patience = self._loop.time(), FIRST_SOUND_S
        while True:
            if samples := self._take():
                heard, patience, self.resting = self._loop.time(), SILENT_DEVICE_S, False
                yield self._shaped(conversion.convert(np.concatenate(samples)))
                continue
            if self._ended:
                break
            if self.paused:
                if not self.resting:
                    # After the pause something else begins: the filter must not join them.
                    self.resting, rest = True, conversion.convert(nothing, last=True)
                    conversion = self._conversion()
                    yield self._shaped(rest)
                heard = self._loop.time()
            elif self._loop.time() - heard > patience:
                self._gone, self._ended = f"has given no sound for {patience:g} s", True
            await self._wait()
            if not self._waiting:
                yield self._shaped(conversion.convert(nothing))
        yield self._shaped(conversion.convert(nothing, last=True))
        if self._gone:
            raise MicrophoneError(f"{self.device.name} {self._gone}: it was unplugged, or the sound system ended.")

    def _open(self) -> Any:
        portaudio = _portaudio()
        try:
            stream = portaudio.InputStream(
                device=self.device.number,
                channels=self._channels,
                samplerate=self.device.sample_rate,
                blocksize=round(self.device.sample_rate * BLOCK_S),
                dtype="float32",
                callback=self._heard,
                finished_callback=self._stopped,
            )
            stream.start()
        except portaudio.PortAudioError as error:
            reason = str(error.args[0]).rpartition(": ")[2].partition(" [")[0]
            busy = "another program may have it, or another device has to be chosen (--devices lists them)"
            raise MicrophoneError(f"{self.device.name} cannot be opened ({reason}): {busy}.") from error
        return stream

    def _heard(self, samples: Samples, frames: int, times: Any, status: Any) -> None:
        """Called by PortAudio in its own thread."""
        if self._ended:
            return
        if status.input_overflow:
            self.overflows += 1
        self._peak = max(self._peak, float(np.abs(samples).max(initial=0.0)))
        if not self.paused:
            if self._put - self._taken + frames > MOST_WAITING_S * self.device.sample_rate:
                self._lost += frames
            else:
                self._put += frames
                self._waiting.append(samples.copy())
        self._wake()

    def _stopped(self) -> None:
        """Called by PortAudio in its own thread."""
        if not self._ending:
            self._gone, self._ended = "is gone", True
            self._wake()

    def _wake(self) -> None:
        with suppress(RuntimeError):  # the loop is closed already
            self._loop.call_soon_threadsafe(self._arrived.set)

    def _end(self) -> None:
        self._ended = True
        self._arrived.set()

    def _take(self) -> list[Samples]:
        taken: list[Samples] = []
        while self._waiting and len(taken) < _MOST_AT_ONCE:
            taken.append(self._waiting.popleft())
            self._taken += len(taken[-1])
        return taken

    async def _wait(self) -> None:
        """Until there is sound, or for a while."""
        # Not with wait_for: before Python 3.12 it can swallow a cancellation.
        timer = self._loop.call_later(_IDLE_S, self._arrived.set)
        try:
            await self._arrived.wait()
        finally:
            timer.cancel()
            self._arrived.clear()

    def _conversion(self) -> Conversion:
        return Conversion(self.device.sample_rate, self._channels, separate=self._separate)

    def _shaped(self, block: Block) -> Block:
        return block if self._separate else block[:, 0]


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Keeps what PortAudio and ALSA write to descriptor 2 by themselves off the terminal.

    Meanwhile sys.stderr is another stream to the same place: whoever keeps it must fetch it in here.
    """
    own = sys.stderr
    try:
        own.flush()
        kept = os.dup(2)
    except (OSError, ValueError):  # it is closed: nothing is there to keep clean
        yield
        return
    redirected = _descriptor(own) == 2
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 2)
    os.close(silence)
    if redirected:
        sys.stderr = os.fdopen(os.dup(kept), "w", encoding=own.encoding, errors=own.errors, buffering=1)
    try:
        yield
    finally:
        if redirected:
            with suppress(OSError):  # the terminal is gone, with whatever was not written yet
                sys.stderr.close()
            sys.stderr = own
        os.dup2(kept, 2)
        os.close(kept)


def _portaudio() -> Any:
    """The package sounddevice, which looks for PortAudio and its devices when it is imported."""
    try:
        import sounddevice  # type: ignore[import-untyped]
    except ImportError as error:
        raise MicrophoneError(NO_SOUNDDEVICE) from error
    except OSError as error:
        raise MicrophoneError(NO_PORTAUDIO) from error
    except Exception as error:  # PortAudio's own, which there is no name for before the import
        raise MicrophoneError(f"PortAudio cannot start: {error}.") from error
    return sounddevice


def _descriptor(stream: Any) -> int:
    try:
        return int(stream.fileno())
    except (OSError, ValueError, AttributeError):
        return -1
