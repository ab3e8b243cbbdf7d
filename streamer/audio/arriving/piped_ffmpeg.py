"""A recording that ffmpeg decodes while it arrives: bytes into one pipe, WAV of floats out of another."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from streamer.audio.ffmpeg import decoding_options, reading_options
from streamer.audio.recording_check import AudioError
from streamer.audio.recording_end import WaveHeader, wave_header
from streamer.audio.sample_converter import Int16Samples, SampleConverter

_LONGEST_HEADER: Final = 4096
_SAMPLE_BYTES: Final = 4
_MOST_MESSAGES: Final = 16 * 1024
# Messages of ffmpeg about a recording that ends too early. Its exit status is 0 all the same.
_CUT: Final = (b"ended prematurely", b"partial file")
_WITHOUT_AUDIO: Final = (b"matches no streams", b"does not contain any stream")


class PipedFfmpeg:
    """An ffmpeg process between two pipes."""

    def __init__(self, source: int, name: str) -> None:
        """`source` is a pipe with the recording; this object closes it."""
        self._name = name
        self._messages = b""
        command = ["ffmpeg", "-nostdin", "-v", "error", *reading_options("pipe"), "-i", "pipe:0", *decoding_options()]
        self._process: Any = subprocess.Popen(
            [*command, "-c:a", "pcm_f32le", "-f", "wav", "pipe:1"],
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        os.close(source)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._head = b""

    @property
    def without_audio(self) -> bool:
        """Whether the recording has no audio track."""
        return any(text in self._messages for text in _WITHOUT_AUDIO)

    def open(self) -> WaveHeader:
        """Wait for the first samples. AudioError if there are none."""
        while (header := wave_header(self._head)) is None and len(self._head) < _LONGEST_HEADER:
            if not (data := os.read(self._process.stdout.fileno(), _LONGEST_HEADER)):
                break
            self._head += data
        if header is not None:
            self._head = self._head[header.begin :]
            return header
        self._process.wait()
        self._listener.join(1.0)
        if self.without_audio:
            raise AudioError(f"{self._name} has no audio track.")
        raise AudioError(f"{self._name} cannot be read as audio, neither by itself nor through ffmpeg.")

    def chunks(self, converter: SampleConverter, frames: int) -> Iterator[Int16Samples]:
        """Yield the decoded chunks. AudioError if the recording ends too early."""
        try:
            yield from self._chunks(converter, frames)
        finally:
            self.close()

    def close(self) -> None:
        """End ffmpeg. It may be called more than once."""
        self._process.kill()
        self._process.wait()
        self._listener.join(1.0)
        self._process.stdout.close()
        self._process.stderr.close()

    def _chunks(self, converter: SampleConverter, frames: int) -> Iterator[Int16Samples]:
        header_channels = converter.channels
        frame_bytes = _SAMPLE_BYTES * header_channels
        rest, size = bytearray(self._head), frames * frame_bytes
        last = False
        while not last:
            while len(rest) < size and (data := os.read(self._process.stdout.fileno(), size)):
                rest += data
            last = len(rest) < size
            whole = min(size, len(rest) - len(rest) % frame_bytes)
            samples = np.frombuffer(bytes(rest[:whole]), "<f4").reshape(-1, header_channels)
            del rest[:whole]
            yield converter.convert(samples, last=last)
        failed = self._process.wait() != 0
        self._listener.join(1.0)
        if failed or any(text in self._messages for text in _CUT):
            raise AudioError(f"{self._name} is damaged: it ends before it is complete.")

    def _listen(self) -> None:
        while data := self._process.stderr.read(_MOST_MESSAGES):
            self._messages = (self._messages + data)[-_MOST_MESSAGES:]
