"""Augmented audio is still valid audio."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from streamer.training.augmentation.augmentation import Augmentation
from streamer.training.augmentation.conditions import CONDITIONS, Conditions
from streamer.training.data.corpus import Corpus
from tests.training.acoustic.tiny_run import CPU, make_work


@pytest.mark.parametrize("conditions", CONDITIONS.values(), ids=CONDITIONS)
def test_augmented_audio_stays_audio(tmp_path: Path, conditions: Conditions) -> None:
    """Augmented audio is finite, within full scale and as long as before; features keep their shape."""
    work = make_work(tmp_path)
    augmentation = Augmentation(Corpus(work, "noise"), Corpus(work, "rooms"), CPU, conditions)
    generator = torch.Generator().manual_seed(0)
    samples = torch.randn(40, 8000) * 0.05
    samples[0] = 0
    changed = augmentation.audio(samples, generator)
    assert changed.shape == samples.shape
    assert torch.isfinite(changed).all()
    assert changed.abs().max() <= 1
    masked = augmentation.mel(torch.ones(4, 200, 80), torch.tensor([50, 50, 20, 1]), generator)
    assert 0 < masked.mean() < 1


def test_each_row_gets_its_own_noise_within_bounds(tmp_path: Path) -> None:
    """Noise is 5 to 30 dB below the speech of its row, and without noise rows only become louder or quieter."""
    work = make_work(tmp_path)
    samples = torch.randn(60, 8000) * torch.logspace(-2, -0.7, 60).unsqueeze(1)
    left: dict[float, list[float]] = {}
    for chance in (0.0, 1.0):
        conditions = Conditions(room=0, line=0, noise=chance)
        augmentation = Augmentation(Corpus(work, "noise"), Corpus(work, "rooms"), CPU, conditions)
        changed = augmentation.audio(samples, torch.Generator().manual_seed(0))
        gains = (changed * samples).sum(1, keepdim=True) / samples.square().sum(1, keepdim=True)
        rest = changed / gains - samples
        left[chance] = (10 * (rest.square().mean(1) / samples.square().mean(1)).log10()).tolist()
    assert sorted(left[0.0])[40] < -40  # gates and dither change the others
    assert all(-31 < decibels < -4 for decibels in sorted(left[1.0])[10:50])
    assert max(left[1.0]) > -10


def test_each_row_is_in_its_own_room(tmp_path: Path) -> None:
    """A click comes first and at its place, and its echoes differ from row to row."""
    work = make_work(tmp_path)
    conditions = Conditions(room=1, line=0, noise=0, synthetic_rooms=1)
    augmentation = Augmentation(Corpus(work, "noise"), Corpus(work, "rooms"), CPU, conditions)
    clicks = torch.zeros(8, 16000)
    clicks[:, 2000] = 0.5
    changed = augmentation.audio(clicks, torch.Generator().manual_seed(3))
    assert changed[:, :2000].abs().max() < 1e-3
    assert (changed[:, 2000].abs() > 0).all()
    echoes = torch.nn.functional.normalize(changed[:, 2032:])
    assert ((echoes @ echoes.T) - torch.eye(8)).abs().max() < 0.5
