"""Decoding audio of clients: any encoding, rate and chunking, to int16 at 16 kHz."""

from __future__ import annotations

import io
import random
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from streamer.audio.decoder import ENCODINGS, SAMPLE_RATE, AudioDecoder, Int16Samples

RATES = (8_000, 11_025, 16_000, 22_050, 44_100, 48_000)


def audio(rate: int, channels: int = 1, seconds: float = 0.7) -> NDArray[Any]:
    """Tones and noise, different in each channel, as [samples, channels]."""
    time = np.arange(round(rate * seconds)) / rate
    noise = np.random.default_rng(1).normal(0, 0.03, (len(time), channels))
    return 0.3 * np.sin(2 * np.pi * 440 * np.outer(time, 1 + np.arange(channels))) + noise


def encoded(samples: NDArray[Any], encoding: str) -> bytes:
    """The samples as a client sends them; G.711 by libsndfile."""
    if encoding == "pcm_f32le":
        return samples.astype("<f4").tobytes()
    if encoding == "pcm_s16le":
        return np.rint(samples * 32767).astype("<i2").tobytes()
    file = io.BytesIO()
    subtype = {"mulaw": "ULAW", "alaw": "ALAW"}[encoding]
    soundfile.write(file, samples, 8000, format="RAW", subtype=subtype)
    return file.getvalue()


