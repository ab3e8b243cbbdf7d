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

from streamer.engine.models.features import CONTEXT, HOP, LogMel
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
    def compute(self, slots: Sequence[int], pieces: Sequence[Sequence[NDArray[np.int16]]]) -> list[Tensor]:
        """The energies of the next pieces of each of these slots: [hops, mels]. All pieces have the same length."""
        numbers = torch.tensor(slots, device=self.recent.device)
        joined = [np.concatenate(own) for own in pieces]
        # All in one call. What is behind the last piece of a slot is computed as well, and left out.
        samples = np.zeros((len(slots), max(map(len, joined))), dtype=np.int16)
        for row, own in zip(samples, joined, strict=True):
            row[: len(own)] = own
        known = self.recent.index_select(0, numbers)
        recent = torch.cat((known, torch.from_numpy(samples).to(known.device).float() / 32768), dim=1)
        last = [row[len(own) : len(own) + CONTEXT] for row, own in zip(recent, joined, strict=True)]
        self.recent.index_copy_(0, numbers, torch.stack(last))
        return [found[: len(own) // HOP] for found, own in zip(self._features.energies(recent), joined, strict=True)]


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
    def compute(self, slots: Sequence[int], energies: Sequence[Tensor]) -> list[list[float]]:
        """The probabilities of all frames in the next pieces of each of these slots.

        A compiled network gives the same bits for pieces that are read together as for one after another.
        """
        alike: dict[int, list[int]] = {}  # the rows with energies of the same length
        for row, own in enumerate(energies):
            alike.setdefault(len(own), []).append(row)
        found: dict[int, list[float]] = {}
        for rows in alike.values():
            numbers = torch.tensor([slots[row] for row in rows], device=energies[0].device)
            told = self._network.step(self.state, numbers, torch.stack([energies[row] for row in rows]))
            found |= zip(rows, told[:, :, 0].exp().tolist(), strict=True)
        return [found[row] for row in range(len(slots))]


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

    def compute(self, slots: Sequence[int], pieces: Sequence[Sequence[NDArray[np.int16]]]) -> list[list[float]]:
        """The probabilities of all frames in the next pieces of each of these slots, which have the same length."""
        return self.activity.compute(slots, self.energies.compute(slots, pieces))
