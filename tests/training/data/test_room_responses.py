"""Recorded responses are those of rooms that people speak in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streamer.training.data.corpus import Corpus, Utterance, write_corpus
from streamer.training.data.room_responses import Response, liveable_responses, ringing_seconds


def room(seconds: float, delay: int = 0) -> Response:
    """Return a response that falls by 60 dB in this time, with a direct sound after the delay."""
    samples = np.arange(int(1.5 * 16000 * seconds))
    response = np.random.default_rng(1).normal(0, 0.2, len(samples)) * 10 ** (-3 * samples / 16000 / seconds)
    response[0] = 0.9
    return np.concatenate([np.zeros(delay), response])


@pytest.mark.parametrize("seconds", [0.3, 0.6, 1.2, 2.4])
def test_the_time_of_ringing_is_found(seconds: float) -> None:
    """The time of ringing is estimated from how fast the response falls."""
    assert ringing_seconds(room(seconds)) == pytest.approx(seconds, rel=0.15)


def test_halls_are_left_out_and_the_direct_sound_comes_first(tmp_path: Path) -> None:
    """Of a kitchen, a hall and a church, only the kitchen is left; it begins with its direct sound."""
    rooms = [
        (Utterance(name, 0, 0, "rooms", "", ""), np.rint(32767 * room(seconds, delay=300)).astype(np.int16))
        for name, seconds in (("church", 4.0), ("kitchen", 0.5), ("hall", 2.0))
    ]
    write_corpus(tmp_path, "rooms", rooms)
    (kitchen,) = liveable_responses(Corpus(tmp_path, "rooms"))
    assert len(kitchen) == 12000
    assert kitchen[0] == pytest.approx(0.9, abs=1e-3)
