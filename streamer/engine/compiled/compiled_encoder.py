"""The encoder as a graph, on slots."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from streamer.engine.compiled.compiled_graph import CompiledGraph
from streamer.engine.compiled.encoder_graph import EncoderGraph, pasts, windows
from streamer.engine.compiled.network_writer import HALVED_CONTEXT
from streamer.engine.models.encoder import SUBSAMPLING, WHOLE_FRAMES, Encoder
from streamer.engine.models.streaming_model import ModelState

Integers = NDArray[np.int64]
Floats = NDArray[np.float32]


class CompiledEncoder(CompiledGraph):
    """Computes the same steps as `Encoder`, up to rounding. It keeps nothing of the encoder but the configuration."""

    def __init__(self, encoder: Encoder) -> None:
        self._config = config = encoder.config
        if config.left_frames < config.largest_chunk:
            raise ValueError(f"left_frames {config.left_frames} is less than the longest step, {config.largest_chunk}")
        # Where the sums before layer normalisation are a part of it, onnxruntime computes both several times slower.
        # And a plan of the memory for each size of a batch would take more memory than it saves time.
        super().__init__(EncoderGraph(encoder).written(), without=["SkipLayerNormFusion"], plans=False)
        self._windows, self._pasts = windows(config.layers), pasts(config.layers)

    def make_state(self, slots: int) -> ModelState:
        """A fresh state for this many slots.

        In memory, the layers of keys, values and convolutions come before the slots, so that the graph can read each
        layer of a batch in one piece. A window is a ring of the frames before the chunk: the graph adds the chunk.
        """
        config = self._config
        size = config.width // config.heads
        return {
            "mel": torch.zeros(slots, HALVED_CONTEXT, config.mels),
            "windows": torch.zeros(2 * config.layers, slots, config.heads, config.left_frames, size).transpose(0, 1),
            "conv": torch.zeros(config.layers, slots, config.kernel - 1, config.width).transpose(0, 1),
            "frames": torch.zeros(slots, dtype=torch.int64),
        }

    def step(self, state: ModelState, slots: Tensor, mel: Tensor) -> Tensor:
        """The next frames of each slot, [batch, chunk, width]: `mel` is [batch, 4 * chunk, mels]."""
        self._config.chunk_of(mel)
        return self._computed(state, slots, mel)

    def whole(self, mel: Tensor) -> Tensor:
        """The frames of one segment that is complete, [1, frames, width]: as one step, or in the longest steps."""
        state, slot = self.make_state(1), torch.zeros(1, dtype=torch.int64)
        steps = mel.split(WHOLE_FRAMES * SUBSAMPLING, dim=1)
        return torch.cat([self._computed(state, slot, step) for step in steps], dim=1)

    def _computed(self, state: ModelState, slots: Tensor, mel: Tensor) -> Tensor:
        config, chunk = self._config, mel.shape[1] // SUBSAMPLING
        # By numpy, which shares the memory and begins an operation in a fraction of the time of torch.
        numbers, heard, counts = slots.numpy(), state["mel"].numpy(), state["frames"].numpy()
        kept, past = state["windows"].numpy().swapaxes(0, 1), state["conv"].numpy().swapaxes(0, 1)
        window, before, frames = _taken(kept, numbers), _taken(past, numbers), counts[numbers]
        recent = np.concatenate((heard[numbers], mel.numpy()), axis=1)
        inputs = {"mel": recent, "frames": frames[:, None]}
        inputs |= zip(self._windows, window, strict=True)
        inputs |= zip(self._pasts, before[:, :, None], strict=True)
        found, new, newest = self._session.run(None, inputs)
        heard[numbers], counts[numbers] = recent[:, -HALVED_CONTEXT:], frames + chunk
        newest = newest.reshape(len(past), len(numbers), chunk, config.width)[:, :, -past.shape[2] :]
        past[:, numbers] = np.concatenate((before[:, :, chunk:], newest), axis=2)
        places = (frames[:, None] + np.arange(chunk)[-config.left_frames :]) % config.left_frames
        by_head = new.reshape(len(kept), len(numbers), chunk, config.heads, -1)[:, :, -config.left_frames :]
        kept[:, numbers[:, None], :, places] = by_head.transpose(1, 2, 0, 3, 4)  # in the order of such an index
        return torch.from_numpy(found)


def _taken(kept: Floats, slots: Integers) -> Floats:
    """What these slots have kept, [layers, batch, ...]: not copied if they lie side by side."""
    first, count = int(slots[0]), len(slots)
    if slots.tolist() == list(range(first, first + count)):
        return kept[:, first : first + count]
    return kept.take(slots, axis=1)
