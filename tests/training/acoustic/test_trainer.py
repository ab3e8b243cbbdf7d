"""A run stops and goes on, by its schedule."""

from __future__ import annotations

from pathlib import Path

import torch

from streamer.training.acoustic.trainer import Schedule
from tests.training.acoustic.tiny_run import trainer


def test_a_run_that_goes_on_counts_on(work: Path, tmp_path: Path) -> None:
    """A checkpoint brings back weights, averages, optimisers and place; learning goes on from there."""
    first, figures = trainer(work, 1.0), []
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


def test_the_rate_rises_stays_and_falls_to_zero() -> None:
    """The schedule goes by steps at first, then by the planned time."""
    schedule = Schedule(10.0, rate=1.0, rise_steps=10, fall=0.5)
    rates = [schedule.learning_rate(4, 0.0), schedule.learning_rate(99, 0.3), schedule.learning_rate(99, 0.75)]
    assert rates == [0.5, 1.0, 0.5]
    assert schedule.learning_rate(99, 1.0) == 0
    assert schedule.frame_share(0) == 1
    assert Schedule(10.0, aligned_steps=0).frame_share(0) == 0
    assert schedule.frame_share(schedule.aligned_steps + schedule.crossfade_steps) == 0
