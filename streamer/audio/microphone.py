"""Audio from a microphone as int16 at 16 kHz, through PortAudio (the package `sounddevice`) or a sound server.

The device delivers audio in a thread of its own. A bounded queue passes it to the event loop. Audio that does not fit
is dropped and counted, as is audio that the device itself dropped.
"""

from __future__ import annotations

import asyncio
import os
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

import numpy as np

from streamer.audio.decoder import FloatSamples, Int16Samples, SampleConverter
from streamer.audio.sound_server import NoSoundServerError, SoundServerError, SourceStream, sources
from streamer.base.package import install_command

CHUNK_S: Final = 0.05
# A lost connection is restored within 30 s. Audio of that time waits here, and is sent afterwards.
MOST_WAITING_S: Final = 60.0
# A working device gives audio all the time, even if it is silence. Some devices do not report that they were unplugged.
SILENT_DEVICE_S: Final = 5.0
FIRST_AUDIO_S: Final = 10.0
# After the key press that ends it, earlier audio needs this time to pass through the system.
TAIL_S: Final = 0.2

_IDLE_S: Final = 0.5
_MOST_AT_ONCE: Final = 20  # chunks; a long queue is emptied in several rounds
NO_PORTAUDIO: Final = (
    "PortAudio, which microphones need, is not installed: apt install libportaudio2 "
    "(Debian, Ubuntu), dnf install portaudio (Fedora), brew install portaudio (macOS)."
)
NO_SOUNDDEVICE: Final = f"microphones need the Python package sounddevice: {install_command('mic')}."
NO_DEVICE: Final = (
    "this machine has no microphone that PortAudio can see: plug one in, or let the container or SSH session use it; "
    "if audio goes through PulseAudio or PipeWire, apt install libasound2-plugins."
)
NO_DEFAULT: Final = (
    "PortAudio, which knows the default microphone, has no device: choose a source of the sound server by --device "
    "(--devices lists them)."
)


class MicrophoneError(Exception):
    """The microphone cannot be used. The message is a sentence for the user."""


@dataclass(frozen=True)
class InputDevice:
    """A microphone, or another device that gives audio."""

    number: int | None  # PortAudio's; a source of a sound server has none
    name: str
    channels: int
    sample_rate: int
    default: bool = False
    description: str = ""  # of a source
    monitor: bool = False  # it has what an output of this machine plays

    @property
    def label(self) -> str:
        """What a message calls it: the values that `--device` takes."""
        return f"{self.number} is {self.name}" if self.number is not None else f"{self.name} is {self.description}"


@dataclass(frozen=True)
class Inputs:
    """All that can be listened to on this machine."""

    devices: Sequence[InputDevice]
    no_server: str = ""  # why there are no sources of a sound server
    incomplete: bool = False  # there seems to be a server

    def choose(self, choice: str | None) -> InputDevice:
        """Return the device with this number or name, or part of a name. Without one, the system's default."""
        if not self.devices:
            raise MicrophoneError(NO_DEVICE)
        if choice is None:
            own = [device for device in self.devices if device.number is not None]
            if not own:
                raise MicrophoneError(NO_DEFAULT)
            return next((device for device in own if device.default), own[0])
        suitable = self._suitable(choice.lower())
        if len(suitable) == 1:
            return suitable[0]
        names = "; ".join(device.label for device in suitable or self.devices)
        if suitable:
            raise MicrophoneError(f"'{choice}' fits several microphones: {names}.")
        missing = f"; none of PulseAudio or PipeWire, because {self.no_server}" if self.no_server else ""
        raise MicrophoneError(f"there is no microphone '{choice}': {names}{missing}.")

    def _suitable(self, choice: str) -> list[InputDevice]:
        exact = [device for device in self.devices if choice in (device.name.lower(), device.description.lower())]
        if exact:
            return exact
        if choice.isdecimal():
            return [device for device in self.devices if device.number == int(choice)]
        partial = [device for device in self.devices if choice in f"{device.name}\n{device.description}".lower()]
        # A headset is found as a source, as its monitor and by PortAudio. The microphone is meant, and through the
        # server, because then other programs can use it too.
        for number, monitor in ((False, False), (True, False), (False, True)):
            if best := [each for each in partial if (each.number is not None, each.monitor) == (number, monitor)]:
                return best
        return []


