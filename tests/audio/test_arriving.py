"""Recordings from a stream: the same samples as those of the file, in every format, without waiting for the end."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
import soundfile

from streamer.audio.arriving import ByteStream, RecordingProblem, open_recording
from streamer.audio.audio_file import Int16Samples, read_audio
from streamer.audio.frames import ProblemCode
from tests.project import SAMPLES


def arriving(data: bytes, *, separate: bool = False) -> Int16Samples:
    """What is decoded of these bytes as they come through a pipe."""
    reading, writing = os.pipe()

    def send() -> None:
        try:
            for start in range(0, len(data), 5000):
                os.write(writing, data[start : start + 5000])
        except BrokenPipeError:
            pass
        finally:
            os.close(writing)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        chunks = list(open_recording(ByteStream(reading), separate=separate).chunks())
        return np.concatenate(chunks) if chunks else np.empty((0, 1), np.int16)
    finally:
        os.close(reading)
        sender.join()


@pytest.mark.parametrize("name", ["talk.flac", "quilter.ogg", "airplane.mp3"])
def test_samples_are_those_of_the_file(name: str) -> None:
    """The samples are those of the file, bit by bit, although the stream cannot be read twice."""
    assert np.array_equal(arriving((SAMPLES / name).read_bytes())[:, 0], read_audio(SAMPLES / name))


@pytest.mark.parametrize(
    "made",
    [
        ("-c:a", "libopus", "talk.webm"),
        ("-c:a", "aac", "talk.m4a"),
        ("-c:a", "aac", "-movflags", "+faststart", "fast.m4a"),
        ("-c:a", "aac", "-movflags", "+frag_keyframe+empty_moov", "parts.mp4"),
        ("-c:a", "aac", "talk.aac"),
        ("-ar", "44100", "-ac", "2", "-c:a", "pcm_s24le", "talk.wav"),
        ("-c:a", "pcm_mulaw", "mulaw.wav"),
        ("-c:a", "pcm_s16be", "talk.aiff"),
    ],
)
@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
def test_what_ffmpeg_makes_is_read_as_from_a_file(tmp_path: Path, made: tuple[str, ...]) -> None:
    """The samples of every format are those of its file, whichever library reads it, and whether it must be whole."""
    path = tmp_path / made[-1]
    command = ("ffmpeg", "-v", "error", "-i", str(SAMPLES / "quilter.ogg"), *made[:-1], str(path))
    subprocess.run(command, check=True)
    assert np.array_equal(arriving(path.read_bytes())[:, 0], read_audio(path))


def test_channels_are_mixed_or_separate() -> None:
    """Separate channels are columns; otherwise the channels are mixed."""
    both = np.stack([np.full(8000, 1000, np.int16), np.full(8000, 3000, np.int16)], axis=1)
    file = io.BytesIO()
    soundfile.write(file, both, 16_000, format="FLAC")
    assert np.array_equal(arriving(file.getvalue(), separate=True), both)
    assert np.array_equal(arriving(file.getvalue())[:, 0], np.full(8000, 2000, np.int16))


def test_what_cannot_be_decoded_has_a_reason() -> None:
    """A recording that cannot be decoded has a sentence with the reason, and a code."""
    talk = (SAMPLES / "talk.flac").read_bytes()
    for data, code, words in (
        (b"", ProblemCode.NO_AUDIO, "empty"),
        (b"hello\n" * 9000, ProblemCode.UNKNOWN_FORMAT, "like a text"),
        (bytes(range(256)) * 99, ProblemCode.UNKNOWN_FORMAT, "cannot be read as audio"),
        (talk[: len(talk) // 2], ProblemCode.DAMAGED, "of 24.7 s can be read"),
    ):
        with pytest.raises(RecordingProblem, match=words) as raised:
            arriving(data)
        assert raised.value.code is code
