"""Audio from a pipe or an address: raw samples and WAV as they come, other formats when all of the data has come.

Reading never blocks for long: while nothing comes, there is an empty chunk every half second.
"""

from __future__ import annotations

import os
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPException
from io import FileIO
from pathlib import Path
from typing import Final
from urllib.error import HTTPError

import numpy as np

from streamer.audio.audio_file import AudioFile
from streamer.audio.decoder import SAMPLE_RATE, AudioDecoder, Int16Samples
from streamer.audio.ffmpeg import is_readable, read_as_it_is
from streamer.audio.recordings import AudioError
from streamer.base.address import is_address
from streamer.base.machine import no_space_error, temporary_folder
from streamer.base.wave_header import ENCODINGS, WaveHeader, wave_header
from streamer.base.web_address import open_address, reason_of

_PATIENCE_S: Final = 0.5
_BYTES: Final = 16_000
_LONGEST_HEADER: Final = 1 << 20


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
            try:
                data = os.read(self._descriptor, _BYTES)
            except OSError as error:
                raise AudioError(f"{self._name} cannot be read: {error.strerror}.") from error
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


# Tells by the first bytes whether audio is a file of some format, or raw samples.

# Enough bytes to recognise any format. MP3 and AAC need two frames.
ENOUGH: Final = 9_000

