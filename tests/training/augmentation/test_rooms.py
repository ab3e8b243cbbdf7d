"""Impulse responses sound like rooms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from streamer.training.augmentation.rooms import LONGEST_S, SHORTEST_S, recorded_rooms, synthetic_rooms
from streamer.training.data.corpus import Corpus, CorpusError, Utterance, write_corpus
from streamer.training.data.room_responses import ringing_seconds
from tests.training.acoustic.tiny_run import CPU


def rooms(number: int) -> torch.Tensor:
    """Make some rooms, always the same ones."""
    torch.manual_seed(1)
    return synthetic_rooms(number, torch.Generator().manual_seed(1), CPU)


def test_synthetic_rooms_ring_behind_the_direct_sound() -> None:
    """The direct sound comes first, rooms differ, and each has energy 1 and decays within its time."""
    found = rooms(40)
    seconds = [ringing_seconds(room[1:].double().numpy()) for room in found]
    assert all(SHORTEST_S / 4 < each < 1.3 * LONGEST_S for each in seconds)
    assert max(seconds) > 4 * min(seconds)
    for room in found:
        torch.testing.assert_close(room.square().sum(), torch.tensor(1.0))
        assert room[0] > 0
        assert not room[1:32].any()
    shares = [float(room[0] ** 2) for room in found]
    assert min(shares) < 0.4
    assert max(shares) > 0.8


def test_high_tones_decay_faster() -> None:
    """On average over many rooms, high tones decay faster, because walls absorb them more."""
    early, late = torch.zeros(257), torch.zeros(257)
    for room in torch.nn.functional.pad(rooms(60), (0, 4000)):
        early += torch.fft.rfft(room[100:612]).abs()
        late += torch.fft.rfft(room[1600:2112]).abs()
    left = late / early
    assert left[200:].mean() < 0.7 * left[5:25].mean()


def test_a_recorded_room_is_a_second_of_energy_one(tmp_path: Path) -> None:
    """A recorded response begins with the direct sound, so that labels fit."""
    recorded = np.zeros(40000, np.int16)
    recorded[500], recorded[700], recorded[39000] = 16000, 12000, 800
    write_corpus(tmp_path, "rooms", [(Utterance("kitchen", 0, 0, "rooms", "", ""), recorded)])
    (room,) = recorded_rooms(Corpus(tmp_path, "rooms"))
    assert len(room) == 16000
    assert float(room[0]) == pytest.approx(0.8)
    assert float(room[200]) == pytest.approx(0.6)


def test_halls_alone_are_refused(tmp_path: Path) -> None:
    """A folder of halls without a room is refused."""
    falling = np.random.default_rng(1).normal(0, 3000, 64000) * 10 ** (-3 * np.arange(64000) / 64000)
    falling[0] = 30000
    write_corpus(tmp_path, "rooms", [(Utterance("church", 0, 0, "rooms", "", ""), falling.astype(np.int16))])
    with pytest.raises(CorpusError, match=r"ring for 1\.3 seconds or longer"):
        recorded_rooms(Corpus(tmp_path, "rooms"))
