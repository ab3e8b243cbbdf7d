"""A streaming model that reads letters from the level of the audio, so that tests can say any text.

Only the interface is that of the real model. Slots, search and endpoint rule are the real ones.
"""

from __future__ import annotations

import torch

from streamer.engine.models.streaming_model import Emissions, ModelState
from streamer.testing.exact_speech import FRAME, LEVEL, UNITS


class ExactModel:
    """Reads a unit from the level of each frame, and emits it one frame late. A frame with two levels is the blank."""

    name = "exact"
    writes = False
    sample_rate = 16000
    frame_samples = FRAME
    step_ms: tuple[int, ...] = (160, 320, 640)
    device = torch.device("cpu")

    def make_state(self, slots: int) -> ModelState:
        """A state with the last unit of each stream."""
        return {
            "last": torch.randint(0, len(UNITS), (slots,))
        }  # random on purpose: a slot must be reset before its use

    def reset(self, state: ModelState, slots: torch.Tensor) -> None:
        """Clear the last units of these slots."""
        state["last"][slots] = 0

    def step(self, state: ModelState, slots: torch.Tensor, samples: torch.Tensor) -> Emissions:
        """The units of the frames, one frame late."""
        frames = samples.unflatten(1, (-1, FRAME)) * 32768 / LEVEL
        steady = frames.amax(dim=2) - frames.amin(dim=2) < 0.1
        heard = (frames.mean(dim=2).round() * steady).long().clamp(0, len(UNITS) - 1)
        shifted = torch.cat([state["last"][slots].unsqueeze(1), heard], dim=1)
        state["last"][slots] = shifted[:, -1]
        best = torch.nn.functional.one_hot(shifted[:, :-1], len(UNITS)).float()
        return {"characters": best * -0.01 + (1 - best) * -9.0}
