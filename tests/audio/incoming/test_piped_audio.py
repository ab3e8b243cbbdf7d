"""Reading pipes: raw samples, and files of all formats."""

from __future__ import annotations

import fcntl
import io
import os
import resource
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from streamer.audio.audio_file import SAMPLE_RATE, read_audio
from streamer.audio.incoming.piped_audio import PipedAudio
from streamer.audio.recording_check import AudioError

Pipe = tuple[io.FileIO, io.FileIO]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """Both ends of a pipe."""
    reading, writing = os.pipe()
    with io.FileIO(reading) as source, io.FileIO(writing, "w") as sink:
        yield source, sink


def heard(pipe: Pipe, data: bytes, **options: Any) -> NDArray[Any]:
    """The audio from these bytes, written in pieces."""
    source, sink = pipe

    def write() -> None:
        with suppress(BrokenPipeError):  # the reader may notice the mistake before the end
            for place in range(0, len(data), 4001):
                sink.write(data[place : place + 4001])
        sink.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        return np.concatenate([chunk for chunk in PipedAudio(source.fileno(), **options).chunks() if len(chunk)])
    finally:
        source.close()  # so the writer is not blocked
        writer.join()


def test_a_pipe_is_read_as_it_comes(pipe: Pipe) -> None:
    """Bytes that are divided anywhere, even within a sample, give samples while the pipe is open."""
    source, sink = pipe
    samples = np.arange(-10, 10, dtype="<i2").tobytes()
    chunks = PipedAudio(source.fileno()).chunks()
    sink.write(samples[:15])
    assert next(chunks).tolist() == [-10, -9, -8, -7, -6, -5, -4]
    sink.write(samples[15:])
    sink.close()
    assert np.concatenate(list(chunks)).tolist() == list(range(-3, 10))


def test_any_descriptor_can_be_read(pipe: Pipe) -> None:
    """A program with thousands of open files has descriptors of 1024 and more."""
    source, sink = pipe
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with io.FileIO(fcntl.fcntl(source, fcntl.F_DUPFD, 1024)) as high:
            sink.write(b"\1\0" * 10)
            sink.close()
            assert np.concatenate(list(PipedAudio(high.fileno()).chunks())).tolist() == [1] * 10
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_silent_pipe_gives_empty_chunks(pipe: Pipe) -> None:
    """Reading an empty pipe does not block."""
    source, sink = pipe
    chunks = PipedAudio(source.fileno()).chunks()
    assert len(next(chunks)) == 0
    threading.Timer(0.1, lambda: sink.write(b"\1\0" * 10)).start()
    assert next(chunk for chunk in chunks if len(chunk)).tolist() == [1] * 10


@pytest.mark.parametrize(
    ("sent", "options", "words"),
    [
        (b"", {}, "is empty"),
        (b"\1\2\3", {}, "3 bytes do not divide by 2"),
        (b"RIFF" + bytes(60), {"encoding": "mulaw"}, "leave out --encoding and --sample-rate"),
        (b"RIFF" + bytes(60), {}, "cannot be read as audio"),
    ],
)
def test_what_is_wrong_with_a_pipe_is_said(pipe: Pipe, sent: bytes, options: dict[str, Any], words: str) -> None:
    """No bytes, half a sample and broken files are each refused with one sentence."""
    with pytest.raises(AudioError, match=words) as caught:
        heard(pipe, sent, **options)
    assert str(caught.value).startswith("standard input ")


@pytest.mark.parametrize(
    ("name", "subtype", "rate", "channels"),
    [
        ("a.wav", "PCM_16", 16_000, 1),
        ("a.wav", "PCM_16", 44_100, 2),
        ("a.wav", "PCM_24", 48_000, 2),
        ("a.wav", "FLOAT", 22_050, 1),
        ("a.wav", "ULAW", 8_000, 1),
        ("a.wav", "ALAW", 8_000, 2),
        ("a.flac", "PCM_16", 16_000, 1),
        ("a.ogg", "OPUS", 48_000, 1),
        ("a.mp3", None, 44_100, 2),
        ("a.mp3", None, 16_000, 1),
    ],
)
def test_files_in_a_pipe(
    pipe: Pipe,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    subtype: str | None,
    rate: int,
    channels: int,
) -> None:
    """For every format the samples are those of the file, and no temporary file is left."""
    sound = np.random.default_rng(1).normal(0, 0.1, (rate * 2, channels))
    soundfile.write(tmp_path / name, sound, rate, subtype=subtype)
    expected = read_audio(tmp_path / name)
    own = tmp_path / "temporary"
    own.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(own))
    assert np.array_equal(heard(pipe, (tmp_path / name).read_bytes()), expected)
    assert not list(own.iterdir())


