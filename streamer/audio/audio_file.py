"""Reads recordings and piped audio in chunks of int16 at 16 kHz, with channels mixed or separate.

Only one chunk is in memory, however long the recording. How long the chunks are changes no sample.
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

from streamer.audio.decoder import AudioDecoder
from streamer.audio.ffmpeg import FfmpegAudio, ffmpeg_is_installed
from streamer.audio.recording_check import FFMPEG_ENDINGS, AudioError, open_recording
from streamer.audio.sample_converter import SAMPLE_RATE as SAMPLE_RATE
from streamer.audio.sample_converter import Int16Samples as Int16Samples
from streamer.audio.sample_converter import SampleConverter

MOST_CHANNELS: Final = 8  # that can be recognised separately
READABLE: Final = "WAV, FLAC, OGG/Opus and MP3"

_CHUNK_SECONDS: Final = 0.5
# Outside this range a header is nonsense, and resampling one chunk could take any amount of memory.
_RATES: Final = range(1_000, 768_001)
_MISSING_SECONDS: Final = 1.0  # MP3 frame counts may be a little off; more than this is a damaged file
_PIPE_PATIENCE_S: Final = 0.5
_PIPE_BYTES: Final = 16_000
_CONTAINERS: Final = (b"RIFF", b"RF64", b"fLaC", b"OggS", b"ID3")


class AudioFile:
    """One recording, open for reading; a context manager."""

    def __init__(self, path: str | os.PathLike[str], *, separate: bool = False) -> None:
        """With `separate`, chunks are [samples, channels], even for one channel. Otherwise channels are mixed."""
        self.name = os.fspath(path)
        self._separate = separate
        self._file = open_recording(self.name)
        try:
            # By descriptor, not by name: libsndfile would otherwise go by the ending of the name, and its
            # MP3 decoder complains to standard error about a text file named .mp3.
            self._source: _ForwardSoundFile | FfmpegAudio = _ForwardSoundFile(self._file.fileno(), closefd=False)
        except soundfile.SoundFileError:
            self._file.close()
            self._source = _open_with_ffmpeg(self.name)
        if self._source.samplerate not in _RATES:
            self.close()
            raise AudioError(f"{self.name} has a damaged header: {self._source.samplerate} samples a second.")
        if self._source.seconds == 0:
            self.close()
            raise AudioError(f"{self.name} holds no audio: it has a header, but not one sample.")
        if separate and self.channels > MOST_CHANNELS:
            self.close()
            most = f"at most {MOST_CHANNELS} can be recognised separately"
            raise AudioError(f"{self.name} has {self.channels} channels, and {most}: mix them.")

    @property
    def channels(self) -> int:
        """The number of channels of the recording."""
        return int(self._source.channels)

    @property
    def duration_s(self) -> float | None:
        """The length in seconds according to the header, None if it does not say."""
        return self._source.seconds

    def chunks(self, seconds: float = _CHUNK_SECONDS) -> Iterator[Int16Samples]:
        """The audio in chunks of about this many seconds."""
        rate = self._source.samplerate
        converter = SampleConverter(rate, self.channels, separate=self._separate)
        frames = max(1, round(seconds * rate))
        read = 0
        while True:
            try:
                samples = self._source.read_samples(frames)
            except soundfile.SoundFileError as error:
                raise self._damaged(read / rate) from error
            read += len(samples)
            last = len(samples) < frames
            chunk = converter.convert(samples, last=last)
            if len(chunk):
                yield chunk if self._separate else chunk[:, 0]
            if last:
                break
        if isinstance(self._source, _ForwardSoundFile) and self._source.seconds - read / rate > _MISSING_SECONDS:
            raise self._damaged(read / rate)

    def close(self) -> None:
        """Close the file. May be called more than once."""
        self._source.close()
        self._file.close()

    def __enter__(self) -> AudioFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _damaged(self, heard: float) -> AudioError:
        return AudioError(f"{self.name} is damaged: only {heard:.1f} of {self.duration_s:.1f} s can be read.")


def read_audio(path: str | os.PathLike[str]) -> Int16Samples:
    """Read a whole recording at once, mixed to one channel."""
    with AudioFile(path) as recording:
        return np.concatenate(list(recording.chunks()))


def pcm_from_pipe(
    descriptor: int, decoder: AudioDecoder | None = None, name: str = "standard input"
) -> Iterator[Int16Samples]:
    """Read raw PCM from a pipe as it comes: int16, little-endian, mono, 16 kHz, unless a decoder is given.

    Chunks are [samples, streams] if the decoder has several streams. While nothing comes, there is an empty chunk every
    half second, so the caller is never stuck here.
    """
    decoder = decoder or AudioDecoder("pcm_s16le", SAMPLE_RATE)
    nothing = np.empty((0, decoder.streams), dtype=np.int16)
    while True:
        if not select.select([descriptor], [], [], _PIPE_PATIENCE_S)[0]:
            yield _squeezed(nothing)
            continue
        received = os.read(descriptor, _PIPE_BYTES)
        if not decoder.received and received.startswith(_CONTAINERS):
            raise AudioError(f"{name} holds an audio file, not raw PCM: give the file by its name instead.")
        chunk = np.stack(decoder.decode(received) if received else decoder.finish(), axis=1)
        if len(chunk):
            yield _squeezed(chunk)
        if not received:
            break
    if not decoder.received:
        raise AudioError(f"{name} is empty: pipe raw PCM into it (int16, little-endian, mono, 16 kHz).")
    if decoder.in_frame:
        size = decoder.frame_bytes
        raise AudioError(f"{name} ended in the middle of a sample: {decoder.received} bytes do not divide by {size}.")


def _squeezed(chunk: Int16Samples) -> Int16Samples:
    """Without the dimension of the streams if there is only one."""
    return chunk[:, 0] if chunk.shape[1] == 1 else chunk


def _open_with_ffmpeg(name: str) -> FfmpegAudio:
    """Open with ffmpeg what libsndfile cannot read."""
    if ffmpeg_is_installed():
        return FfmpegAudio(name)
    if Path(name).suffix.lower() in FFMPEG_ENDINGS:
        raise AudioError(f"{name} can only be read with ffmpeg, which is not installed: sudo apt-get install ffmpeg.")
    raise AudioError(f"{name} cannot be read as audio: {READABLE} can, and more with ffmpeg (apt-get install ffmpeg).")


class _ForwardSoundFile(soundfile.SoundFile):  # type: ignore[misc]
    """A sound file that is read from start to end without seeking.

    SoundFile seeks after each read, to where it already is. In MP3 and OGG the samples after a seek differ,
    so a file read in chunks would not be the same as the whole.
    """

    @property
    def seconds(self) -> float:
        """The length according to the header."""
        return float(self.frames / self.samplerate)

    def read_samples(self, frames: int) -> npt.NDArray[np.float32]:
        """The next frames [frames, channels], fewer only at the end."""
        samples: npt.NDArray[np.float32] = self.read(frames, dtype="float32", always_2d=True)
        return samples

    def seekable(self) -> bool:
        return False
