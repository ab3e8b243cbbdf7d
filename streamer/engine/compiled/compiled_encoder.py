"""The encoder as a graph, on slots."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from streamer.engine.compiled.encoder_graph import EncoderGraph, pasts, windows
from streamer.engine.graphs.sessions import new_session
from streamer.engine.models.encoder import STEM_CONTEXT, Encoder
from streamer.engine.models.streaming_model import ModelState

Integers = NDArray[np.int64]


class CompiledEncoder:
    """Computes the same steps as `Encoder`, up to rounding. It keeps nothing of the encoder but the configuration."""

    def __init__(self, encoder: Encoder) -> None:
        self._config = config = encoder.config
        if config.left_frames < config.largest_chunk:
            raise ValueError(f"left_frames {config.left_frames} is less than the longest step, {config.largest_chunk}")
        content = EncoderGraph(encoder).written()
        self._size = len(content)
        # Where the sums before layer normalisation are a part of it, onnxruntime computes both several times slower.
        # And a plan of the memory for each size of a batch would take more memory than it saves time.
        self._session = new_session(content, without=["SkipLayerNormFusion"], plans=False)
        self._windows, self._pasts = windows(config.layers), pasts(config.layers)
        # Where the keys of each head are in the window of a slot.
        self._heads = np.arange(config.heads) * config.left_frames

    def make_state(self, slots: int) -> ModelState:
        """A fresh state for this many slots.

        In memory, the layers of keys, values and convolutions come before the slots, so that the graph can read each
        layer of a batch in one piece. A window is a ring of the frames before the chunk: the graph adds the chunk.
        """
        config = self._config
        size = config.width // config.heads
        return {
            "mel": torch.zeros(slots, STEM_CONTEXT, config.mels),
            "windows": torch.zeros(2 * config.layers, slots, config.heads, config.left_frames, size).transpose(0, 1),
            "conv": torch.zeros(config.layers, slots, config.kernel - 1, config.width).transpose(0, 1),
            "frames": torch.zeros(slots, dtype=torch.int64),
        }

    def step(self, state: ModelState, slots: Tensor, mel: Tensor) -> Tensor:
        """The next frames of each slot, [batch, chunk, width]: `mel` is [batch, 4 * chunk, mels]."""
        chunk = self._config.chunk_of(mel)
        recent = torch.cat((state["mel"].index_select(0, slots), mel), dim=1)
        state["mel"].index_copy_(0, slots, recent[:, -STEM_CONTEXT:])
        kept, past = state["windows"].transpose(0, 1), state["conv"].transpose(0, 1)
        numbers, counts = slots.numpy(), state["frames"].numpy()
        frames = counts[numbers]
        window, before = _taken(kept, slots), _taken(past, slots)
        inputs = {"mel": recent.numpy(), "frames": frames[:, None]}
        inputs |= zip(self._windows, window.numpy(), strict=True)
        inputs |= zip(self._pasts, before.unsqueeze(2).numpy(), strict=True)
        found, new, newest = map(torch.from_numpy, self._session.run(None, inputs))
        newest = newest.view(len(past), len(slots), *newest.shape[2:])[:, :, -past.shape[2] :]
        past.index_copy_(1, slots, torch.cat((before[:, :, chunk:], newest), dim=2))
        rows = torch.from_numpy(self._rows(numbers, frames, chunk))
        size = kept.shape[-1]
        kept.view(len(kept), -1, size).index_copy_(1, rows, new.view(len(kept), len(rows), size))
        counts[numbers] = frames + chunk
        return found

    def __sizeof__(self) -> int:
        """With the weights, which are in the memory of onnxruntime."""
        return super().__sizeof__() + self._size

    def _rows(self, slots: Integers, frames: Integers, chunk: int) -> Integers:
        """Where the keys and values of a chunk are kept, if the windows of all slots are seen as rows."""
        ring = self._config.left_frames
        places = (frames[:, None] + np.arange(chunk)) % ring + slots[:, None] * (ring * self._config.heads)
        found: Integers = (places[:, :, None] + self._heads).ravel()
        return found


def _taken(kept: Tensor, slots: Tensor) -> Tensor:
    """What these slots have kept, [layers, batch, ...]: not copied if they lie side by side."""
    first, count = int(slots[0]), len(slots)
    if slots.tolist() == list(range(first, first + count)):
        return kept[:, first : first + count]
    return kept.index_select(1, slots)
