"""The features of public models."""

from __future__ import annotations

import kaldi_native_fbank as knf
import numpy as np
import pytest

from streamer.audio.decoder import SampleConverter
from streamer.engine.public.graph_model import Fbank, TelephoneSamples, halved, normalised
from streamer.models.layout import FRAME_LEAD, FRAME_SHIFT, Features

FRAMES, STEP = 45, 32


def test_windows_have_the_frames_of_the_whole() -> None:
    """The frames of every window, beside any others, have the same bits as the frames of the whole sound."""
    sound = np.random.default_rng(0).integers(-9000, 9000, 40_000, dtype=np.int16)
    options = knf.FbankOptions()
    options.frame_opts.dither = 0
    options.frame_opts.snip_edges = False
    options.mel_opts.num_bins, options.mel_opts.high_freq = 80, -400
    whole = knf.OnlineFbank(options)
    whole.accept_waveform(16_000, sound.astype(np.float32) / 32768)
    mirrored = np.concatenate((sound[FRAME_LEAD - 1 :: -1], sound))
    length = (FRAMES - 1) * FRAME_SHIFT + 400
    windows = np.stack([mirrored[step * STEP * FRAME_SHIFT :][:length] for step in range(6)])
    features = Fbank(Features.KALDI, 80)
    for company in ([0], [3, 1], [5, 4, 3, 2, 1, 0]):
        for row, window in zip(features(windows[company]), company, strict=True):
            assert all((row[frame] == whole.get_frame(window * STEP + frame)).all() for frame in range(FRAMES))


@pytest.mark.parametrize("frames", [1, 2, 5, 8, 104])
def test_normalised_features(frames: int) -> None:
    """Each number of a frame has the mean 0 and the deviation 1 in its window, with the same bits in any company."""
    windows = np.random.default_rng(0).normal(-8, 3, (5, frames, 80)).astype(np.float32)
    found = normalised(windows)
    exact = windows.astype(float)
    spread = np.sqrt(np.square(exact).mean(axis=1, keepdims=True) - np.square(exact.mean(axis=1, keepdims=True)))
    if frames > 1:
        assert np.abs(found - (exact - exact.mean(axis=1, keepdims=True)) / (spread + 1e-5)).max() < 1e-3
    else:
        assert not found.any()
    for company in ([0], [3, 1], [4, 3, 2, 1, 0]):
        assert np.array_equal(normalised(windows[company]), found[company])


def test_windows_have_the_samples_of_the_whole() -> None:
    """The samples of every window, beside any others, are those of the whole sound."""
    sound = np.random.default_rng(0).integers(-32_768, 32_768, 4800 * 4 + 2 * FRAME_LEAD).astype(np.int16)
    windows = np.stack([sound[4800 * step :][: 4800 + 2 * FRAME_LEAD] for step in range(4)])
    whole = TelephoneSamples()(sound[None])
    for company in ([0], [3, 1], [3, 2, 1, 0]):
        for row, step in zip(TelephoneSamples()(windows[company]), company, strict=True):
            assert row.shape == (2400, 1)
            assert (row == whole[0, 2400 * step :][:2400]).all()


@pytest.mark.parametrize(("height", "passes"), [(100, 1.0), (1000, 1.0), (3400, 1.0), (4100, 0.0), (7000, 0.0)])
def test_what_passes(height: int, passes: float) -> None:
    """Tones that a telephone carries pass as they are, at their time; none above half of the rate is left."""
    at = np.arange(-FRAME_LEAD, 16_000 + FRAME_LEAD)
    tone = np.round(20_000 * np.sin(2 * np.pi * height * at / 16_000)).astype(np.int16)
    assert np.abs(halved(tone) - passes * tone[FRAME_LEAD:-FRAME_LEAD:2]).max() < 12


def test_the_loudest_samples() -> None:
    """Values of the filter that are louder than a sample can be are clipped, and do not wrap around."""
    square = np.repeat([32_767, -32_768], 40)[np.arange(4800 + 2 * FRAME_LEAD) % 80].astype(np.int16)
    heard = TelephoneSamples()(square[None])[0, :, 0]
    assert heard.max() == 32_766
    assert heard.min() == -32_767
    assert (np.sign(heard[2:18]) == 1 - 2 * (FRAME_LEAD // 40 % 2)).all()


def test_a_call_stays_as_it_was() -> None:
    """Audio at 8 kHz reaches the model almost unchanged, although the service converts it to 16 kHz."""
    at = np.arange(16_000) / 8000
    call = sum(3000 * np.sin(2 * np.pi * height * at + height) for height in (300, 800, 1500, 2500, 3200))
    converted = SampleConverter(8000, 1).convert((call[:, None] / 32_768).astype(np.float32), last=True)[:, 0]
    heard = halved(np.concatenate((np.zeros(FRAME_LEAD, np.int16), converted)))
    assert np.abs(heard[200:-200] - call[200 : len(heard) - 200]).max() < 4
