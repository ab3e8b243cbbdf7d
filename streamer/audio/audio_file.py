"""Reads recordings in chunks of int16 at 16 kHz, with channels mixed or separate.

Only one chunk is in memory, however long the recording. The length of the chunks changes no sample.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final

import numpy as np
import numpy.typing as npt
import soundfile  # type: ignore[import-untyped]

from streamer.audio.decoder import SAMPLE_RATE as SAMPLE_RATE
from streamer.audio.decoder import Int16Samples as Int16Samples
from streamer.audio.decoder import SampleConverter
from streamer.audio.ffmpeg import FfmpegAudio, ffmpeg_is_installed
from streamer.audio.recordings import FFMPEG_ENDINGS, AudioError, header_of, lacks_end_mark, open_recording, with_length
from streamer.audio.two_voices import TwoVoices
from streamer.base.limits import MOST_CHANNELS

READABLE: Final = "WAV, FLAC, OGG/Opus and MP3"

_CHUNK_SECONDS: Final = 0.5
# Outside this range a header is nonsense, and resampling one chunk could take any amount of memory.
_RATES: Final = range(1_000, 768_001)
_MISSING_SECONDS: Final = 1.0  # MP3 frame counts may be a little off; more than this is a damaged file
_CUT_SECONDS: Final = 0.01  # the samples of WAV are counted exactly
# FLAC that was written into a pipe has no length, and libsndfile then gives its greatest number.
_UNKNOWN_FRAMES: Final = 1 << 50


class AudioFile:
    """One recording, open for reading; a context manager."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        separate: bool = False,
        display_name: str | None = None,
        own_session: bool = True,
        listen: bool = False,
    ) -> None:
        """With `separate`, chunks are [samples, channels], even for one channel. Otherwise channels are mixed.

        `display_name` is its name in messages, if it is not its path. `own_session`: see FfmpegAudio. `listen`:
        find out whether there is a speaker on each of two channels that are mixed.
        """
        path = os.fspath(path)
        self.name = display_name or path
        self._separate = separate
        self._file = open_recording(path)
        try:
            header = header_of(self._file)
            self._declared_s = header.seconds if header else None
            # Whether the end may be missing. The file alone cannot prove it.
            self.may_be_cut = lacks_end_mark(self._file)
            self._file.seek(0)
        except OSError as error:
            self._file.close()
            raise AudioError(f"{self.name} cannot be read: {error.strerror}.") from error
        try:
            # By descriptor, not by name: libsndfile would otherwise guess the format from the ending of the name, and
            # its MP3 decoder would write to standard error about a text file named .mp3.
            self._source: ForwardSoundFile | FfmpegAudio = ForwardSoundFile(
                with_length(self._file, header) or self._file.fileno(), closefd=False
            )
        except soundfile.SoundFileError:
            self._file.close()
            self._source = _open_with_ffmpeg(path, self.name, own_session=own_session)
        if self._source.samplerate not in _RATES:
            self.close()
            raise AudioError(f"{self.name} has a damaged header: {self._source.samplerate} samples a second.")
        if self._source.seconds == 0:
            self.close()
            raise AudioError(f"{self.name} holds no audio: it has a header, but not one sample.")
        self._voices = TwoVoices(self._source.samplerate) if listen and not separate and self.channels == 2 else None
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
        """The length in seconds according to the header, None if it does not say. A damaged file is shorter."""
        lengths = [seconds for seconds in (self._source.seconds, self._declared_s) if seconds is not None]
        return max(lengths, default=None)

    @property
    def has_two_voices(self) -> bool:
        """Whether there was a speaker on each of two channels so far."""
        return self._voices is not None and self._voices.apart

    def chunks(self, seconds: float = _CHUNK_SECONDS) -> Iterator[Int16Samples]:
        """Yield the audio in chunks of about this many seconds."""
        rate = self._source.samplerate
        converter = SampleConverter(rate, self.channels, separate=self._separate)
        frames = max(1, round(seconds * rate))
        read = 0
        while True:
            try:
                samples = self._source.read_samples(frames)
            except soundfile.SoundFileError as error:
                raise self._damage_error(read / rate) from error
            read += len(samples)
            if self._voices is not None:
                self._voices.add(samples)
            last = len(samples) < frames
            chunk = converter.convert(samples, last=last)
            if len(chunk):
                yield chunk if self._separate else chunk[:, 0]
            if last:
                break
        if isinstance(self._source, ForwardSoundFile):
            missing_s = (self._source.seconds or 0) - read / rate
            if missing_s > _MISSING_SECONDS or (self._declared_s or 0) - read / rate >= _CUT_SECONDS:
                raise self._damage_error(read / rate)

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

    def _damage_error(self, read_s: float) -> AudioError:
        whole = "" if self.duration_s is None else f" of {self.duration_s:.1f}"
        return AudioError(f"{self.name} is damaged: only {read_s:.1f}{whole} s can be read.")


def read_audio(path: str | os.PathLike[str]) -> Int16Samples:
    """Read a whole recording at once, mixed to one channel."""
    with AudioFile(path) as recording:
        return np.concatenate(list(recording.chunks()))


def _open_with_ffmpeg(path: str, name: str, *, own_session: bool) -> FfmpegAudio:
    """Open a file that libsndfile cannot read with ffmpeg."""
    if ffmpeg_is_installed():
        return FfmpegAudio(path, name, own_session=own_session)
    if Path(name).suffix.lower() in FFMPEG_ENDINGS:
        raise AudioError(f"{name} can only be read with ffmpeg, which is not installed: sudo apt-get install ffmpeg.")
    raise AudioError(f"{name} cannot be read as audio: {READABLE} can, and more with ffmpeg (apt-get install ffmpeg).")


class ForwardSoundFile(soundfile.SoundFile):  # type: ignore[misc]
    """A sound file that is read from start to end without seeking.

    SoundFile seeks after each read, to the place where it already is. In MP3 and OGG the samples after a seek
    differ, so a file in chunks would not be the same as the whole file.
    """

    @property
    def seconds(self) -> float | None:
        """The length according to the header, None if it does not say."""
        return float(self.frames / self.samplerate) if 0 <= self.frames < _UNKNOWN_FRAMES else None

    def read_samples(self, frames: int) -> npt.NDArray[np.float32]:
        """Return the next frames [frames, channels], fewer only at the end."""
        samples: npt.NDArray[np.float32] = self.read(frames, dtype="float32", always_2d=True)
        return samples

    def seekable(self) -> bool:
        return False