def input_devices() -> Inputs:
    """Return all input devices. MicrophoneError if there are none because PortAudio cannot be used."""
    no_server, incomplete = "", False
    failure: MicrophoneError | None = None
    devices: list[InputDevice] = []
    try:
        devices = _portaudio_devices()
    except MicrophoneError as error:
        failure = error
    try:
        devices += [
            InputDevice(
                None,
                source.name,
                source.channels,
                source.sample_rate,
                description=source.description,
                monitor=source.monitor,
            )
            for source in sources()
        ]
    except SoundServerError as error:
        no_server, incomplete = str(error), not isinstance(error, NoSoundServerError)
    if failure and not devices:
        raise failure
    return Inputs(devices, no_server, incomplete)


def _portaudio_devices() -> list[InputDevice]:
    with quiet_libraries():
        portaudio = _portaudio()
        apis = [api["default_input_device"] for api in portaudio.query_hostapis()]
        default = next((number for number in apis if number >= 0), -1)
        return [
            InputDevice(
                number,
                device["name"],
                device["max_input_channels"],
                round(device["default_samplerate"]),
                number == default,
            )
            for number, device in enumerate(portaudio.query_devices())
            if device["max_input_channels"] > 0
        ]


class Recorder(ABC):
    """Records between entry and exit of the context: one device, or several as one.

    Iterate over `chunks()` once. Other members may be used meanwhile.
    """

    parts: Sequence[Microphone]
    paused: bool
    resting: bool  # a pause has begun, and `chunks` has yielded all audio before it

    @abstractmethod
    def __enter__(self) -> Recorder: ...

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @abstractmethod
    def finish(self) -> None:
        """End the recording in a moment. `chunks` still yields all audio until then."""

    @abstractmethod
    def chunks(self) -> AsyncGenerator[Int16Samples, None]:
        """Yield the audio as it comes, with an empty chunk when there has been none for a while.

        Raises MicrophoneError at the end if a device was lost.
        """


