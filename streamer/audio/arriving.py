"""Decodes a recording from a stream: most formats while they arrive, the others once they are whole.

libsndfile reads WAV, FLAC, Ogg and MP3, as it does from a file. ffmpeg reads Matroska, WebM and a few others. A format
with its table of contents at the end, such as MP4, goes into a file without a name until it is whole.
"""

from __future__ import annotations

import io
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import soundfile  # type: ignore[import-untyped]

from streamer.audio.audio_file import AudioFile, ForwardSoundFile
from streamer.audio.decoder import Int16Samples, SampleConverter
from streamer.audio.ffmpeg import PipedFfmpeg, ffmpeg_is_installed, read_as_it_is
from streamer.audio.frames import ProblemCode
from streamer.audio.incoming import ENOUGH, PipedAudio, is_encoded
from streamer.audio.recordings import AudioError
from streamer.base.limits import MOST_CHANNELS
from streamer.base.machine import temporary_folder
from streamer.base.wave_header import ENCODINGS, WaveHeader, wave_header

NAME: Final = "The recording"
CHUNK_S: Final = 0.5
_LONGEST_HEADER: Final = 1 << 20
_MISSING_S: Final = 1.0
_RATES: Final = range(1_000, 768_001)
_OGG_CODECS: Final = (b"OpusHead", b"\x01vorbis")
_LOOK: Final = 512
_OF_SAMPLES: Final = ("'encoding'", "'sample_rate'", "'channels'")
# Formats without a table of contents, which ffmpeg can read from a pipe.
_SERIAL: Final = (b"\x1aE\xdf\xa3", b"FLV\x01", b"#!AMR", b"0&\xb2u\x8ef\xcf\x11")
_ADTS: Final = (0xFFF0, 0xFFF6)  # the bits that every frame of AAC has, and their mask


