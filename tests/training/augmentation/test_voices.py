"""Other voices have their resonances elsewhere."""

from __future__ import annotations

import pytest
import torch

from streamer.engine.models.features import mel_centres
from streamer.training.augmentation.voices import with_other_voices

CENTRES = mel_centres(80).float()


def peak(hertz: float, factor: float) -> float:
    """Return where a resonance at this frequency is in another voice."""
    mel = torch.zeros(1, 1, 80)
    mel[0, 0, (CENTRES - hertz).abs().argmin()] = 1.0
    found = with_other_voices(mel, torch.tensor([factor]))[0, 0]
    return float((found * CENTRES).sum() / found.sum())


@pytest.mark.parametrize("hertz", [500, 1500, 3500])
@pytest.mark.parametrize("factor", [0.88, 1.12])
def test_resonances_are_moved_by_the_factor(hertz: float, factor: float) -> None:
    """All resonances of a voice move by one factor."""
    assert peak(hertz, factor) / peak(hertz, 1.0) == pytest.approx(factor, rel=0.02)


def test_the_highest_frequencies_stay_in_the_band() -> None:
    """High frequencies move less, so that none is lost."""
    for factor in (0.88, 1.12):
        assert peak(7300, factor) / peak(7300, 1.0) == pytest.approx(1.0, abs=0.04)
        flat = with_other_voices(torch.full((1, 3, 80), 0.7), torch.tensor([factor]))
        torch.testing.assert_close(flat, torch.full((1, 3, 80), 0.7))


def test_each_row_has_its_own_voice() -> None:
    """A factor of 1 changes nothing, and every row has its own factor."""
    mel = torch.randn(2, 5, 80)
    found = with_other_voices(mel, torch.tensor([1.0, 1.1]))
    torch.testing.assert_close(found[0], mel[0])
    torch.testing.assert_close(found[1:], with_other_voices(mel[1:], torch.tensor([1.1])))
    assert not torch.allclose(found[1], mel[1])
