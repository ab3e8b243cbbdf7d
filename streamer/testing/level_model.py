"""A second streaming model for the tests: it reads words from the level of the audio, so that any text can be spoken.

It shares nothing with the real model but the interface: slots, search and endpoint rule do not care whose they are.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from streamer.engine.models.streaming_model import Emissions, ModelState

FRAME = 640
UNITS = ["<blank>", " ", "'", *"abcdefghijklmnopqrstuvwxyz"]
LEVEL = 1000  # the audio level of a unit is its number times this


class LevelModel:
    """The level of a frame is a unit, emitted one frame late; a frame with two levels is the blank."""

    name = "level"
    sample_rate = 16000
    frame_samples = FRAME
    step_ms: tuple[int, ...] = (160, 320, 640)
    device = torch.device("cpu")

    def make_state(self, slots: int) -> ModelState:
        return {"last": torch.randint(0, len(UNITS), (slots,))}  # dirty on purpose

    def reset(self, state: ModelState, slots: torch.Tensor) -> None:
        state["last"][slots] = 0

    def step(self, state: ModelState, slots: torch.Tensor, samples: torch.Tensor) -> Emissions:
        frames = samples.unflatten(1, (-1, FRAME)) * 32768 / LEVEL
        steady = frames.amax(dim=2) - frames.amin(dim=2) < 0.1
        heard = (frames.mean(dim=2).round() * steady).long().clamp(0, len(UNITS) - 1)
        shifted = torch.cat([state["last"][slots].unsqueeze(1), heard], dim=1)
        state["last"][slots] = shifted[:, -1]
        best = torch.nn.functional.one_hot(shifted[:, :-1], len(UNITS)).float()
        return {"characters": best * -0.01 + (1 - best) * -9.0}


def say(text: str) -> NDArray[np.int16]:
    """Audio of the words: a letter takes two frames, so that one is whole wherever frames begin, and a gap one."""
    frames = [frame for letter in text + " " for frame in (UNITS.index(letter), UNITS.index(letter), 0)]
    return np.repeat(np.array(frames, dtype=np.int16) * LEVEL, FRAME)


def silence(milliseconds: int) -> NDArray[np.int16]:
    """So much silence."""
    return np.zeros(milliseconds * 16, dtype=np.int16)
