"""The interface of a streaming model, so that another model can take the place of the shipped one."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

ModelState = dict[str, Tensor]
"""The state of all slots. Every tensor is contiguous, and its first dimension counts the slots."""

Emissions = dict[str, Tensor]
"""Log-probabilities by head: [batch, frames, units]."""

ACTIVITY = "activity"
"""The head with one unit: the log-probability that somebody speaks. A model need not have it."""


class StreamingModel(Protocol):
    """Turns steps of audio into log-probabilities, and keeps the state of each stream in a slot.

    `writes`: its words have marks, capitals and figures already, so no stage of the written form changes them.
    """

    name: str
    writes: bool
    sample_rate: int
    frame_samples: int
    step_ms: tuple[int, ...]

    @property
    def device(self) -> torch.device:
        """The device on which the model computes and keeps its state."""
        ...

    def make_state(self, slots: int) -> ModelState:
        """A fresh state for this many slots."""
        ...

    def reset(self, state: ModelState, slots: Tensor) -> None:
        """Clear these slots; nothing remains of the streams that used them."""
        ...

    def step(self, state: ModelState, slots: Tensor, samples: Tensor) -> Emissions:
        """Compute one step for each of these slots from samples in [-1, 1): [batch, samples]."""
        ...
