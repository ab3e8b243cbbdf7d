"""Impulse responses sound like rooms."""

from __future__ import annotations

import torch

from streamer.training.augmentation.rooms import LONGEST_S, SHORTEST_S, recorded_room, synthetic_room
from streamer.training.data.degradation import ringing_seconds


def test_synthetic_rooms_ring_behind_the_direct_sound() -> None:
    """The direct sound comes first, rooms differ, and each has energy 1 and decays within its time."""
    generator = torch.Generator().manual_seed(1)
    found = [synthetic_room(generator) for _ in range(40)]
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
    generator = torch.Generator().manual_seed(1)
    early, late = torch.zeros(257), torch.zeros(257)
    for _ in range(60):
        room = torch.nn.functional.pad(synthetic_room(generator), (0, 4000))
        early += torch.fft.rfft(room[100:612]).abs()
        late += torch.fft.rfft(room[1600:2112]).abs()
    left = late / early
    assert left[200:].mean() < 0.7 * left[5:25].mean()


def test_a_recorded_room_begins_with_its_direct_sound() -> None:
    """A recorded response begins with the direct sound, so that labels fit, and has one second."""
    response = torch.zeros(40000)
    response[500], response[700], response[39000] = 0.8, 0.6, 0.1
    room = recorded_room(response)
    assert len(room) == 16000
    assert room[0] == 0.8
    assert room[200] == 0.6
