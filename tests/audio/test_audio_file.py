"""Reading recordings and pipes as int16 mono at 16 kHz."""

from __future__ import annotations

import io
import os
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import soundfile

from streamer.audio.audio_file import SAMPLE_RATE, AudioFile, pcm_from_pipe, read_audio
from streamer.audio.recording_check import AudioError, check_readable


def tone(seconds: float, rate: int, hertz: float = 440.0) -> np.ndarray:
    """A sine at a quarter of full scale."""
    return 0.25 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)


def loudest_hertz(samples: np.ndarray) -> float:
    """The frequency with the most energy."""
    spectrum = np.abs(np.fft.rfft(samples.astype(np.float64)))
    return float(spectrum.argmax() * SAMPLE_RATE / len(samples))


@pytest.fixture
def pipe():
    """Both ends of a pipe."""
    reading, writing = os.pipe()
    with io.FileIO(reading) as source, io.FileIO(writing, "w") as sink:
        yield source, sink


def test_int16_mono_at_16_khz_is_unchanged(tmp_path: Path) -> None:
    """Audio in the format of the service arrives sample for sample, including extreme values."""
    samples = np.random.default_rng(1).integers(-32768, 32768, 20_001).astype(np.int16)
    samples[:2] = (-32768, 32767)
    soundfile.write(tmp_path / "a.wav", samples, SAMPLE_RATE, subtype="PCM_16")
    assert np.array_equal(read_audio(tmp_path / "a.wav"), samples)


