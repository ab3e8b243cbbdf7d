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
