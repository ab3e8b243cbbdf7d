"""Impulse responses of rooms: recorded ones, and synthetic ones of noise that decays after the direct sound."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

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


def synthetic_rooms(number: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """Make synthetic responses [number, samples] of energy 1. High tones decay faster, because walls absorb them more.

    The generator decides about the rooms, but not about their noise.
    """
    ringing, nearness, darkness = torch.rand(3, number, 1, generator=generator).to(device)
    seconds = SHORTEST_S * (LONGEST_S / SHORTEST_S) ** ringing
    times = torch.arange(int(LONGEST_S * SAMPLE_RATE), device=device) / SAMPLE_RATE
    noise = torch.randn(number, len(times), device=device) * (times < seconds)
    low = functional.avg_pool1d(noise.unsqueeze(1), 7, 1, 3).squeeze(1)
    tails = low * _decay(times, seconds) + (noise - low) * _decay(times, seconds * (1 - 0.7 * darkness))
    tails[:, : int(SILENT_S * SAMPLE_RATE)] = 0
    direct = FARTHEST_DB + (NEAREST_DB - FARTHEST_DB) * nearness
    responses = _unit_energy(tails) * 10 ** (-direct / 20)
    responses[:, 0] = 1.0
    return _unit_energy(responses)


def _decay(times: Tensor, seconds: Tensor) -> Tensor:
    return 10 ** (-3 * times / seconds)


def _unit_energy(response: Tensor) -> Tensor:
    return response / response.square().sum(-1, keepdim=True).sqrt()
