"""The encoder as a graph, on slots."""

from __future__ import annotations

import torch
from torch import Tensor

from streamer.engine.compiled.encoder_graph import EncoderGraph, windows
from streamer.engine.graphs.sessions import new_session
from streamer.engine.models.encoder import STEM_CONTEXT, Encoder
from streamer.engine.models.streaming_model import ModelState


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
        self._windows = windows(config.layers)

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
        frames = state["frames"].index_select(0, slots)
        inputs = {"mel": recent, "frames": frames.unsqueeze(1), "conv": past.index_select(1, slots)}
        inputs |= zip(self._windows, kept.index_select(1, slots), strict=True)
        outputs = self._session.run(None, {name: tensor.numpy() for name, tensor in inputs.items()})
        found, new, newest = map(torch.from_numpy, outputs)
        past.index_copy_(1, slots, newest.view(len(past), len(slots), *newest.shape[1:]))
        rows = self._rows(slots, frames, chunk)
        size = new.shape[-1]
        kept.view(len(kept), -1, size).index_copy_(1, rows, new.view(len(kept), len(rows), size))
        state["frames"].index_copy_(0, slots, frames + chunk)
        return found

    def __sizeof__(self) -> int:
        """With the weights, which are in the memory of onnxruntime."""
        return super().__sizeof__() + self._size

    def _rows(self, slots: Tensor, frames: Tensor, chunk: int) -> Tensor:
        """Where the keys and values of a chunk are kept, if the windows of all slots are seen as rows."""
        heads, ring = self._config.heads, self._config.left_frames
        windows = slots.view(-1, 1, 1) * heads + torch.arange(heads).view(1, -1, 1)
        places = (frames.view(-1, 1, 1) + torch.arange(chunk)) % ring
        return (windows * ring + places).flatten()