class RecordingProblem(Exception):
    """A recording cannot be decoded, or not any further. The message is a sentence for its sender."""

    def __init__(self, code: ProblemCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class ArrivingRecording:
    """A recording that is decoded while it arrives."""

    def __init__(self, channels: int, seconds: float | None, chunks: Iterator[Int16Samples]) -> None:
        """`chunks` have a column for each of the `channels`. `seconds`: the length that the header claims."""
        self.channels = channels
        self.seconds = seconds
        self._chunks = chunks

    def chunks(self) -> Iterator[Int16Samples]:
        """Yield the decoded chunks. RecordingProblem if that is not possible."""
        try:
            for chunk in self._chunks:
                if len(chunk):
                    yield chunk if chunk.ndim == 2 else chunk[:, None]
        except AudioError as error:
            raise RecordingProblem(ProblemCode.DAMAGED, str(error)) from error


def open_samples(
    stream: ByteStream, encoding: str, sample_rate: int, channels: int, *, separate: bool
) -> ArrivingRecording:
    """Open bare samples, which have no header."""
    head = stream.look(ENOUGH)
    if not head:
        raise empty_recording()
    if is_encoded(head, whole=len(head) < ENOUGH):
        message = (
            f"{NAME} has a header of its own, so its encoding must not be given: leave out {', '.join(_OF_SAMPLES)}."
        )
        raise RecordingProblem(ProblemCode.UNKNOWN_FORMAT, message)
    piped = PipedAudio(
        stream.pipe(), encoding=encoding, sample_rate=sample_rate, channels=channels, separate=separate, name=NAME
    )
    return ArrivingRecording(piped.streams, None, piped.chunks())


def open_recording(stream: ByteStream, *, separate: bool) -> ArrivingRecording:
    """Open a recording in any known format."""
    head = stream.look(ENOUGH)
    if not head:
        raise empty_recording()
    if head[:4] in (b"RIFF", b"RF64") and head[8:12] == b"WAVE":
        return _open_wave(stream, separate)
    if head[:4] == b"fLaC":
        return _open_sound_file(ForwardFile(stream), separate)
    if head[:4] == b"OggS" and any(codec in head[:_LOOK] for codec in _OGG_CODECS):
        return _open_sound_file(stream.pipe(), separate)
    aac = int.from_bytes(head[:2], "big") & _ADTS[1] == _ADTS[0]
    if is_encoded(head, whole=len(head) < ENOUGH) and (head[:3] == b"ID3" or (head[0] == 0xFF and not aac)):
        return _open_sound_file(stream.pipe(), separate)
    if ffmpeg_is_installed() and (head.startswith(_SERIAL) or (aac and is_encoded(head)) or _is_serial_mp4(head)):
        return _open_with_ffmpeg(stream, separate)
    if _is_text(head):
        reason = "it begins like a text. Send the recording itself, in its own format"
        raise RecordingProblem(ProblemCode.UNKNOWN_FORMAT, f"{NAME} cannot be read as audio: {reason}.")
    return _open_whole(stream, separate)


def empty_recording() -> RecordingProblem:
    """Make the problem of a recording without any bytes."""
    return RecordingProblem(ProblemCode.NO_AUDIO, f"{NAME} is empty (0 bytes).")


def _open_wave(stream: ByteStream, separate: bool) -> ArrivingRecording:
    size = ENOUGH
    while (header := wave_header(stream.head)) is None and len(stream.look(size)) >= size and size < _LONGEST_HEADER:
        size *= 2
    if header is None:
        raise RecordingProblem(ProblemCode.NO_AUDIO, f"{NAME} holds no audio: its header has no samples behind it.")
    if len(stream.look(header.begin + header.frame_bytes)) < header.begin + header.frame_bytes or header.size == 0:
        raise RecordingProblem(ProblemCode.NO_AUDIO, f"{NAME} holds no audio: it has a header, but not one sample.")
    _check(header.sample_rate, header.channels, separate)
    if (header.format, header.sample_bits) in ENCODINGS:
        piped = PipedAudio(stream.pipe(), separate=separate, channels=header.channels, name=NAME)
        return ArrivingRecording(header.channels if separate else 1, header.seconds, piped.chunks())
    return _open_sound_file(stream.pipe(), separate, header)


def _open_sound_file(source: int | ForwardFile, separate: bool, header: WaveHeader | None = None) -> ArrivingRecording:
    try:
        file = ForwardSoundFile(source, closefd=False)
    except soundfile.SoundFileError as error:
        message = f"{NAME} cannot be read as audio: {_reason_of(error)}"
        raise RecordingProblem(ProblemCode.UNKNOWN_FORMAT, message) from error
    _check(file.samplerate, file.channels, separate)
    seconds = file.seconds or None
    seconds = header.seconds if header is not None else seconds
    return ArrivingRecording(file.channels if separate else 1, seconds, _chunks_of(file, separate, seconds))


def _chunks_of(file: ForwardSoundFile, separate: bool, seconds: float | None) -> Iterator[Int16Samples]:
    converter = SampleConverter(file.samplerate, file.channels, separate=separate)
    frames, read, last = max(1, round(CHUNK_S * file.samplerate)), 0, False
    while not last:
        try:
            samples = file.read_samples(frames)
        except soundfile.SoundFileError as error:
            raise _damage_error(read / file.samplerate, seconds) from error
        read += len(samples)
        last = len(samples) < frames
        yield converter.convert(samples, last=last)
    if not read:
        raise RecordingProblem(ProblemCode.NO_AUDIO, f"{NAME} holds no audio: it has a header, but not one sample.")
    if seconds is not None and seconds - read / file.samplerate > _MISSING_S:
        raise _damage_error(read / file.samplerate, seconds)


def _damage_error(read_s: float, seconds: float | None) -> AudioError:
    total = f" of {seconds:.1f}" if seconds is not None else ""
    return AudioError(f"{NAME} is damaged: only {read_s:.1f}{total} s can be read.")


def _open_with_ffmpeg(stream: ByteStream, separate: bool) -> ArrivingRecording:
    audio = PipedFfmpeg(stream.pipe(), NAME)
    try:
        header = audio.open()
    except AudioError as error:
        code = ProblemCode.NO_AUDIO if audio.without_audio else ProblemCode.UNKNOWN_FORMAT
        raise RecordingProblem(code, str(error)) from error
    _check(header.sample_rate, header.channels, separate)
    converter = SampleConverter(header.sample_rate, header.channels, separate=separate)
    frames = round(CHUNK_S * header.sample_rate)
    return ArrivingRecording(header.channels if separate else 1, None, audio.chunks(converter, frames))


def _open_whole(stream: ByteStream, separate: bool) -> ArrivingRecording:
    """Write the recording to a file without a name, so that nothing is left of it whatever happens."""
    try:
        descriptor, path = tempfile.mkstemp(prefix="streamer-", dir=temporary_folder())
        Path(path).unlink()
        with os.fdopen(os.dup(descriptor), "wb") as file:
            while data := stream.next():
                file.write(data)
    except OSError as error:
        message = f"{NAME} cannot be kept until it is whole: {error.strerror}."
        raise RecordingProblem(ProblemCode.TOO_COSTLY, message) from error
    try:
        # ffmpeg can open this path, too.
        path = f"/proc/{os.getpid()}/fd/{descriptor}"
        audio = AudioFile(path, separate=separate, display_name=NAME, own_session=False)
    except AudioError as error:
        without_audio = "no audio" in str(error)
        code = ProblemCode.NO_AUDIO if without_audio else ProblemCode.UNKNOWN_FORMAT
        raise RecordingProblem(code, str(error)) from error
    return ArrivingRecording(audio.channels if separate else 1, audio.duration_s, _chunks_of_whole(audio, descriptor))


def _chunks_of_whole(audio: AudioFile, descriptor: int) -> Iterator[Int16Samples]:
    try:
        yield from audio.chunks(CHUNK_S)
    finally:
        audio.close()
        os.close(descriptor)


def _check(sample_rate: int, channels: int, separate: bool) -> None:
    if sample_rate not in _RATES:
        message = f"{NAME} has a damaged header: {sample_rate} samples a second."
        raise RecordingProblem(ProblemCode.UNKNOWN_FORMAT, message)
    if separate and channels > MOST_CHANNELS:
        message = f"{NAME} has {channels} channels, and at most {MOST_CHANNELS} can be recognised separately: mix them."
        raise RecordingProblem(ProblemCode.UNKNOWN_FORMAT, message)


def _is_serial_mp4(head: bytes) -> bool:
    """Return whether this is MP4 with its table of contents before the audio, as browsers record it."""
    place = 0
    while head[4:8] == b"ftyp" and place + 8 <= len(head):
        size, kind = int.from_bytes(head[place : place + 4], "big"), head[place + 4 : place + 8]
        if kind == b"moov":
            return True
        if kind == b"mdat" or size < 8:
            return False
        place += size
    return False


def _is_text(head: bytes) -> bool:
    with suppress(UnicodeDecodeError):
        text = (
            head[: len(head) & ~3].decode("utf-8", "strict") if len(head) < ENOUGH else head[:_LOOK].decode("latin-1")
        )
        return all(letter.isprintable() or letter.isspace() for letter in text)
    return False


def _reason_of(error: Exception) -> str:
    """Return the reason that the library gives, without the name of the descriptor."""
    reason = getattr(error, "error_string", str(error))
    return reason.removeprefix("Error : ").strip().rstrip(".") + "."


# The bytes of a recording as they arrive. The first are examined, then all are passed on, as a pipe or as a file.

_PIECE: Final = 64 * 1024
_KEPT: Final = 1 << 20  # bytes before the present place that a reader may go back to
# The pretended length: longer than any recording, so that no library waits for the end to learn the real one.
_ENDLESS: Final = 1 << 40


class ByteStream:
    """Reads a descriptor once. `head` has the bytes that were examined; they are passed on with the rest."""

    def __init__(self, descriptor: int) -> None:
        read_as_it_is(descriptor)
        self._descriptor = descriptor
        self._at_end = False
        self.head = b""

    def look(self, size: int) -> bytes:
        """Return at least `size` bytes of the beginning, or all if there are fewer. They stay in the stream."""
        while len(self.head) < size and (data := self._read()):
            self.head += data
        return self.head

    def next(self) -> bytes:
        """Return the next bytes, first those that were examined; none at the end."""
        if self.head:
            data, self.head = self.head, b""
            return data
        return self._read()

    def pipe(self) -> int:
        """Return a pipe from which the whole stream can be read. A thread fills it as fast as it is read."""
        reading, writing = os.pipe()
        threading.Thread(target=self._fill, args=(writing,), daemon=True).start()
        return reading

    def _fill(self, writing: int) -> None:
        try:
            while data := self.next():
                view = memoryview(data)
                while view:
                    view = view[os.write(writing, view) :]
        except OSError:
            pass  # the reader has closed the pipe
        finally:
            os.close(writing)

    def _read(self) -> bytes:
        data = b"" if self._at_end else os.read(self._descriptor, _PIECE)
        self._at_end = not data
        return data


class ForwardFile(io.RawIOBase):
    """A stream as a file whose length is not known yet. Reading waits; a reader can go back only a little."""

    def __init__(self, stream: ByteStream) -> None:
        super().__init__()
        self._stream = stream
        self._begin = 0  # the place of the first byte that is kept
        self._buffer = bytearray()
        self._place = 0

    def readinto(self, buffer: object) -> int:
        """Read at the present place; 0 bytes at the end, or before the first byte that is kept."""
        view = memoryview(buffer)  # type: ignore[arg-type]
        if self._place - self._begin > len(self._buffer) + _KEPT:
            return 0  # the reader looks for the end, which has not arrived yet
        while self._begin + len(self._buffer) < self._place + len(view) and (data := self._stream.next()):
            self._buffer += data
        start = self._place - self._begin
        if start < 0:
            return 0
        data = bytes(self._buffer[start : start + len(view)])
        view[: len(data)] = data
        self._place += len(data)
        if start > 2 * _KEPT:
            del self._buffer[: start - _KEPT]
            self._begin += start - _KEPT
        return len(data)

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True: a reader can go back to the bytes that are kept."""
        return True

    def tell(self) -> int:
        """Return the present position."""
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a position, and return it."""
        bases = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: _ENDLESS}
        self._place = max(0, bases[whence] + offset)
        return self._place
