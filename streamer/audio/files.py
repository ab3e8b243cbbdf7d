"""Recordings and piped sound, read block by block as int16 at 16 kHz, mixed or each channel on its own.

A recording of any length needs the memory of one block. How the blocks are cut changes no sample.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final

import numpy as np
import numpy.typing as npt
import soundfile  # type: ignore[import-untyped]

from streamer.audio.codecs import Decoder
from streamer.audio.conversion import SAMPLE_RATE as SAMPLE_RATE
from streamer.audio.conversion import Block as Block
from streamer.audio.conversion import Conversion
from streamer.audio.ffmpeg import FfmpegSound, is_installed
from streamer.audio.recording import THROUGH_FFMPEG, AudioError, open_recording

MOST_CHANNELS: Final = 8  # that can be recognised each on its own
READABLE: Final = "WAV, FLAC, OGG/Opus and MP3"

_BLOCK_SECONDS: Final = 0.5
# Outside of this a header is nonsense, and resampling one block could take any amount of memory.
_RATES: Final = range(1_000, 768_001)
_MISSING_SECONDS: Final = 1.0  # MP3 frame counts may be a little off; more than this is a damaged file
_PIPE_PATIENCE_S: Final = 0.5
_PIPE_BYTES: Final = 16_000
_CONTAINERS: Final = (b"RIFF", b"RF64", b"fLaC", b"OggS", b"ID3")


class AudioFile:
    """One recording, open for reading; a context manager."""

    def __init__(self, path: str | os.PathLike[str], *, separate: bool = False) -> None:
        """With `separate` blocks are [samples, channels], a recording of one channel too; otherwise they are mixed."""
        self.name = os.fspath(path)
        self._separate = separate
        self._file = open_recording(self.name)
        try:
            # By descriptor, not by name: libsndfile would otherwise believe the ending of the name, and its
            # MP3 decoder writes to standard error about a text file that is called .mp3.
            self._sound: _Forward | FfmpegSound = _Forward(self._file.fileno(), closefd=False)
        except soundfile.SoundFileError:
            self._file.close()
            self._sound = _through_ffmpeg(self.name)
        if self._sound.samplerate not in _RATES:
            self.close()
            raise AudioError(f"{self.name} has a damaged header: {self._sound.samplerate} samples a second.")
        if self._sound.seconds == 0:
            self.close()
            raise AudioError(f"{self.name} holds no sound: its header is there, but not one sample.")
        if separate and self.channels > MOST_CHANNELS:
            self.close()
            most = f"at most {MOST_CHANNELS} can be recognised separately"
            raise AudioError(f"{self.name} has {self.channels} channels, and {most}: mix them.")

    @property
    def channels(self) -> int:
        """How many channels the recording has."""
        return int(self._sound.channels)

    @property
    def duration_s(self) -> float | None:
        """Length in seconds, as the header tells it, if it does."""
        return self._sound.seconds

    def blocks(self, seconds: float = _BLOCK_SECONDS) -> Iterator[Block]:
        """The sound in blocks of about this many seconds, from the first sample to the last."""
        rate = self._sound.samplerate
        conversion = Conversion(rate, self.channels, separate=self._separate)
        frames = max(1, round(seconds * rate))
        read = 0
        while True:
            try:
                samples = self._sound.floats(frames)
            except soundfile.SoundFileError as error:
                raise self._damaged(read / rate) from error
            read += len(samples)
            last = len(samples) < frames
            block = conversion.convert(samples, last=last)
            if len(block):
                yield block if self._separate else block[:, 0]
            if last:
                break
        if isinstance(self._sound, _Forward) and self._sound.seconds - read / rate > _MISSING_SECONDS:
            raise self._damaged(read / rate)

    def close(self) -> None:
        """Closes the file; more than once does no harm."""
        self._sound.close()
        self._file.close()

    def __enter__(self) -> AudioFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _damaged(self, heard: float) -> AudioError:
        return AudioError(f"{self.name} is damaged: only {heard:.1f} of {self.duration_s:.1f} s can be read.")


def read_audio(path: str | os.PathLike[str]) -> Block:
    """A whole recording at once."""
    with AudioFile(path) as recording:
        return np.concatenate(list(recording.blocks()))


def raw_pcm(descriptor: int, decoder: Decoder | None = None, name: str = "standard input") -> Iterator[Block]:
    """Raw sound from a pipe, as it comes: int16, little-endian, mono, 16 kHz unless a decoder is given for another.

    Blocks are [samples, streams] if the decoder has several of them. While the pipe is silent an empty block comes
    every half second: whoever reads is never stuck here.
    """
    decoder = decoder or Decoder("pcm_s16le", SAMPLE_RATE)
    silence = np.empty((0, decoder.streams), dtype=np.int16)
    while True:
        if not select.select([descriptor], [], [], _PIPE_PATIENCE_S)[0]:
            yield _joined(silence)
            continue
        received = os.read(descriptor, _PIPE_BYTES)
        if not decoder.received and received.startswith(_CONTAINERS):
            raise AudioError(f"{name} holds an audio file, not raw PCM: give the file by its name instead.")
        block = np.stack(decoder.decode(received) if received else decoder.finish(), axis=1)
        if len(block):
            yield _joined(block)
        if not received:
            break
    if not decoder.received:
        raise AudioError(f"{name} is empty: pipe raw PCM into it (int16, little-endian, mono, 16 kHz).")
    if decoder.in_frame:
        size = decoder.frame_bytes
        raise AudioError(f"{name} ended in the middle of a sample: {decoder.received} bytes do not divide by {size}.")


def _joined(block: Block) -> Block:
    return block[:, 0] if block.shape[1] == 1 else block


def _through_ffmpeg(name: str) -> FfmpegSound:
    """What libsndfile could not read."""
    if is_installed():
        return FfmpegSound(name)
    if Path(name).suffix.lower() in THROUGH_FFMPEG:
        raise AudioError(f"{name} can only be read with ffmpeg, which is not here: sudo apt-get install ffmpeg.")
    raise AudioError(f"{name} cannot be read as audio: {READABLE} can, and more with ffmpeg (apt-get install ffmpeg).")


class _Forward(soundfile.SoundFile):  # type: ignore[misc]
    """Reads straight on.

    SoundFile seeks after each read to the place where it is already; in MP3 and OGG the samples after a seek
    are others, so that a file read in blocks would not sound like the whole.
    """

    @property
    def seconds(self) -> float:
        """How long it says it is."""
        return float(self.frames / self.samplerate)

    def floats(self, frames: int) -> npt.NDArray[np.float32]:
        """The next frames, [frames, channels]; fewer only at the end."""
        samples: npt.NDArray[np.float32] = self.read(frames, dtype="float32", always_2d=True)
        return samples

    def seekable(self) -> bool:
        return False