@pytest.mark.parametrize(
    ("name", "subtype", "rate", "channels"),
    [
        ("a.wav", "PCM_16", 44_100, 2),
        ("a.wav", "PCM_U8", 8_000, 1),
        ("a.wav", "FLOAT", 96_000, 6),
        ("a.flac", "PCM_24", 48_000, 2),
        ("a.ogg", "OPUS", 48_000, 2),
        ("a.ogg", "VORBIS", 22_050, 1),
        ("a.mp3", None, 44_100, 2),
        ("a.mp3", None, 11_025, 1),
    ],
)
def test_every_format_keeps_pitch_level_and_length(
    tmp_path: Path, name: str, subtype: str | None, rate: int, channels: int
) -> None:
    """A tone at any rate and channel count comes out as the same tone, as long and as loud, at 16 kHz."""
    audio = np.repeat(tone(2.0, rate)[:, None], channels, axis=1)
    soundfile.write(tmp_path / name, audio, rate, subtype=subtype)
    with AudioFile(tmp_path / name) as recording:
        assert recording.duration_s == pytest.approx(2.0, abs=0.1)
        samples = np.concatenate(list(recording.chunks()))
    assert samples.dtype == np.int16
    assert len(samples) == pytest.approx(2.0 * SAMPLE_RATE, rel=0.05)
    assert loudest_hertz(samples) == pytest.approx(440, abs=2)
    middle = samples[SAMPLE_RATE // 2 : SAMPLE_RATE * 3 // 2]
    assert np.sqrt(np.mean((middle / 32768) ** 2)) == pytest.approx(0.25 / np.sqrt(2), rel=0.03)


def test_channels_are_averaged(tmp_path: Path) -> None:
    """Channels are mixed in equal parts, and opposite channels cancel out."""
    left = tone(0.5, SAMPLE_RATE)
    soundfile.write(tmp_path / "a.wav", np.stack([left, -left], axis=1), SAMPLE_RATE, subtype="FLOAT")
    soundfile.write(tmp_path / "b.wav", np.stack([left, 0 * left], axis=1), SAMPLE_RATE, subtype="FLOAT")
    assert not read_audio(tmp_path / "a.wav").any()
    assert np.allclose(read_audio(tmp_path / "b.wav"), left * 16384, atol=0.51)


@pytest.mark.parametrize("rate", [16_000, 44_100, 8_000])
@pytest.mark.parametrize("name", ["a.wav", "a.mp3", "a.ogg", "a.flac"])
def test_cutting_into_blocks_changes_nothing(tmp_path: Path, name: str, rate: int) -> None:
    """Chunks of any length give the same samples as the whole at once."""
    soundfile.write(tmp_path / name, np.random.default_rng(2).normal(0, 0.1, 2 * rate + 17), rate)
    with AudioFile(tmp_path / name) as whole:
        expected = np.concatenate(list(whole.chunks(10.0)))
    for seconds in (0.013, 0.5):
        with AudioFile(tmp_path / name) as recording:
            assert np.array_equal(np.concatenate(list(recording.chunks(seconds))), expected)


def test_loud_and_broken_numbers_are_clipped(tmp_path: Path) -> None:
    """Float samples beyond full scale are clipped instead of wrapped, and NaN is silence."""
    soundfile.write(tmp_path / "a.wav", np.array([3.0, -3.0, np.nan, 0.5]), SAMPLE_RATE, subtype="FLOAT")
    assert read_audio(tmp_path / "a.wav").tolist() == [32767, -32768, 0, 16384]


def test_a_long_recording_needs_the_memory_of_one_chunk(tmp_path: Path) -> None:
    """Reading twenty minutes takes less memory than ten seconds of them."""
    with soundfile.SoundFile(tmp_path / "a.flac", "w", 16_000, 2, subtype="PCM_16") as file:
        for _ in range(120):
            file.write(np.zeros((160_000, 2), dtype=np.int16))
    tracemalloc.start()
    try:
        with AudioFile(tmp_path / "a.flac") as recording:
            total = sum(len(chunk) for chunk in recording.chunks())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total == 20 * 60 * SAMPLE_RATE
    assert peak < 640_000


def test_each_mistake_has_its_own_sentence(tmp_path: Path) -> None:
    """Every kind of unusable file has its own message, which names the file."""
    (tmp_path / "empty.wav").touch()
    (tmp_path / "notes.txt").write_text("hello " * 1000)
    (tmp_path / "notes.mp3").write_text("hello " * 20_000)
    (tmp_path / "raw.raw").write_bytes(bytes(1000))
    soundfile.write(tmp_path / "silent.wav", np.zeros(0), SAMPLE_RATE)
    os.mkfifo(tmp_path / "pipe.wav")
    for name, words in {
        "missing.wav": "no such file",
        "a\0b.wav": "cannot be opened",
        ".": "is a folder",
        "empty.wav": "is empty",
        "notes.txt": "cannot be read as audio",
        "notes.mp3": "cannot be read as audio",
        "raw.raw": "cannot be read as audio",
        "silent.wav": "not one sample",
        "pipe.wav": "not a regular file",
    }.items():
        path = f"{tmp_path}/{name}"
        with pytest.raises(AudioError, match=words) as caught:
            AudioFile(path)
        assert path in str(caught.value)
        assert "\n" not in str(caught.value)


def test_text_called_mp3_says_nothing_by_itself(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Complaints of the MP3 decoder do not reach the terminal."""
    (tmp_path / "notes.mp3").write_text("hello " * 20_000)
    with pytest.raises(AudioError):
        AudioFile(tmp_path / "notes.mp3")
    assert capfd.readouterr() == ("", "")


def test_check_readable_looks_only_at_the_file(tmp_path: Path) -> None:
    """The quick check accepts any file that is not empty, and refuses missing files."""
    (tmp_path / "notes.txt").write_text("hello")
    check_readable(f"{tmp_path}/notes.txt")
    with pytest.raises(AudioError, match="no such file"):
        check_readable(f"{tmp_path}/missing.wav")


@pytest.mark.parametrize("keep", [20, 30, 43])
def test_a_header_that_breaks_off_is_refused(tmp_path: Path, keep: int) -> None:
    """A file shorter than a WAV header is refused."""
    soundfile.write(tmp_path / "a.wav", tone(1.0, SAMPLE_RATE), SAMPLE_RATE)
    (tmp_path / "b.wav").write_bytes((tmp_path / "a.wav").read_bytes()[:keep])
    with pytest.raises(AudioError, match=r"cannot be read as audio|not one sample"):
        AudioFile(tmp_path / "b.wav")


def test_a_header_with_a_nonsense_rate_is_refused(tmp_path: Path) -> None:
    """A sample rate of 7 Hz is refused: it would take 2000 times the size of the file in memory."""
    soundfile.write(tmp_path / "a.wav", tone(1.0, SAMPLE_RATE), 7)
    with pytest.raises(AudioError, match="7 samples a second"):
        AudioFile(tmp_path / "a.wav")


def test_a_cut_wav_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    """A recording that was broken off gives the samples that it has, though its header promises more."""
    samples = np.arange(SAMPLE_RATE, dtype=np.int16)
    soundfile.write(tmp_path / "a.wav", samples, SAMPLE_RATE)
    whole = (tmp_path / "a.wav").read_bytes()
    (tmp_path / "b.wav").write_bytes(whole[: len(whole) - 2 * 6000])
    assert np.array_equal(read_audio(tmp_path / "b.wav"), samples[:10_000])


@pytest.mark.parametrize(("name", "subtype"), [("a.flac", "PCM_16"), ("a.ogg", "VORBIS")])
def test_damage_in_the_middle_is_reported_after_the_good_part(tmp_path: Path, name: str, subtype: str) -> None:
    """Audio before the damage is delivered; then one sentence says how much could be read."""
    noise = np.random.default_rng(3).normal(0, 0.1, 10 * SAMPLE_RATE)
    soundfile.write(tmp_path / name, noise, SAMPLE_RATE, subtype=subtype)
    data = bytearray((tmp_path / name).read_bytes())
    data[len(data) // 3 : len(data) * 2 // 3] = bytes(len(data) * 2 // 3 - len(data) // 3)
    (tmp_path / name).write_bytes(data)
    heard: list[int] = []
    with AudioFile(tmp_path / name) as recording, pytest.raises(AudioError, match="is damaged: only"):
        heard.extend(len(chunk) for chunk in recording.chunks())
    assert 2 * SAMPLE_RATE < sum(heard) < 9 * SAMPLE_RATE


def test_a_pipe_is_read_as_it_comes(pipe: tuple[io.FileIO, io.FileIO]) -> None:
    """Bytes divided anywhere, even within a sample, give the samples while the pipe is open."""
    source, sink = pipe
    samples = np.arange(-5, 5, dtype="<i2").tobytes()
    chunks = pcm_from_pipe(source.fileno())
    sink.write(samples[:7])
    assert next(chunks).tolist() == [-5, -4, -3]
    sink.write(samples[7:])
    sink.close()
    assert np.concatenate(list(chunks)).tolist() == [-2, -1, 0, 1, 2, 3, 4]


def test_a_silent_pipe_gives_empty_chunks(pipe: tuple[io.FileIO, io.FileIO]) -> None:
    """A pipe with nothing in it does not block its reader."""
    source, sink = pipe
    chunks = pcm_from_pipe(source.fileno())
    assert len(next(chunks)) == 0
    threading.Timer(0.1, lambda: sink.write(b"\1\0")).start()
    assert next(chunk for chunk in chunks if len(chunk)).tolist() == [1]


@pytest.mark.parametrize(
    ("sent", "words"),
    [(b"", "is empty"), (b"\1\2\3", "3 bytes do not divide by 2"), (b"RIFF" + bytes(60), "not raw PCM")],
)
def test_what_is_wrong_with_a_pipe_is_said(pipe: tuple[io.FileIO, io.FileIO], sent: bytes, words: str) -> None:
    """No bytes, half a sample, or an audio file in the pipe are refused in one sentence."""
    source, sink = pipe
    sink.write(sent)
    sink.close()
    with pytest.raises(AudioError, match=words):
        list(pcm_from_pipe(source.fileno()))
