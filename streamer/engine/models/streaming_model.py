"""What the slots compute: the interface of a streaming model, so that another one can take its place."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

State = dict[str, Tensor]
"""The state of all slots: every tensor is contiguous and its first dimension counts the slots."""

Emissions = dict[str, Tensor]
"""Log-probabilities by head: [batch, frames, units]."""

ACTIVITY = "activity"
"""The head that tells, with one unit, how likely somebody speaks; a model may be without it."""


class StreamingModel(Protocol):
    """A model that turns steps of audio into log-probabilities and keeps each stream's state in a slot."""

    name: str
    sample_rate: int
    frame_samples: int
    step_ms: tuple[int, ...]

    @property
    def device(self) -> torch.device:
        """Where the model computes and its states lie."""
        ...

    def make_state(self, slots: int) -> State:
        """A fresh state for so many streams."""
        ...

    def reset(self, state: State, slots: Tensor) -> None:
        """Make these slots fresh; nothing of the streams that used them is left."""
        ...

    def step(self, state: State, slots: Tensor, samples: Tensor) -> Emissions:
        """Feed each of these slots one step of samples in [-1, 1): [batch, samples]; all steps are of one length."""
        ...
