"""A run stops and is continued."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from streamer.training.augmentation.conditions import Conditions
from tests.training.acoustic.tiny_run import trainer


def test_a_run_that_goes_on_counts_on(work: Path, tmp_path: Path) -> None:
    """A checkpoint restores weights, averages, optimisers and position, and training continues from there."""
    first = trainer(work, 1.0)
    figures: list[Any] = []
    first.measure_features()
    first.train(1.0, figures.append, lambda: len(figures) >= 5)
    assert [int(row["step"]) for row in figures] == [1, 2, 3, 4, 5]
    assert "phones_frames" in figures[0]
    assert "phones_frames" not in figures[4]
    first.save(tmp_path / "checkpoint.pt")
    second = trainer(work, 1.0)
    second.load(torch.load(tmp_path / "checkpoint.pt", weights_only=True))
    assert (second.step, second.position, second.trained_seconds) == (5, first.position, first.trained_seconds)
    for name, tensor in first.averaged().state_dict().items():
        assert torch.equal(second.averaged().state_dict()[name], tensor)
    second.train(1.0, figures.append, lambda: len(figures) >= 6)
    assert int(figures[5]["step"]) == 6
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize("usual_last", [0.0, 1.0])
def test_the_last_part_of_a_plan_has_usual_conditions(work: Path, usual_last: float) -> None:
    """Features are masked as in the conditions of the run, and in the last part as usual."""
    run = trainer(work, 1.0, Conditions(bands=40, widest_band=80), usual_last)
    figures: list[Any] = []
    masked: list[float] = []

    def hear(_: nn.Module, given: tuple[torch.Tensor, ...]) -> None:
        masked.append(float((given[0] == 0).float().mean()))

    run.model.encoder.register_forward_pre_hook(hear)
    run.train(1.0, figures.append, lambda: len(figures) >= 2)
    assert len(masked) == 2
    assert all(share < 0.6 if usual_last else share > 0.95 for share in masked)
