"""Detects speech in short pieces of audio as they arrive, so that nobody waits for a whole step of the encoder.

The pieces of a stream follow one another from its start on, also across cuts: the words of a segment must depend on
nothing before it, but a detector that forgets at each cut is later, and wrong more often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from streamer.engine.models.features import CONTEXT, LogMel
from streamer.engine.models.streaming_model import ModelState, SlotNetwork


class PieceEnergies:
    """Computes the energies of the pieces of each slot."""

    def __init__(self, features: LogMel, slots: int) -> None:
        self._features = features
        self.recent = features.mean.new_zeros(slots, CONTEXT)

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a stream in each of these slots."""
        self.recent[list(slots)] = 0

    @torch.inference_mode()
    def compute(self, slots: Sequence[int], pieces: Sequence[NDArray[np.int16]]) -> Tensor:
        """The energies of the next piece of each of these slots: [batch, hops, mels]."""
        numbers = torch.tensor(slots, device=self.recent.device)
        samples = torch.from_numpy(np.stack(pieces)).to(self.recent.device).float() / 32768
        recent = torch.cat((self.recent.index_select(0, numbers), samples), dim=1)
        self.recent.index_copy_(0, numbers, recent[:, -CONTEXT:])
        return self._features.energies(recent)


class PieceActivity:
    """Computes the probability of speech in the pieces of each slot, from their energies."""

    def __init__(self, network: SlotNetwork, slots: int) -> None:
        self._network = network
        self.state: ModelState = network.make_state(slots)

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a stream in each of these slots."""
        for tensor in self.state.values():
            tensor[list(slots)] = 0

    @torch.inference_mode()
    def compute(self, slots: Sequence[int], energies: Tensor) -> list[list[float]]:
        """The probabilities of the frames of the next piece of each of these slots."""
        numbers = torch.tensor(slots, device=energies.device)
        found: list[list[float]] = self._network.step(self.state, numbers, energies)[:, :, 0].exp().tolist()
        return found


@dataclass(frozen=True)
class SpeechDetector:
    """Both together, for a recogniser that computes the audio itself."""

    energies: PieceEnergies
    activity: PieceActivity

    @classmethod
    def make(cls, features: LogMel, network: SlotNetwork, slots: int) -> SpeechDetector:
        """A detector with fresh states."""
        return cls(PieceEnergies(features, slots), PieceActivity(network, slots))

    @property
    def state(self) -> ModelState:
        """The state of all slots."""
        return {"recent": self.energies.recent, **self.activity.state}

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a stream in each of these slots."""
        self.energies.reset(slots)
        self.activity.reset(slots)

    def compute(self, slots: Sequence[int], pieces: Sequence[NDArray[np.int16]]) -> list[list[float]]:
        """The probabilities of the frames of the next piece of each of these slots."""
        return self.activity.compute(slots, self.energies.compute(slots, pieces))
