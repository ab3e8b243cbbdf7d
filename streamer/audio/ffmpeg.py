"""Runs ffmpeg for audio that libsndfile cannot read: a file such as a video, or a recording that is still arriving."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streamer.audio.decoder import Int16Samples, SampleConverter
from streamer.audio.recordings import AudioError
from streamer.base.wave_header import WaveHeader, wave_header

PROBE_S: Final = 30.0
STALL_S: Final = 60.0  # a disk that sleeps may take seconds
_END_S: Final = 1.0
# ffmpeg itself considers a probe score up to this a poor guess.
_LIKELY: Final = 25
# These formats give the exact length of the audio. Others have an estimate, or the length of the picture.
_EXACT: Final = ("mov,mp4,m4a,3gp,3g2,mj2",)
_MISSING_SECONDS: Final = 1.0
_SAMPLE_BYTES: Final = 4
# ffmpeg's names of formats that hold audio themselves: no playlists, no lists of other files.
_FORMATS: Final = (
    "aac,ac3,aiff,amr,amrnb,amrwb,ape,asf,asf_o,au,avi,caf,dts,dtshd,eac3,flac,flv,g722,gsm,ivf,loas,live_flv,matroska,"
    "mlp,mov,mp3,mpeg,mpegts,mxf,nut,ogg,rm,sln,spx,tak,truehd,tta,voc,w64,wav,webm,wsaud,wtv,wv,xwma"
)


def ffmpeg_is_installed() -> bool:
    """Return whether this machine has ffmpeg and ffprobe."""
    return shutil.which("ffmpeg") is not None and shutil.which("ffprobe") is not None


def reading_options(protocol: str) -> list[str]:
    """Return the options that allow only this protocol, and only formats that hold audio themselves.

    A playlist must make ffmpeg read neither from the network nor from another file of this machine.
    """
    return ["-threads", "1", "-protocol_whitelist", protocol, "-format_whitelist", _FORMATS]


def decoding_options() -> list[str]:
    """Return the options that take the first audio track and nothing else."""
    # If the audio starts later than the picture, silence is added, so that times are those of the video.
    return ["-map", "0:a:0", "-vn", "-sn", "-dn", "-af", "aresample=async=1:first_pts=0"]


class FfmpegAudio:
    """The first audio track of a file, decoded by ffmpeg. Only a moment of it is in memory, whatever its length."""

    def __init__(self, path: str, name: str | None = None, *, own_session: bool = True) -> None:
        """`name` is its name in messages. AudioError if ffmpeg finds no audio in the file.

        `own_session`: Ctrl-C must reach only this process, which then ends ffmpeg. In a decoder of the service, ffmpeg
        must stay in the session instead: with that it is killed, and yields to live sessions.
        """
        self.name = name or path
        self._path = path
        self._own_session = own_session
        probe = _probe(path, self.name, own_session=own_session)
        stream = probe["streams"][0]
        self.samplerate = int(stream["sample_rate"])
        self.channels = int(stream["channels"])
        length = stream.get("duration") or probe["format"].get("duration")
        self.seconds: float | None = float(length) if length else None
        self._exact = probe["format"].get("format_name") in _EXACT and "duration" in stream
        self._read_frames = 0
        self._process: subprocess.Popen[bytes] | None = None  # starts when the first samples are read

    def read_samples(self, frames: int) -> npt.NDArray[np.float32]:
        """Return the next frames [frames, channels], fewer only at the end. AudioError if the end comes too early."""
        size = _SAMPLE_BYTES * self.channels
        data = bytearray()
        while len(data) < frames * size and (chunk := self._next(frames * size - len(data))):
            data += chunk
        whole = len(data) // size
        self._read_frames += whole
        if whole < frames:
            self._check_end()
        return np.frombuffer(data, "<f4", whole * self.channels).reshape(whole, self.channels)

    def close(self) -> None:
        """End ffmpeg. May be called more than once."""
        if self._process is not None:
            assert self._process.stdout is not None
            self._process.stdout.close()
            _end(self._process)

    def _next(self, most: int) -> bytes:
        if self._process is None:
            self._process = self._start_decoder()
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        if not is_readable(descriptor, STALL_S):
            raise AudioError(f"{self.name} cannot be read any further: ffmpeg has given nothing for {STALL_S:g} s.")
        return os.read(descriptor, min(most, 1 << 20))

    def _start_decoder(self) -> subprocess.Popen[bytes]:
        command = ["ffmpeg", "-nostdin", "-v", "quiet", *_source(self._path), *decoding_options(), "-f", "f32le"]
        command += ["-ar", str(self.samplerate), "-ac", str(self.channels), "pipe:1"]
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=self._own_session,
        )

    def _check_end(self) -> None:
        assert self._process is not None
        read_s = self._read_frames / self.samplerate
        short = self._exact and self.seconds is not None and self.seconds - read_s > _MISSING_SECONDS
        try:
            status = self._process.wait(STALL_S)
        except subprocess.TimeoutExpired:
            raise AudioError(f"{self.name} cannot be read to its end: ffmpeg does not end.") from None
        if status != 0 or short:
            total = f" of {self.seconds:.1f}" if self.seconds is not None else ""
            raise AudioError(f"{self.name} is damaged: only {read_s:.1f}{total} s can be read.")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End ffmpeg, whose output nobody reads any more."""
    # A decoder of the service may send no signals. Without a reader ffmpeg ends by itself, or with the decoder.
    with suppress(PermissionError):
        process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END_S)


def _probe(path: str, name: str, *, own_session: bool) -> dict[str, Any]:
    command = ["ffprobe", "-v", "quiet", *_source(path), "-select_streams", "a:0", "-of", "json"]
    command += ["-show_entries", "stream=sample_rate,channels,duration:format=format_name,duration,probe_score"]
    try:
        process = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_S,
            start_new_session=own_session,
            check=False,
        )
    except (subprocess.TimeoutExpired, PermissionError) as error:  # a decoder may not kill it: see _end
        raise AudioError(f"{name} cannot be read: ffprobe has not finished within {PROBE_S:g} s.") from error
    probe: dict[str, Any] = json.loads(process.stdout) if process.returncode == 0 else {}
    if probe.get("format", {}).get("probe_score", 0) <= _LIKELY:
        raise AudioError(f"{name} cannot be read as audio, neither by itself nor through ffmpeg.")
    if not probe.get("streams"):
        raise AudioError(f"{name} cannot be read as audio: it has no audio track.")
    return probe


def _source(path: str) -> list[str]:
    # The prefix is for names that begin with a dash.
    return [*reading_options("file"), "-i", f"file:{path}"]


# Waits for a pipe, so that reading it never blocks.


def is_readable(descriptor: int, patience_s: float) -> bool:
    """Whether data or the end can be read now, or within this time.

    Windows cannot wait for a pipe, so there the reader has to wait.
    """
    if sys.platform == "win32":
        return True
    if not hasattr(select, "poll"):  # Python leaves it out where the one of macOS does not work
        return bool(select.select([descriptor], [], [], patience_s)[0])
    poll = select.poll()  # select takes no descriptor above 1023
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0.0, patience_s) * 1000))


def read_as_it_is(descriptor: int) -> None:
    """Read the pipe as bytes. Windows would otherwise change the ends of lines."""
    if sys.platform == "win32":
        import msvcrt
        import os

        msvcrt.setmode(descriptor, os.O_BINARY)


# A recording that ffmpeg decodes while it arrives: bytes into one pipe, WAV of floats out of another.

_LONGEST_HEADER: Final = 4096
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
        self._process.stdout.close()
        _end(self._process)
        self._listener.join(_END_S)
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
