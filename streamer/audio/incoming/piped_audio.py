"""Audio from a pipe: raw samples or WAV as they come, other formats when all of the data has come.

Reading never blocks for long: while nothing comes, there is an empty chunk every half second.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Final

import numpy as np

from streamer.audio.audio_file import AudioFile
from streamer.audio.decoder import AudioDecoder
from streamer.audio.incoming.encoded_audio import is_encoded
from streamer.audio.incoming.readable import is_readable, read_as_it_is
from streamer.audio.incoming.temporary_recording import TemporaryRecording
from streamer.audio.recording_check import AudioError
from streamer.audio.recording_end import WaveHeader, wave_header
from streamer.audio.sample_converter import SAMPLE_RATE, Int16Samples

_PATIENCE_S: Final = 0.5
_BYTES: Final = 16_000
_LONGEST_HEADER: Final = 1 << 20
# WAV encodings that can be decoded as they come, by format and bits of a sample.
ENCODINGS: Final = {(1, 16): "pcm_s16le", (3, 32): "pcm_f32le", (6, 8): "alaw", (7, 8): "mulaw"}


class PipedAudio:
    """The audio from a pipe, as chunks of int16 at 16 kHz."""

    def __init__(
        self,
        descriptor: int,
        *,
        encoding: str | None = None,
        sample_rate: int | None = None,
        channels: int | None = None,
        separate: bool = False,
        name: str = "standard input",
        end: threading.Event | None = None,
    ) -> None:
        """Encoding, rate and channels describe raw samples. When `end` is set, the audio ends like the pipe."""
        self._descriptor = descriptor
        self._is_raw = bool(encoding or sample_rate)
        self._channels = channels or 1
        self._separate = separate
        self._decoder = AudioDecoder(
            encoding or "pcm_s16le", sample_rate or SAMPLE_RATE, self._channels, separate=separate
        )
        self._name = name
        self._end = end or threading.Event()

    @property
    def streams(self) -> int:
        """How many streams are recognised."""
        return self._decoder.streams

    def chunks(self) -> Iterator[Int16Samples]:
        """Yield the audio as it comes; [samples, streams] if there are several."""
        head, encoded = b"", None
        for data in self._read():
            if data is None:
                yield self._nothing()
                continue
            head += data
            encoded = is_encoded(head, whole=not data)
            if encoded is not None or not data:
                break
        if not head:
            raise AudioError(f"{self._name} is empty: pipe a recording into it, or raw PCM (int16, mono, 16 kHz).")
        if encoded and self._is_raw:
            raise AudioError(f"{self._name} holds an audio file, not raw PCM: leave out --encoding and --sample-rate.")
        yield from self._decode_file(head) if encoded else self._decode_samples(head)

    def _decode_samples(self, head: bytes) -> Iterator[Int16Samples]:
        decoder = self._decoder
        yield from self._decode(decoder, head, None)
        if decoder.in_frame:
            size = decoder.frame_bytes
            reason = f"{decoder.received_bytes} bytes do not divide by {size}"
            raise AudioError(f"{self._name} ended in the middle of a sample: {reason}.")

    def _decode_file(self, head: bytes) -> Iterator[Int16Samples]:
        """Yield the audio of a file: WAV as it comes, because programs that record write it into pipes."""
        header = wave_header(head)
        for data in self._read() if head[8:12] in (b"WAVE", b"") and header is None else ():
            if data is None:
                yield self._nothing()
                continue
            head += data
            header = wave_header(head)
            if header or not data or len(head) > _LONGEST_HEADER or head[8:12] != b"WAVE":
                break
        encoding = ENCODINGS.get((header.format, header.sample_bits)) if header else None
        if header is None or encoding is None:
            yield from self._decode_whole(head)
            return
        self._check_channels(header.channels)
        decoder = AudioDecoder(encoding, header.sample_rate, header.channels, separate=self._separate)
        yield from self._decode(decoder, head[header.begin :], header.size)
        _check_length(self._name, header, decoder.received_bytes)

    def _decode(self, decoder: AudioDecoder, head: bytes, size: int | None) -> Iterator[Int16Samples]:
        """Yield `size` bytes as audio; with None, all until the end. `head` has come already."""
        data: bytes | None = head
        pieces = self._read()
        while True:
            if data is None:
                yield self._nothing()
            else:
                data = data if size is None else data[: size - decoder.received_bytes]
                chunk = np.stack(decoder.decode(data), axis=1)
                if len(chunk):
                    yield self._reshape(chunk)
                if size is not None and decoder.received_bytes >= size:
                    break
            data = next(pieces, b"")
            if data == b"":
                break
        chunk = np.stack(decoder.finish(), axis=1)
        if len(chunk):
            yield self._reshape(chunk)

    def _decode_whole(self, head: bytes) -> Iterator[Int16Samples]:
        """Yield the audio of other formats, which cannot be decoded before the whole file has come."""
        recording = TemporaryRecording(self._name)
        try:
            recording.write(head)
            for data in self._read():
                if data is None:
                    yield self._nothing()
                else:
                    recording.write(data)
            with AudioFile(recording.path, separate=self._separate, display_name=self._name) as file:
                self._check_channels(file.channels)
                yield from file.chunks()
        finally:
            recording.close()

    def _read(self) -> Iterator[bytes | None]:
        """Yield bytes as they come, None while nothing comes, and an empty piece at the end."""
        read_as_it_is(self._descriptor)
        while not self._end.is_set():
            if not is_readable(self._descriptor, _PATIENCE_S):
                yield None
                continue
            data = os.read(self._descriptor, _BYTES)
            yield data
            if not data:
                return
        yield b""

    def _check_channels(self, channels: int) -> None:
        if self._separate and channels != self._channels:
            raise AudioError(f"{self._name} has {channels} channels: give --input-channels {channels}.")

    def _nothing(self) -> Int16Samples:
        return self._reshape(np.empty((0, self.streams), dtype=np.int16))

    def _reshape(self, chunk: Int16Samples) -> Int16Samples:
        """Return the chunk without the dimension of the streams if there is only one."""
        return chunk[:, 0] if chunk.shape[1] == 1 else chunk


def _check_length(name: str, header: WaveHeader, received: int) -> None:
    """Raise AudioError if there were fewer samples than the header says."""
    if header.seconds is not None and header.size is not None and header.size - received >= header.frame_bytes:
        read_s = received / header.frame_bytes / header.sample_rate
        raise AudioError(f"{name} is damaged: only {read_s:.1f} of {header.seconds:.1f} s can be read.")
