"""The activity head streams as it computes wholes, and the track turns probabilities into starts and ends."""

from __future__ import annotations

import random

import pytest
import torch

from streamer.engine.models.activity import ActivityHead, ActivityRule, Change, Track

RULE = ActivityRule(
    open_above=0.6, close_below=0.4, open_ms=160, close_ms=480, heard_above=0.2, heard_ms=80, late_ms=40
)


@pytest.fixture
def head() -> ActivityHead:
    """A small untrained head."""
    torch.manual_seed(0)
    return ActivityHead(mels=80, width=8, memory=8).eval().requires_grad_(False)


@pytest.mark.parametrize("frames", [4, 8, 16])
def test_steps_of_any_length_equal_the_whole(head: ActivityHead, frames: int) -> None:
    """Step by step on slots that were used before and in company, the head says what it says of the whole."""
    energies, slots = torch.randn(2, 4 * 48, 80) * 3, torch.tensor([3, 1])
    state = head.make_state(4)
    head.step(state, torch.arange(4), torch.randn(4, 16, 80))
    for tensor in state.values():
        tensor[slots] = 0
    pieces = [head.step(state, slots, piece) for piece in energies.split(4 * frames, dim=1)]
    whole = head(energies)
    assert whole.shape == (2, 48, 1)
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, atol=1e-5, rtol=0)
    torch.testing.assert_close(head(energies[:1]), whole[:1], atol=1e-5, rtol=0)


def test_the_head_hears_nothing_of_the_future(head: ActivityHead) -> None:
    """What follows a frame does not change it."""
    energies = torch.randn(1, 80, 80)
    other = energies.clone()
    other[:, 40:] = torch.randn(1, 40, 80)
    torch.testing.assert_close(head(energies)[:, :10], head(other)[:, :10], atol=1e-6, rtol=0)


def test_speech_starts_and_ends_with_hysteresis() -> None:
    """It starts where the rise began, doubts in between do not end it, and it ends where it was last active."""
    track = Track(RULE)
    assert track.read([0.1] * 10 + [0.5] + [0.7] * 3) == []
    assert track.read([0.7]) == [Change(True, 9)]
    assert track.speaking
    assert track.read([0.5] * 20 + [0.1] * 11) == []
    assert track.read([0.1]) == [Change(False, 35)]
    assert (track.speaking, track.quiet) == (False, 12)


def test_a_click_opens_nothing() -> None:
    """Short rises, however high, are no speech; a long faint one lets words through but says no start."""
    track = Track(RULE)
    assert track.read(([0.9] * 1 + [0.0] * 3) * 20) == []
    assert not track.opened
    assert track.read([0.3] * 2) == []
    assert track.opened
    assert not track.speaking


def test_chunks_do_not_matter() -> None:
    """Any cut of the probabilities gives the same changes."""
    dice = random.Random(3)
    found = [dice.choice([0.05, 0.3, 0.5, 0.9]) for _ in range(30) for _ in range(dice.randint(1, 9))]
    found = [value for value in found for _ in range(4)]
    whole, pieces, changes = Track(RULE), Track(RULE), []
    place = 0
    while place < len(found):
        size = dice.randint(0, 20)
        changes += pieces.read(found[place : place + size])
        place += size
    assert changes == whole.read(found)
    assert [change.speaking for change in changes] == [True, False] * (len(changes) // 2) + [True] * (len(changes) % 2)
    assert pieces.quiet == whole.quiet


def test_speech_that_goes_on_over_a_cut() -> None:
    """A track that takes over speech does not start it again, and ends it once."""
    track = Track(RULE, speaking=True)
    assert track.opened
    assert track.read([0.9] * 8) == []
    assert track.read([0.1] * 5) == []
    assert track.end() == Change(False, 8)
    assert track.end() is None


def test_thresholds_that_cross_are_refused() -> None:
    """To close above where one opens would flicker."""
    with pytest.raises(ValueError, match="close_below"):
        ActivityRule(open_above=0.3, close_below=0.5)
