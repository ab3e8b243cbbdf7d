"""A streaming model that reads letters from the level of the audio, so that tests can say any text.

Only the interface is that of the real model. Slots, search and endpoint rule are the real ones. It computes with numpy:
a Triton that need not import torch starts in a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from streamer.engine.models.streaming_model import Emissions, ModelState
from streamer.testing.exact_speech import FRAME, LEVEL, UNITS


class ExactModel:
    """Reads a unit from the level of each frame, and emits it one frame late. A frame with two levels is the blank."""

    name = "exact"
    writes = False
    sample_rate = 16000
    frame_samples = FRAME
    ahead_samples = 0
    step_ms: tuple[int, ...] = (160, 320, 640)

    def make_state(self, slots: int) -> ModelState:
        """Return a state with the last unit of each stream."""
        # The values are random on purpose, because a slot must be reset before its use.
        return {"last": np.random.default_rng().integers(0, len(UNITS), slots)}

    def reset(self, state: ModelState, slots: Sequence[int]) -> None:
        """Clear the last units of these slots."""
        state["last"][list(slots)] = 0

    def step(self, state: ModelState, slots: Sequence[int], samples: NDArray[np.int16]) -> Emissions:
        """Return the units of the frames, one frame late."""
        frames = samples.reshape(len(samples), -1, FRAME) / LEVEL
        steady = frames.max(axis=2) - frames.min(axis=2) < 0.1
        units = (frames.mean(axis=2).round() * steady).astype(np.int64).clip(0, len(UNITS) - 1)
        shifted = np.concatenate([state["last"][list(slots)][:, None], units], axis=1)
        state["last"][list(slots)] = shifted[:, -1]
        best = shifted[:, :-1, None] == np.arange(len(UNITS))
        return {"characters": np.where(best, np.float32(-0.01), np.float32(-9.0))}

    def whole(self, samples: NDArray[np.int16]) -> Emissions:
        """Return the units of a whole segment."""
        state = self.make_state(1)
        self.reset(state, [0])
        return ExactModel.step(self, state, [0], samples[None])
