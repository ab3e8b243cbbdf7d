"""Which loss counts when, and with which learning rate."""

from __future__ import annotations

import pytest

from streamer.training.acoustic.schedule import GOING_ON, Schedule


def test_the_rate_rises_stays_and_falls_to_zero() -> None:
    """The learning rate first depends on the steps, and later on the plan."""
    schedule = Schedule(10.0, rate=1.0, rise_steps=10, fall=0.5)
    rates = [schedule.learning_rate(4, 0.0), schedule.learning_rate(99, 0.3), schedule.learning_rate(99, 0.75)]
    assert rates == [0.5, 1.0, 0.5]
    assert schedule.learning_rate(99, 1.0) == 0


def test_a_plan_is_of_minutes_or_of_steps() -> None:
    """A plan may have a number of steps, so that runs can be compared with equal steps."""
    assert Schedule(minutes=10.0).progress(1000, 300.0) == 0.5
    assert Schedule(steps=2000).progress(1000, 300.0) == 0.5


def test_the_end_of_a_plan_can_have_usual_conditions() -> None:
    """The conditions of a run hold until the share of the plan begins that has usual ones."""
    assert [Schedule(10.0, usual_last=0.3).is_usual(progress) for progress in (0.0, 0.6, 0.8)] == [False, False, True]
    assert not Schedule(10.0).is_usual(0.999)


def test_each_loss_takes_over_from_the_one_before() -> None:
    """Aligned frames, CTC and CTC-CRF follow each other; a run that begins with CTC-CRF has all of it at once."""
    schedule = Schedule(10.0, aligned_steps=100, crossfade_steps=10, crf_from=1000, ctc_share=0.25)
    assert [schedule.frame_share(step) for step in (0, 105, 110, 2000)] == [1, 0.5, 0, 0]
    shares = [schedule.denominator_share(step) for step in (0, 999, 1004, 1009, 2000)]
    assert shares == pytest.approx([0, 0, 0.375, 0.75, 0.75])
    assert Schedule(10.0, aligned_steps=0).frame_share(0) == 0
    assert Schedule(10.0).denominator_share(5000) == 0
    assert GOING_ON.frame_share(0) == 0
    assert [Schedule(10.0, errors_from=5).counts_errors(step) for step in (4, 5)] == [False, True]
    assert not GOING_ON.counts_errors(1000)
    assert Schedule(10.0, crf_from=0).denominator_share(0) == 0.8
