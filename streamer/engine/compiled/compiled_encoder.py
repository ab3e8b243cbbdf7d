"""The encoder as a graph, with its states in slots."""

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
    """Computes the same steps as `Encoder`, up to rounding. Of the encoder it keeps only the configuration."""

    def __init__(self, encoder: Encoder) -> None:
        self._config = config = encoder.config
        if config.left_frames < config.largest_chunk:
            raise ValueError(f"left_frames {config.left_frames} is less than the longest step, {config.largest_chunk}")
        # onnxruntime computes layer normalisation and the sum before it several times slower if it fuses them. Plans of
        # the memory are left out: one for each size of a batch would take much memory and save little time.
        super().__init__(EncoderGraph(encoder).written(), without=["SkipLayerNormFusion"], plans=False)
        self._windows, self._pasts = windows(config.layers), pasts(config.layers)

    def make_state(self, slots: int) -> ModelState:
        """Return a fresh state for this many slots.

        In memory, the layers of keys, values and convolutions come before the slots, so that the graph can read each
        layer of a batch in one piece. A window is a ring buffer of the frames before the chunk. The graph adds the
        chunk itself.
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
        """Return the next frames of each slot, [batch, chunk, width]: `mel` is [batch, 4 * chunk, mels]."""
        self._config.chunk_of(mel)
        return self._compute(state, slots, mel)

    def whole(self, mel: Tensor) -> Tensor:
        """Return the frames of a complete segment, [1, frames, width]. They are computed in the longest steps."""
        state, slot = self.make_state(1), torch.zeros(1, dtype=torch.int64)
        steps = mel.split(WHOLE_FRAMES * SUBSAMPLING, dim=1)
        return torch.cat([self._compute(state, slot, step) for step in steps], dim=1)

    def _compute(self, state: ModelState, slots: Tensor, mel: Tensor) -> Tensor:
        config, chunk = self._config, mel.shape[1] // SUBSAMPLING
        # With numpy, which shares the memory, and begins an operation in a fraction of the time of torch.
        numbers, mel_past, counts = slots.numpy(), state["mel"].numpy(), state["frames"].numpy()
        windows_state, past = state["windows"].numpy().swapaxes(0, 1), state["conv"].numpy().swapaxes(0, 1)
        window, before, frames = _rows_of(windows_state, numbers), _rows_of(past, numbers), counts[numbers]
        recent = np.concatenate((mel_past[numbers], mel.numpy()), axis=1)
        inputs = {"mel": recent, "frames": frames[:, None]}
        inputs |= zip(self._windows, window, strict=True)
        inputs |= zip(self._pasts, before[:, :, None], strict=True)
        frames_out, new, newest = self._session.run(None, inputs)
        mel_past[numbers], counts[numbers] = recent[:, -HALVED_CONTEXT:], frames + chunk
        newest = newest.reshape(len(past), len(numbers), chunk, config.width)[:, :, -past.shape[2] :]
        past[:, numbers] = np.concatenate((before[:, :, chunk:], newest), axis=2)
        places = (frames[:, None] + np.arange(chunk)[-config.left_frames :]) % config.left_frames
        by_head = new.reshape(len(windows_state), len(numbers), chunk, config.heads, -1)[:, :, -config.left_frames :]
        # The axes of this index come first, so the values have them first, too.
        windows_state[:, numbers[:, None], :, places] = by_head.transpose(1, 2, 0, 3, 4)
        return torch.from_numpy(frames_out)


def _rows_of(state: Floats, slots: Integers) -> Floats:
    """Return the state of these slots, [layers, batch, ...]. It is not copied if the slots lie side by side."""
    first, count = int(slots[0]), len(slots)
    if slots.tolist() == list(range(first, first + count)):
        return state[:, first : first + count]
    return state.take(slots, axis=1)
