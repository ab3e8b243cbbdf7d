"""Lets code that has arrays of numpy use networks in torch, on whatever device these are."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from streamer.engine.acoustics.speech_detector import SpeechDetector
from streamer.engine.acoustics.streaming_model import Floats, ModelState
from streamer.engine.networks.activity_network import ActivityNetwork
from streamer.engine.networks.log_mel import LogMelNetwork


class HostFeatures:
    """Features that take and give arrays of numpy."""

    def __init__(self, network: LogMelNetwork) -> None:
        self._network = network
        self.mels, self.hop, self.context = len(network.mean), network.hop, network.context

    @torch.inference_mode()
    def energies(self, samples: Floats) -> Floats:
        """Return the energies [batch, hops, mels] of samples in [-1, 1), with those before the first hop."""
        return host_array(self._network.energies(torch.from_numpy(samples).to(self._network.mean.device)))


class HostActivity:
    """An activity network that takes and gives arrays of numpy. Its state stays on its device."""

    def __init__(self, network: ActivityNetwork) -> None:
        self._network = network
        self.mels = len(network.mean)

    def make_state(self, slots: int) -> ModelState:
        """Return a fresh state for this many slots."""
        return self._network.make_state(slots)

    @torch.inference_mode()
    def step(self, state: ModelState, slots: Sequence[int], energies: Floats) -> Floats:
        """Return the log-probabilities of the next frames of each slot: `energies` is [batch, 4 * frames, mels]."""
        device = self._network.mean.device
        numbers = torch.tensor(slots, device=device)
        return host_array(self._network.step(state, numbers, torch.from_numpy(energies).to(device)))


def network_detector(features: LogMelNetwork, network: ActivityNetwork, slots: int) -> SpeechDetector:
    """Return a detector of speech for this many slots, which computes with these networks."""
    return SpeechDetector.make(HostFeatures(features), HostActivity(network), slots)


def host_array(tensor: Tensor) -> Floats:
    """Return the numbers of a tensor as an array in 32 bits."""
    array: Floats = tensor.float().cpu().numpy()
    return array
