"""Impulse responses of rooms: recorded ones, and synthetic ones of noise that decays after the direct sound."""

from __future__ import annotations

import torch
from torch import Tensor

from streamer.training.data.corpus import SAMPLE_RATE, Corpus, CorpusError
from streamer.training.data.room_responses import LIVEABLE_SECONDS, liveable_responses

SHORTEST_S, LONGEST_S = 0.15, 1.2
"""The times in which the sound of a synthetic room falls by 60 dB."""

FARTHEST_DB, NEAREST_DB = -10.0, 10.0
"""How much louder the direct sound is than all that follows."""

SILENT_S = 0.002
"""The delay between the direct sound and the first echo."""


def recorded_rooms(rooms: Corpus) -> list[Tensor]:
    """Return the first second of recorded responses, each of energy 1."""
    responses = liveable_responses(rooms)
    if not responses:
        raise CorpusError(f"all responses in rooms ring for {LIVEABLE_SECONDS} seconds or longer")
    return [_unit_energy(torch.from_numpy(response[:SAMPLE_RATE]).float()) for response in responses]


def synthetic_room(generator: torch.Generator) -> Tensor:
    """Make a synthetic response of energy 1, on the CPU. High tones decay faster, because walls absorb them more."""
    ringing, nearness, darkness = torch.rand(3, generator=generator).tolist()
    seconds = SHORTEST_S * (LONGEST_S / SHORTEST_S) ** ringing
    times = torch.arange(int(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    noise = torch.randn(len(times), generator=generator)
    low = torch.nn.functional.avg_pool1d(noise.view(1, 1, -1), 7, 1, 3).flatten()
    tail = low * _decay(times, seconds) + (noise - low) * _decay(times, seconds * (1 - 0.7 * darkness))
    tail[: int(SILENT_S * SAMPLE_RATE)] = 0
    direct = FARTHEST_DB + (NEAREST_DB - FARTHEST_DB) * nearness
    response = _unit_energy(tail) * 10 ** (-direct / 20)
    response[0] = 1.0
    return _unit_energy(response)


def _decay(times: Tensor, seconds: float) -> Tensor:
    return 10 ** (-3 * times / seconds)


def _unit_energy(response: Tensor) -> Tensor:
    return response / response.square().sum().sqrt()