_BEGINNINGS: Final = (
    b"RIFF",
    b"RF64",
    b"riff",
    b"fLaC",
    b"OggS",
    b"ID3",
    b"FORM",
    b".snd",
    b"caff",
    b"\x1aE\xdf\xa3",
    b"FLV\x01",
    b"0&\xb2u\x8ef\xcf\x11",
    b"#!AMR",
)
_LONGEST_BEGINNING: Final = 12
# The kbit/s of each index, by version (MPEG 1, or else 2 and 2.5) and layer (1, 2, 3).
_BITRATES: Final = {
    (True, 1): (32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (True, 2): (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, 3): (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, 1): (32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (False, 2): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (False, 3): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES: Final = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}


def is_encoded(head: bytes, *, whole: bool = False) -> bool | None:
    """Return whether an audio file begins like this. None if more bytes are needed. `whole`: nothing follows."""
    if any(head.startswith(beginning) for beginning in _BEGINNINGS) or head[4:8] == b"ftyp":
        return True
    if len(head) < _LONGEST_BEGINNING:
        return False if whole else None
    length = _frame_bytes(head)
    if length is None:
        return False
    if length + 4 > len(head):
        return False if whole else None
    return _frame_bytes(head[length:]) is not None and head[length : length + 2] == head[:2]


def _frame_bytes(head: bytes) -> int | None:
    """Return the length of the MP3 or AAC frame that begins here. None if there is none."""
    bits = int.from_bytes(head[:4], "big")
    if bits >> 21 != 0x7FF:
        return None
    version, layer = bits >> 19 & 3, 4 - (bits >> 17 & 3)
    if layer == 4:  # AAC
        length = int.from_bytes(head[3:6], "big") >> 5 & 0x1FFF
        return length if bits >> 20 == 0xFFF and length > 7 else None
    index, rate = bits >> 12 & 15, bits >> 10 & 3
    if version == 1 or rate == 3 or not 1 <= index <= 14:
        return None
    bitrate, hertz = _BITRATES[version == 3, layer][index - 1] * 1000, _RATES[version][rate]
    if layer == 1:
        return (12 * bitrate // hertz + (bits >> 9 & 1)) * 4
    return (72 if layer == 3 and version != 3 else 144) * bitrate // hertz + (bits >> 9 & 1)


# Fetches recordings from an address, or from a pipe with a name.

MOST_S: Final = 3600.0
PIPE_STALL_S: Final = 600.0  # a program may work for a long time before it writes
_POLL_S: Final = 0.5
_FETCHED_BYTES: Final = 1 << 16


def fetch(name: str, recording: TemporaryRecording, stop: threading.Event) -> None:
    """Read the whole recording into `recording`. AudioError if that fails, or if `stop` is set meanwhile."""
    began = time.monotonic()
    for piece in _from_address(name) if is_address(name) else _from_pipe(name):
        if stop.is_set():
            raise AudioError(f"{name} was not read to its end.")
        recording.write(piece)
        if time.monotonic() - began > MOST_S:
            raise AudioError(f"{name} took too long: it was not complete after {MOST_S / 60:.0f} minutes.")
    if recording.size == 0:
        raise AudioError(f"{name} is empty (0 bytes).")


def _from_pipe(name: str) -> Iterator[bytes]:
    """Yield the data, with an empty piece while nothing comes."""
    try:
        # Without O_NONBLOCK, this would block until another program writes.
        descriptor = os.open(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise AudioError(f"{name} cannot be opened: {error.strerror}.") from error
    try:
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            raise AudioError(f"{name} is neither a file nor a pipe.")
        active = time.monotonic()
        while True:
            if not is_readable(descriptor, _POLL_S):
                if time.monotonic() - active > PIPE_STALL_S:
                    raise AudioError(f"{name} gave no data for {PIPE_STALL_S / 60:.0f} minutes.")
                yield b""
                continue
            try:
                data = os.read(descriptor, _FETCHED_BYTES)
            except BlockingIOError:
                continue
            except OSError as error:
                raise AudioError(f"{name} cannot be read: {error.strerror}.") from error
            if not data:
                return
            active = time.monotonic()
            yield data
    finally:
        os.close(descriptor)


def _from_address(name: str) -> Iterator[bytes]:
    size = length = 0
    try:
        with open_address(name, {"Accept": "audio/*, video/*, */*;q=0.5"}) as answer:
            length = int(answer.headers.get("Content-Length") or 0)
            if length > MOST_BYTES:
                raise AudioError(
                    f"{name} is too large: {length / (1 << 30):.1f} GiB, and the limit is {MOST_BYTES >> 30} GiB."
                )
            while data := answer.read1(_FETCHED_BYTES):
                size += len(data)
                yield data
    except HTTPError as error:
        error.close()
        raise AudioError(f"{name} cannot be fetched: {reason_of(error)}.") from error
    except (OSError, HTTPException, ValueError) as error:
        raise AudioError(f"{name} cannot be fetched: {reason_of(error)}.") from error
    if size < length:
        raise AudioError(f"{name} is incomplete: {size} of {length} bytes came.")


# A temporary file for a recording from a pipe or an address. It exists while the recording is read.

MOST_BYTES: Final = 4 << 30


class TemporaryRecording:
    """Takes bytes up to a limit. AudioError if there is no space for them. `close` deletes the file."""

    def __init__(self, name: str) -> None:
        """`name`: the recording as the user named it. The file keeps its ending, which may show the format."""
        self._name = name
        self.size = 0
        suffix = "" if is_address(name) else Path(name).suffix[:8]
        try:
            descriptor, self.path = tempfile.mkstemp(suffix, "streamer-", temporary_folder())
        except OSError as error:
            raise AudioError(f"{name} cannot be stored: {error.strerror}.") from error
        self._file = FileIO(descriptor, "w")

    def write(self, data: bytes) -> None:
        """Add bytes."""
        self.size += len(data)
        if self.size > MOST_BYTES:
            raise AudioError(f"{self._name} is too large: the limit is {MOST_BYTES >> 30} GiB.")
        view = memoryview(data)
        try:
            while view:
                view = view[self._file.write(view) :]
        except OSError as error:
            trouble = no_space_error(Path(self.path).parent)
            raise AudioError(f"{self._name} cannot be stored: {trouble.strerror}.") from error

    def close(self) -> None:
        """Delete it. May be called more than once."""
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            Path(self.path).unlink()
