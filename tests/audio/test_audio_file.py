"""Reading recordings and pipes as int16 mono at 16 kHz."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from streamer.audio.audio_file import SAMPLE_RATE, AudioFile, read_audio
from streamer.audio.recordings import AudioError, check_readable


def tone(seconds: float, rate: int, hertz: float = 440.0) -> NDArray[Any]:
    """A sine at a quarter of full scale."""
    return 0.25 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)


def loudest_hertz(samples: NDArray[Any]) -> float:
    """The frequency with the most energy."""
    spectrum = np.abs(np.fft.rfft(samples.astype(np.float64)))
    return float(spectrum.argmax() * SAMPLE_RATE / len(samples))


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


@pytest.mark.parametrize("format", ["WAV", "RF64", "WAVEX"])
def test_a_cut_wav_is_read_as_far_as_it_goes(tmp_path: Path, format: str) -> None:
    """A truncated recording gives the samples that it has; then one sentence says how many are missing."""
    samples = np.arange(SAMPLE_RATE, dtype=np.int16)
    soundfile.write(tmp_path / "a.wav", samples, SAMPLE_RATE, format=format)
    whole = (tmp_path / "a.wav").read_bytes()
    (tmp_path / "b.wav").write_bytes(whole[: len(whole) - 2 * 6000])
    heard: list[NDArray[Any]] = []
    with AudioFile(tmp_path / "b.wav") as recording, pytest.raises(AudioError) as caught:
        heard.extend(recording.chunks())
    assert str(caught.value) == f"{tmp_path}/b.wav is damaged: only 0.6 of 1.0 s can be read."
    assert np.array_equal(np.concatenate(heard), samples[:10_000])


@pytest.mark.parametrize("size", [0, 0x7FFFF000, 0x80000000, 0xFFFFFFFF])
def test_a_header_that_does_not_know_the_length_promises_nothing(tmp_path: Path, size: int) -> None:
    """If the header has no length because it was written too early, all samples are read."""
    samples = np.arange(SAMPLE_RATE, dtype=np.int16)
    soundfile.write(tmp_path / "a.wav", samples, SAMPLE_RATE)
    whole = bytearray((tmp_path / "a.wav").read_bytes())
    place = whole.index(b"data") + 4
    whole[place : place + 4] = size.to_bytes(4, "little")
    (tmp_path / "a.wav").write_bytes(whole)
    assert np.array_equal(read_audio(tmp_path / "a.wav"), samples)


def test_flac_without_a_length_is_read_to_its_end(tmp_path: Path) -> None:
    """FLAC from a pipe has no length in its header. All of it is read, and only damage that shows is reported."""
    samples = np.random.default_rng(4).integers(-9000, 9000, 10 * SAMPLE_RATE).astype(np.int16)
    path = tmp_path / "a.flac"
    soundfile.write(path, samples, SAMPLE_RATE)
    content = bytearray(path.read_bytes())
    content[21] &= 0xF0  # the lower half of this byte and the next four are the number of samples
    content[22:26] = bytes(4)
    path.write_bytes(content)
    with AudioFile(path) as recording:
        assert recording.duration_s is None
        assert np.array_equal(np.concatenate(list(recording.chunks())), samples)
    third = len(content) // 3
    content[third : 2 * third] = bytes(third)
    path.write_bytes(content)
    with AudioFile(path) as recording, pytest.raises(AudioError, match=r"is damaged: only \d\.\d s can be read"):
        list(recording.chunks())


@pytest.mark.parametrize("subtype", ["OPUS", "VORBIS"])
def test_an_ogg_file_without_its_end_mark_may_be_cut(tmp_path: Path, subtype: str) -> None:
    """Only the missing end mark shows that an Ogg file may be truncated; a complete one has the mark."""
    soundfile.write(tmp_path / "a.ogg", tone(20.0, 48_000), 48_000, subtype=subtype)
    data = (tmp_path / "a.ogg").read_bytes()
    last = data.rindex(b"OggS")
    for length, cut in ((len(data), False), (len(data) - 1, True), (last, True), (last + 10, True)):
        (tmp_path / "b.ogg").write_bytes(data[:length])
        with AudioFile(tmp_path / "b.ogg") as recording:
            assert recording.may_be_cut is cut


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