def decoded(decoder: AudioDecoder, data: bytes, sizes: list[int] | None = None) -> list[Int16Samples]:
    """The output of a decoder for this data in chunks of these sizes, and the rest."""
    parts: list[list[Int16Samples]] = [[] for _ in range(decoder.streams)]
    place = 0
    for size in (*(sizes or ()), len(data)):
        for stream, chunk in zip(parts, decoder.decode(data[place : place + size]), strict=True):
            stream.append(chunk)
        place += size
    for stream, chunk in zip(parts, decoder.finish(), strict=True):
        stream.append(chunk)
    return [np.concatenate(stream) for stream in parts]


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("rate", RATES)
def test_any_chunking_gives_the_same_samples(rate: int, encoding: str, channels: int) -> None:
    """Chunks of any size give the same to the last bit, mixed and separate, even empty ones or split samples."""
    data = encoded(audio(rate, channels), encoding)
    dice = random.Random(rate)
    for separate in (False, True):
        whole = decoded(AudioDecoder(encoding, rate, channels, separate=separate), data)
        assert len(whole) == (channels if separate else 1)
        assert len(whole[0]) == pytest.approx(0.7 * SAMPLE_RATE, abs=1)
        for sizes in ([1, 2, 3] * 50, [rate // 50 * 2] * 100, [dice.randrange(9000) for _ in range(60)]):
            pieces = decoded(AudioDecoder(encoding, rate, channels, separate=separate), data, sizes)
            assert all(np.array_equal(piece, stream) for piece, stream in zip(pieces, whole, strict=True))


@pytest.mark.parametrize("rate", [8_000, 44_100, 48_000])
def test_no_click_at_the_border_of_a_piece(rate: int) -> None:
    """A tone in chunks of 20 ms comes out as the pure tone."""
    time = np.arange(rate) / rate
    data = (0.5 * np.sin(2 * np.pi * 440 * time)).astype("<f4").tobytes()
    [tone] = decoded(AudioDecoder("pcm_f32le", rate), data, [rate // 50 * 4] * 50)
    middle = tone[800:-800] / 32768
    at = np.arange(len(middle)) / SAMPLE_RATE
    waves = np.stack([np.sin(2 * np.pi * 440 * at), np.cos(2 * np.pi * 440 * at)], axis=1)
    weights = np.linalg.lstsq(waves, middle, rcond=None)[0]
    assert np.hypot(*weights) == pytest.approx(0.5, abs=1e-4)
    assert np.abs(middle - waves @ weights).max() < 1.5 / 32768


def test_what_is_above_8_khz_does_not_come_back_as_something_else() -> None:
    """A tone of 9.5 kHz at 48 kHz is inaudible at 16 kHz."""
    time = np.arange(48_000) / 48_000
    data = (0.5 * np.sin(2 * np.pi * 9_500 * time)).astype("<f4").tobytes()
    [chunk] = decoded(AudioDecoder("pcm_f32le", 48_000), data)
    assert np.abs(chunk[800:-800]).max() <= 1


@pytest.mark.parametrize("rate", RATES)
def test_what_is_held_back_is_short(rate: int) -> None:
    """The decoder holds back at most 240 samples of the client, 30 ms of telephone speech."""
    decoder = AudioDecoder("pcm_s16le", rate)
    data = encoded(audio(rate, seconds=2.0), "pcm_s16le")
    size = rate // 100 * 2
    out = 0
    for place in range(0, len(data), size):
        out += len(decoder.decode(data[place : place + size])[0])
        assert min(place + size, len(data)) / 2 / rate - out / SAMPLE_RATE < 0.0315


@pytest.mark.parametrize("rate", [11_025, 44_100, 12_345, 191_999])
def test_times_do_not_drift(rate: int) -> None:
    """Two minutes at an odd rate are two minutes at 16 kHz, to the sample."""
    decoder = AudioDecoder("alaw", rate)
    second = bytes([0xD5]) * rate
    samples = sum(len(decoder.decode(second)[0]) for _ in range(120)) + len(decoder.finish()[0])
    assert abs(samples - 120 * SAMPLE_RATE) <= 1


def test_16_khz_int16_is_as_it_is() -> None:
    """Audio in the format of the service arrives sample for sample, each channel in its stream."""
    samples = np.random.default_rng(2).integers(-32768, 32768, (5000, 3)).astype("<i2")
    streams = decoded(AudioDecoder("pcm_s16le", SAMPLE_RATE, 3, separate=True), samples.tobytes(), [7] * 99)
    assert np.array_equal(np.stack(streams, axis=1), samples)
    [alone] = decoded(AudioDecoder("pcm_s16le", SAMPLE_RATE), samples.tobytes(), [7] * 99)
    assert np.array_equal(alone, samples.ravel())


@pytest.mark.parametrize(("encoding", "subtype"), [("mulaw", "ULAW"), ("alaw", "ALAW")])
def test_g711_is_what_libsndfile_reads(encoding: str, subtype: str) -> None:
    """All 256 codes of both laws are decoded as libsndfile does."""
    codes = bytes(range(256))
    expected, _ = soundfile.read(
        io.BytesIO(codes), samplerate=8000, channels=1, format="RAW", subtype=subtype, dtype="int16"
    )
    [chunk] = decoded(AudioDecoder(encoding, SAMPLE_RATE), codes)
    assert np.array_equal(chunk, expected)


@pytest.mark.parametrize(
    ("encoding", "code", "value"),
    [
        ("mulaw", 0xFF, 0),
        ("mulaw", 0x7F, 0),
        ("mulaw", 0xFE, 8),
        ("mulaw", 0x80, 32_124),
        ("mulaw", 0x00, -32_124),
        ("alaw", 0xD5, 8),
        ("alaw", 0x55, -8),
        ("alaw", 0xAA, 32_256),
        ("alaw", 0x2A, -32_256),
    ],
)
def test_g711_in_the_table_of_the_standard(encoding: str, code: int, value: int) -> None:
    """The smallest and the largest values of ITU-T G.711, in 16 bits."""
    assert decoded(AudioDecoder(encoding, SAMPLE_RATE), bytes([code]))[0].tolist() == [value]


@pytest.mark.parametrize("rate", [16_000, 48_000])
def test_broken_numbers_stay_where_they_are(rate: int) -> None:
    """NaN, infinities and far too loud samples are clipped or silent, and do not affect later audio."""
    samples = audio(rate, seconds=1.0).astype("<f4")
    broken = samples.copy()
    broken[:4, 0] = (np.nan, np.inf, -np.inf, 3e38)
    [good] = decoded(AudioDecoder("pcm_f32le", rate), samples.tobytes())
    [bad] = decoded(AudioDecoder("pcm_f32le", rate), broken.tobytes())
    assert np.abs(good[1000:].astype(int) - bad[1000:]).max() <= 1
    two = np.concatenate([broken, -broken], axis=1)
    [mixed] = decoded(AudioDecoder("pcm_f32le", rate, 2), two.tobytes())
    assert not mixed.any()


def test_channels_are_averaged_or_apart() -> None:
    """Channels are mixed in equal parts; separate channels are the same as alone."""
    samples = audio(44_100, 3)
    data = encoded(samples, "pcm_f32le")
    streams = decoded(AudioDecoder("pcm_f32le", 44_100, 3, separate=True), data)
    for channel, stream in enumerate(streams):
        [alone] = decoded(AudioDecoder("pcm_f32le", 44_100), encoded(samples[:, channel], "pcm_f32le"))
        assert np.array_equal(stream, alone)
    [mix] = decoded(AudioDecoder("pcm_f32le", 44_100, 3), data)
    assert np.allclose(mix, np.mean(streams, axis=0), atol=1.5)


def test_half_a_frame_is_told_and_left_out() -> None:
    """Incomplete frames wait for the rest, and are dropped at the end."""
    decoder = AudioDecoder("pcm_s16le", SAMPLE_RATE, 2, separate=True)
    assert [chunk.tolist() for chunk in decoder.decode(bytes(6))] == [[0], [0]]
    assert (decoder.frame_bytes, decoder.in_frame, decoder.received_bytes) == (4, True, 6)
    assert [chunk.tolist() for chunk in decoder.decode(b"\1\0")] == [[0], [1]]
    assert not decoder.in_frame
    assert [chunk.tolist() for chunk in decoder.finish()] == [[], []]


@pytest.mark.parametrize(
    ("encoding", "rate", "channels"), [("pcm_s16le", 16_000, 1), ("mulaw", 8000, 1), ("pcm_s16le", 16_000, 2)]
)
def test_samples_as_bytes(encoding: str, rate: int, channels: int) -> None:
    """As bytes, the samples of any chunks are those that decode() returns, and incomplete frames wait as well."""
    data = np.random.default_rng(1).integers(0, 256, 4800, np.uint8).tobytes()
    arrays, plain = (AudioDecoder(encoding, rate, channels, separate=True) for _ in range(2))
    for size in (640, 1, 3, 320, 7, 1000):
        assert plain.pcm(data[:size]) == [samples.tobytes() for samples in arrays.decode(data[:size])]
        assert (plain.received_bytes, plain.in_frame) == (arrays.received_bytes, arrays.in_frame)
