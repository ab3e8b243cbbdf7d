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
from torch import Tensor, nn
from torch.nn import functional

from streamer.engine.acoustics.features import CONTEXT, HOP, LogMel
from streamer.engine.acoustics.streaming_model import ModelState, SlotNetwork


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


# A small network that detects whether somebody is speaking. It reads the same features as the encoder.

CONTEXT_FRAMES = 7
"""How many feature frames before the first one the convolutions need."""


class ActivityNetwork(nn.Module):
    """Computes the log-probability of speech in each frame from four log-mel energies. It only looks back."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, mels: int = 80, width: int = 48, memory: int = 64) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(mels))
        self.register_buffer("deviation", torch.ones(mels))
        self.first = nn.Conv1d(mels, width, 5, stride=2)
        self.second = nn.Conv1d(width, width, 4, stride=2)
        self.recall = nn.GRU(width, memory, batch_first=True)
        self.judge = nn.Linear(memory, 1)

    def forward(self, energies: Tensor) -> Tensor:
        """Return the log-probabilities [batch, frames, 1] of energies [batch, 4 * frames, mels] from a fresh state."""
        state = self.make_state(len(energies))
        return self.advance(energies, state["activity_past"], state["activity_memory"])[0]

    def advance(self, energies: Tensor, past: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Continue from `past` and `memory`. Return the log-probabilities and the new `past` and `memory`."""
        recent = torch.cat((past, (energies - self.mean) / self.deviation), dim=1)
        hidden = functional.silu(self.first(recent.transpose(1, 2)))
        hidden = functional.silu(self.second(hidden)).transpose(1, 2)
        outputs, new_memory = self.recall(hidden, memory.unsqueeze(0).contiguous())
        return functional.logsigmoid(self.judge(outputs)), recent[:, -CONTEXT_FRAMES:], new_memory.squeeze(0)

    def make_state(self, slots: int) -> ModelState:
        """Return a fresh state for this many slots."""
        return {
            "activity_past": self.mean.new_zeros(slots, CONTEXT_FRAMES, len(self.mean)),
            "activity_memory": self.mean.new_zeros(slots, self.recall.hidden_size),
        }

    def step(self, state: ModelState, slots: Tensor, energies: Tensor) -> Tensor:
        """Return the log-probabilities of the next frames of each slot: `energies` is [batch, 4 * frames, mels]."""
        past_state, memory = state["activity_past"], state["activity_memory"]
        log_probs, new_past, new_memory = self.advance(
            energies, past_state.index_select(0, slots), memory.index_select(0, slots)
        )
        past_state.index_copy_(0, slots, new_past)
        memory.index_copy_(0, slots, new_memory)
        return log_probs
