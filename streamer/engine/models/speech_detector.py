"""Detects speech in short pieces of audio when they arrive, so that it need not wait for a whole step of the encoder.

The detector of a stream does not begin again at a cut. The words of a segment must not depend on earlier audio, but a
detector that begins again at each cut is later, and wrong more often.
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
        """Return the energies of the next pieces of each of these slots: [hops, mels]. All have the same length."""
        numbers = torch.tensor(slots, device=self.recent.device)
        joined = [np.concatenate(own) for own in pieces]
        # All slots are computed in one call. Those with fewer pieces are padded, and the padding is left out later.
        samples = np.zeros((len(slots), max(map(len, joined))), dtype=np.int16)
        for row, own in zip(samples, joined, strict=True):
            row[: len(own)] = own
        past = self.recent.index_select(0, numbers)
        recent = torch.cat((past, torch.from_numpy(samples).to(past.device).float() / 32768), dim=1)
        last = [row[len(own) : len(own) + CONTEXT] for row, own in zip(recent, joined, strict=True)]
        self.recent.index_copy_(0, numbers, torch.stack(last))
        return [rows[: len(own) // HOP] for rows, own in zip(self._features.energies(recent), joined, strict=True)]


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
        """Return the probabilities of all frames in the next pieces of each of these slots.

        A compiled network gives the same bits whether pieces are read together or one after another.
        """
        groups: dict[int, list[int]] = {}  # the rows with energies of the same length
        for row, own in enumerate(energies):
            groups.setdefault(len(own), []).append(row)
        probabilities: dict[int, list[float]] = {}
        for rows in groups.values():
            numbers = torch.tensor([slots[row] for row in rows], device=energies[0].device)
            log_probs = self._network.step(self.state, numbers, torch.stack([energies[row] for row in rows]))
            probabilities |= zip(rows, log_probs[:, :, 0].exp().tolist(), strict=True)
        return [probabilities[row] for row in range(len(slots))]


@dataclass(frozen=True)
class SpeechDetector:
    """The detector of a recogniser that gets audio: it computes energies and the probability of speech."""

    energies: PieceEnergies
    activity: PieceActivity

    @classmethod
    def make(cls, features: LogMel, network: SlotNetwork, slots: int) -> SpeechDetector:
        """Make a detector with fresh states."""
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
        """Return the probabilities of all frames in the next pieces of these slots. All have the same length."""
        return self.activity.compute(slots, self.energies.compute(slots, pieces))
