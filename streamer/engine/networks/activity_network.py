"""The activity network in torch: a small network that detects whether somebody is speaking.

It reads the same features as the encoder.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from streamer.engine.acoustics.streaming_model import ModelState

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