class Microphone(Recorder):
    """One device. Made and used in an event loop."""

    def __init__(self, device: InputDevice, channels: int = 1, *, separate: bool = False) -> None:
        """Record `channels` of the device and mix them. With `separate`, chunks are [samples, channels]."""
        if channels > device.channels:
            raise MicrophoneError(f"{device.name} has {device.channels} channels, not {channels}.")
        self.device = device
        self.parts = (self,)
        self.overflows = 0  # how often the device or the system dropped audio
        self.paused = False
        self.resting = False
        self._channels = channels
        self._separate = separate
        self._peak = 0.0
        self._frames_lost = self._frames_put = self._frames_taken = 0
        self._waiting: deque[FloatSamples] = deque()
        self._arrived = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._ending = self._ended = False
        self._failure = ""
        self._stream: Any = None

    def __enter__(self) -> Microphone:
        self._stream = self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending = self._ended = True
        # PortAudio may not know a device that is gone.
        with suppress(Exception):
            self._stream.abort()
        with suppress(Exception):
            self._stream.close()

    @property
    def lost_s(self) -> float:
        """How much audio was dropped because the queue was full."""
        return self._frames_lost / self.device.sample_rate

    def peak(self) -> float:
        """Return the loudest sample since the last call; 1 is full scale."""
        peak, self._peak = self._peak, 0.0
        return peak

    def finish(self) -> None:
        """End the recording in a moment. `chunks` still yields all audio until then."""
        if not self._ending:
            self._ending = True
            self._loop.call_later(TAIL_S, self._end)

    async def chunks(self) -> AsyncGenerator[Int16Samples, None]:
        """Yield the audio as it comes, with an empty chunk when there has been none for a while.

        Raises MicrophoneError at the end if the device was lost.
        """
        nothing, converter = np.empty((0, self._channels), np.float32), self._converter()
        last_audio, patience = self._loop.time(), FIRST_AUDIO_S
        while True:
            if samples := self._take():
                last_audio, patience, self.resting = self._loop.time(), SILENT_DEVICE_S, False
                yield self._reshape(converter.convert(np.concatenate(samples)))
                continue
            if self._ended:
                break
            if self.paused:
                if not self.resting:
                    # Audio after the pause is not continuous with audio before it, so the filter must start anew.
                    self.resting, rest = True, converter.convert(nothing, last=True)
                    converter = self._converter()
                    yield self._reshape(rest)
                last_audio = self._loop.time()
            elif self._loop.time() - last_audio > patience:
                self._failure, self._ended = f"has given no audio for {patience:g} s", True
            await self._wait()
            if not self._waiting:
                yield self._reshape(converter.convert(nothing))
        yield self._reshape(converter.convert(nothing, last=True))
        if self._failure:
            raise MicrophoneError(f"{self.device.name} {self._failure}: it was unplugged, or the sound system ended.")

    def _open(self) -> Any:
        if self.device.number is None:
            try:
                return SourceStream(
                    self.device.name, self._channels, self.device.sample_rate, self._take_in, self._on_stop
                )
            except SoundServerError as error:
                raise MicrophoneError(f"{self.device.name} cannot be opened: {error}.") from error
        portaudio = _portaudio()
        try:
            stream = portaudio.InputStream(
                device=self.device.number,
                channels=self._channels,
                samplerate=self.device.sample_rate,
                blocksize=round(self.device.sample_rate * CHUNK_S),
                dtype="float32",
                callback=self._on_audio,
                finished_callback=self._on_stop,
            )
            stream.start()
        except portaudio.PortAudioError as error:
            reason = str(error.args[0]).rpartition(": ")[2].partition(" [")[0]
            busy = "another program may have it, or another device has to be chosen (--devices lists them)"
            raise MicrophoneError(f"{self.device.name} cannot be opened ({reason}): {busy}.") from error
        return stream

    def _on_audio(self, samples: FloatSamples, frames: int, times: Any, status: Any) -> None:
        """Take samples. PortAudio calls this in its own thread."""
        if status.input_overflow and not self._ended:
            self.overflows += 1
        self._take_in(samples.copy())  # PortAudio uses its memory again

    def _take_in(self, samples: FloatSamples) -> None:
        """Keep samples until `chunks` takes them. Called in a thread of the device."""
        if self._ended:
            return
        frames = len(samples)
        self._peak = max(self._peak, float(np.abs(samples).max(initial=0.0)))
        if not self.paused:
            if self._frames_put - self._frames_taken + frames > MOST_WAITING_S * self.device.sample_rate:
                self._frames_lost += frames
            else:
                self._frames_put += frames
                self._waiting.append(samples)
        self._wake()

    def _on_stop(self) -> None:
        """Note that the stream has ended. Called in a thread of the device."""
        if not self._ending:
            self._failure, self._ended = "is gone", True
            self._wake()

    def _wake(self) -> None:
        with suppress(RuntimeError):  # the loop is closed already
            self._loop.call_soon_threadsafe(self._arrived.set)

    def _end(self) -> None:
        self._ended = True
        self._arrived.set()

    def _take(self) -> list[FloatSamples]:
        blocks: list[FloatSamples] = []
        while self._waiting and len(blocks) < _MOST_AT_ONCE:
            blocks.append(self._waiting.popleft())
            self._frames_taken += len(blocks[-1])
        return blocks

    async def _wait(self) -> None:
        """Wait until there is audio, or for a while."""
        # Not with wait_for: before Python 3.12 it can swallow a cancellation.
        timer = self._loop.call_later(_IDLE_S, self._arrived.set)
        try:
            await self._arrived.wait()
        finally:
            timer.cancel()
            self._arrived.clear()

    def _converter(self) -> SampleConverter:
        return SampleConverter(self.device.sample_rate, self._channels, separate=self._separate)

    def _reshape(self, chunk: Int16Samples) -> Int16Samples:
        return chunk if self._separate else chunk[:, 0]


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Hide what PortAudio and ALSA write to descriptor 2, so that it does not disturb the terminal.

    Meanwhile sys.stderr is another stream to the same file. So code must look up sys.stderr inside.
    """
    own = sys.stderr
    try:
        own.flush()
        duplicate = os.dup(2)
    except (OSError, ValueError):  # it is closed, so no output can disturb the terminal
        yield
        return
    redirected = _descriptor(own) == 2
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 2)
    os.close(silence)
    if redirected:
        sys.stderr = os.fdopen(os.dup(duplicate), "w", encoding=own.encoding, errors=own.errors, buffering=1)
    try:
        yield
    finally:
        if redirected:
            with suppress(OSError):  # the terminal is gone, and with it the text that was not written yet
                sys.stderr.close()
            sys.stderr = own
        os.dup2(duplicate, 2)
        os.close(duplicate)


def _portaudio() -> Any:
    """Return the package sounddevice. Its import looks for PortAudio and its devices."""
    try:
        import sounddevice  # type: ignore[import-untyped]
    except ImportError as error:
        raise MicrophoneError(NO_SOUNDDEVICE) from error
    except OSError as error:
        raise MicrophoneError(NO_PORTAUDIO) from error
    except Exception as error:  # an exception of PortAudio; its class is only known after the import
        raise MicrophoneError(f"PortAudio cannot start: {error}.") from error
    return sounddevice


def _descriptor(stream: Any) -> int:
    try:
        return int(stream.fileno())
    except (OSError, ValueError, AttributeError):
        return -1
