"""The network that detects whether somebody is speaking: a small one beside the encoder, on the same features.

It has its own weights, so it can tell music, keyboards and noise from speech without the words.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from streamer.engine.models.streaming_model import ModelState

CONTEXT_FRAMES = 7
"""The feature frames before the first one that the convolutions of the network need."""


class ActivityNetwork(nn.Module):
    """Log-mel energies in, log-probability of speech out: one frame for every four. It looks back only."""

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
        """Log-probabilities [batch, frames, 1] of energies [batch, 4 * frames, mels] with nothing before them."""
        fresh = self.make_state(len(energies))
        return self.advance(energies, fresh["activity_past"], fresh["activity_memory"])[0]

    def advance(self, energies: Tensor, past: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Continue from `past` and `memory`. Returns the log-probabilities and the new `past` and `memory`."""
        recent = torch.cat((past, (energies - self.mean) / self.deviation), dim=1)
        hidden = functional.silu(self.first(recent.transpose(1, 2)))
        hidden = functional.silu(self.second(hidden)).transpose(1, 2)
        remembered, last = self.recall(hidden, memory.unsqueeze(0).contiguous())
        return functional.logsigmoid(self.judge(remembered)), recent[:, -CONTEXT_FRAMES:], last.squeeze(0)

    def make_state(self, slots: int) -> ModelState:
        """A fresh state for this many slots."""
        return {
            "activity_past": self.mean.new_zeros(slots, CONTEXT_FRAMES, len(self.mean)),
            "activity_memory": self.mean.new_zeros(slots, self.recall.hidden_size),
        }

    def step(self, state: ModelState, slots: Tensor, energies: Tensor) -> Tensor:
        """Log-probabilities of the next frames of each slot: `energies` is [batch, 4 * frames, mels]."""
        kept, memory = state["activity_past"], state["activity_memory"]
        found, past, last = self.advance(energies, kept.index_select(0, slots), memory.index_select(0, slots))
        kept.index_copy_(0, slots, past)
        memory.index_copy_(0, slots, last)
        return found
