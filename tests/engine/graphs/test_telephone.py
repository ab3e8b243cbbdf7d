"""Samples at 8 kHz from samples at 16 kHz."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.audio.sample_converter import SampleConverter
from streamer.engine.graphs.telephone import TelephoneSamples, halved
from streamer.graphs.layout import FRAME_LEAD


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
