"""Calls, with a speaker on each channel, and other stereo recordings."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from streamer.audio.two_voices import TwoVoices

RATE = 8_000


def turns(own: int, seconds: int = 24) -> npt.NDArray[np.float32]:
    """A speaker who speaks for two of every four seconds, in the first or the second half of them."""
    rng = np.random.default_rng(own)
    noise = rng.standard_normal(seconds * RATE).astype(np.float32) * 0.1
    speaks = np.arange(seconds * RATE) // (2 * RATE) % 2 == own
    return np.where(speaks, noise, noise * 0.001).astype(np.float32)


@pytest.mark.parametrize(
    ("left", "right", "found"),
    [
        (turns(0), turns(1), True),
        (turns(0) + 0.05 * turns(1), turns(1) + 0.05 * turns(0), True),  # each hears a little of the other
        (turns(0) + 0.5 * turns(1), turns(1) + 0.5 * turns(0), False),  # two people in a room
        (turns(0), 0 * turns(1), False),  # one side is silent
        (turns(0), turns(0), False),
        (turns(0) + turns(1), turns(1) + turns(0), False),
        (turns(0, 4), turns(1, 4), False),  # too little to say
        (turns(0) * 0.001, turns(1) * 0.001, False),  # too quiet
    ],
)
def test_a_voice_on_each_side(left: npt.NDArray[np.float32], right: npt.NDArray[np.float32], found: bool) -> None:
    """Only a call is one, however the samples are divided."""
    for size in (len(left), 777):
        voices = TwoVoices(RATE)
        both = np.stack([left, right], axis=1)
        for begin in range(0, len(both), size):
            voices.add(both[begin : begin + size])
        assert voices.found is found
