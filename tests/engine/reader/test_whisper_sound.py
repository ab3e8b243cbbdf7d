"""The spectrum of Whisper shows where sound is, in time and in frequency."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.engine.reader.whisper_sound import RATE, spectrum


@pytest.mark.parametrize(("hertz", "band"), [(200, 4), (1_000, 26), (4_000, 62)])
def test_a_tone_is_in_one_band(hertz: int, band: int) -> None:
    """Bands are as wide as Slaney's scale says: 80 of them up to 8000 Hz."""
    tone = 0.5 * np.sin(2 * np.pi * hertz * np.arange(RATE) / RATE)
    heard = spectrum(tone.astype(np.float32), 80)
    assert heard.shape == (80, 100)
    assert abs(int(heard[:, 50].argmax()) - band) <= 1


def test_sound_is_where_it_was() -> None:
    """A frame is 10 ms, and silence is two below the loudest band."""
    sound = np.zeros(RATE, np.float32)
    sound[8_000:8_160] = np.random.default_rng(1).normal(size=160) / 4
    loud = spectrum(sound, 128).max(axis=0)
    assert abs(int(loud.argmax()) - 50) <= 1
    assert loud[:48].max() == pytest.approx(loud.max() - 2)


@pytest.mark.parametrize("samples", [1, 159, 800, 801])
def test_any_length_has_frames(samples: int) -> None:
    """The last part of a frame is left out, but there is always one."""
    heard = spectrum(np.ones(samples, np.float32) / 2, 80)
    assert heard.shape == (80, max(1, samples // 160))
    assert np.isfinite(heard).all()