def test_wav_is_heard_while_it_is_recorded(pipe: Pipe, tmp_path: Path) -> None:
    """A WAV header without a length is accepted, and audio is recognised before the end."""
    samples = np.arange(4000, dtype=np.int16)
    soundfile.write(tmp_path / "a.wav", samples, SAMPLE_RATE)
    whole = (tmp_path / "a.wav").read_bytes().replace((8000).to_bytes(4, "little"), b"\xff\xff\xff\x7f")
    source, sink = pipe
    chunks = PipedAudio(source.fileno()).chunks()
    sink.write(whole[:2044])
    first = next(chunk for chunk in chunks if len(chunk))
    assert np.array_equal(first, samples[:1000])
    sink.write(whole[2044:])
    sink.close()
    assert np.array_equal(np.concatenate(list(chunks)), samples[1000:])


def test_what_follows_the_samples_is_not_heard(pipe: Pipe, tmp_path: Path) -> None:
    """Other chunks after the samples of a WAV file are ignored."""
    samples = np.arange(4000, dtype=np.int16)
    soundfile.write(tmp_path / "a.wav", samples, SAMPLE_RATE)
    notes = b"LIST" + (4000).to_bytes(4, "little") + b"x" * 4000
    assert np.array_equal(heard(pipe, (tmp_path / "a.wav").read_bytes() + notes), samples)


def test_a_wav_that_breaks_off(pipe: Pipe, tmp_path: Path) -> None:
    """Audio before the break is recognised; then one sentence says how much is missing, as for a file."""
    soundfile.write(tmp_path / "a.wav", np.zeros(SAMPLE_RATE), SAMPLE_RATE)
    with pytest.raises(AudioError, match=r"standard input is damaged: only 0\.5 of 1\.0 s can be read"):
        heard(pipe, (tmp_path / "a.wav").read_bytes()[:16_044])


def test_channels_that_were_not_told(pipe: Pipe, tmp_path: Path) -> None:
    """If the number of channels is wrong, the message says which argument to give."""
    soundfile.write(tmp_path / "a.wav", np.zeros((1000, 2)), SAMPLE_RATE)
    with pytest.raises(AudioError, match="has 2 channels: give --input-channels 2"):
        heard(pipe, (tmp_path / "a.wav").read_bytes(), separate=True)


def test_channels_that_were_told(pipe: Pipe, tmp_path: Path) -> None:
    """Each channel is a column."""
    both = np.stack([np.arange(1000), -np.arange(1000)], axis=1).astype(np.int16)
    soundfile.write(tmp_path / "a.wav", both, SAMPLE_RATE)
    assert np.array_equal(heard(pipe, (tmp_path / "a.wav").read_bytes(), separate=True, channels=2), both)


def test_an_end_that_was_asked_for(pipe: Pipe, tmp_path: Path) -> None:
    """An early end is like the end of the pipe, also for formats that are decoded as a whole."""
    sound = np.random.default_rng(1).normal(0, 0.1, 2 * SAMPLE_RATE)
    soundfile.write(tmp_path / "a.flac", sound, SAMPLE_RATE)
    source, sink = pipe
    ended = threading.Event()
    chunks = PipedAudio(source.fileno(), end=ended).chunks()
    sink.write((tmp_path / "a.flac").read_bytes()[:60_000])
    assert len(next(chunks)) == 0
    ended.set()
    assert np.array_equal(np.concatenate(list(chunks)), read_audio(tmp_path / "a.flac"))
