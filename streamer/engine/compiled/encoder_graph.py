"""Writes a step of the encoder as a graph, for batches of any size and chunks of any length.

The past of each slot is an input of the graph, and the part of it that the next step needs is an output. So the graph
has no state, and its caller owns the slots.
"""

from __future__ import annotations

from typing import Final, cast

import torch
from torch import Tensor, nn

from streamer.engine.compiled.network_writer import BATCH, NetworkWriter, behind
from streamer.engine.models.block_context import ROTATION_PERIOD
from streamer.engine.models.encoder import (
    ConformerBlock,
    ConvolutionModule,
    Encoder,
    FeedForward,
    SelfAttention,
    SubsamplingStem,
)
from streamer.graphs.graph_writer import CONTRIBUTED
from streamer.graphs.onnx_file import ElementType

CHUNK: Final = "chunk"
_HIDDEN: Final = -1e9  # softmax turns this into zero


def windows(layers: int) -> list[str]:
    """Return the names of the inputs for the past keys and values, in the order of the state of a slot."""
    return [f"{kind}_{layer}" for layer in range(layers) for kind in ("keys", "values")]


def pasts(layers: int) -> list[str]:
    """Return the names of the inputs for the past frames of the convolutions, in the order of the state of a slot."""
    return [f"past_{layer}" for layer in range(layers)]


class EncoderGraph:
    """The graph of one encoder.

    Its inputs are `mel`, `frames` (how many a slot has computed), and the names in `pasts` and `windows`. Its outputs
    are the frames, the keys and values of the chunk in the order of `windows`, and the inputs of the convolutions.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder, self._config = encoder, encoder.config
        self._graph = NetworkWriter()
        self._new_windows: list[str] = []
        self._new_pasts: list[str] = []

    def written(self) -> bytes:
        """Return the graph as the content of a file."""
        graph, config = self._graph, self._config
        width = config.width
        self._rotation = [graph.tensor(table) for table in (self._encoder.rotation.cosine, self._encoder.rotation.sine)]
        self._as_rows = graph.numbers(-1, width)
        frames = self._stem(self._encoder.stem)
        self._as_batch = graph.node("Shape", frames)  # [batch, chunk, width]
        ends = ((0, 1), (1, 2))
        self._streams, self._chunk = (graph.node("Slice", self._as_batch, *map(graph.numbers, each)) for each in ends)
        shape = (self._streams, graph.numbers(1), self._chunk, graph.numbers(width))
        self._as_pictures = graph.node("Concat", *shape, axis=0)
        self._places(graph.input("frames", [BATCH, 1], ElementType.INT64))
        rows = graph.norm(self._rows(frames), self._encoder.stem.norm)
        for layer, block in enumerate(self._encoder.blocks):
            rows = self._block(rows, cast("ConformerBlock", block), layer)
        graph.output(self._batch(rows), [BATCH, CHUNK, width])
        # The layers lie one after another.
        graph.output(graph.node("Concat", *self._new_windows, axis=0), ["windows", CHUNK, width])
        graph.output(graph.node("Concat", *self._new_pasts, axis=0), ["pasts", 1, CHUNK, width])
        return graph.content()

    def _stem(self, stem: SubsamplingStem) -> str:
        graph = self._graph
        mel = graph.input("mel", [BATCH, "hops", self._config.mels])
        return graph.halved(graph.silu(graph.halved(mel, stem.first)), stem.second)

    def _places(self, frames: str) -> None:
        """Add the positions of the chunk, and the mask, which hides the part of the window that is not filled yet."""
        graph, left = self._graph, self._config.left_frames
        streams, chunk = self._streams, self._chunk
        end = graph.node("Squeeze", chunk)
        positions = graph.node("Add", frames, graph.node("Range", graph.number(0), end, graph.number(1)))
        self._positions = graph.node("Mod", positions, graph.number(ROTATION_PERIOD))
        filled = graph.node("Less", graph.tensor(torch.arange(left).unsqueeze(0)), frames)
        visible, hidden = graph.tensor(torch.zeros(1)), graph.tensor(torch.full((1,), _HIDDEN))
        window = graph.node("Unsqueeze", graph.node("Where", filled, visible, hidden), graph.numbers(1, 2))
        one, every = graph.numbers(1), graph.numbers(left)
        window = graph.node("Expand", window, graph.node("Concat", streams, one, chunk, every, axis=0))
        within = graph.node("Expand", visible, graph.node("Concat", streams, one, chunk, chunk, axis=0))
        self._mask = graph.node("Concat", window, within, axis=3)

    def _block(self, rows: str, block: ConformerBlock, layer: int) -> str:
        graph = self._graph
        rows = graph.node("Add", rows, self._feed_forward(rows, block.before))
        rows = graph.node("Add", rows, self._attention(rows, block.attention, layer))
        rows = graph.node("Add", rows, self._convolution(rows, block.convolution, layer))
        rows = graph.node("Add", rows, self._feed_forward(rows, block.after))
        return graph.norm(rows, block.norm)

    def _feed_forward(self, rows: str, network: FeedForward) -> str:
        """Add a feed-forward network, and return half of its output."""
        graph, layers = self._graph, tuple(network)
        norm, first, _, second = cast("tuple[nn.LayerNorm, nn.Linear, nn.SiLU, nn.Linear]", layers)
        hidden = graph.silu(graph.linear(graph.plain_norm(rows, norm), *behind(norm, first)))
        return graph.linear(hidden, second.weight / 2, second.bias / 2)

    def _attention(self, rows: str, attention: SelfAttention, layer: int) -> str:
        graph, heads = self._graph, self._config.heads
        rows_in = graph.plain_norm(rows, attention.norm)
        parts = zip(*(part.chunk(3) for part in behind(attention.norm, attention.project)), strict=True)
        query, key, value = (self._batch(graph.linear(rows_in, *part)) for part in parts)
        query, key = (self._rotated(vectors) for vectors in (query, key))
        left, size = self._config.left_frames, self._config.width // heads
        past = [graph.input(f"{kind}_{layer}", [BATCH, heads, left, size]) for kind in ("keys", "values")]
        # The two empty inputs are a bias and another mask, which are not used.
        inputs = (query, key, value, "", "", self._mask, *past)
        merged, *_ = graph.nodes("MultiHeadAttention", *inputs, results=3, domain=CONTRIBUTED, num_heads=heads)
        self._new_windows += [key, value]
        return graph.linear(self._rows(merged), attention.merge.weight, attention.merge.bias)

    def _rotated(self, vectors: str) -> str:
        inputs = (vectors, self._positions, *self._rotation)
        return self._graph.node("RotaryEmbedding", *inputs, domain=CONTRIBUTED, num_heads=self._config.heads)

    def _convolution(self, rows: str, module: ConvolutionModule, layer: int) -> str:
        graph = self._graph
        rows_in = graph.plain_norm(rows, module.norm)
        (weight, gate_weight), (bias, gate_bias) = (part.chunk(2) for part in behind(module.norm, module.gate))
        gate = graph.node("Sigmoid", graph.linear(rows_in, gate_weight, gate_bias))
        gated = graph.node("Reshape", graph.node("Mul", graph.linear(rows_in, weight, bias), gate), self._as_pictures)
        past = graph.input(pasts(self._config.layers)[layer], [BATCH, 1, self._config.kernel - 1, self._config.width])
        joined = graph.node("Concat", past, gated, axis=2)
        self._new_pasts.append(gated)
        causal = self._depthwise(joined, module.causal.weight, 0)
        inside = self._depthwise(gated, module.inside.weight, module.reach)
        mixed = self._rows(graph.node("Transpose", graph.node("Add", causal, inside), perm=[0, 2, 3, 1]))
        return graph.linear(graph.silu(graph.norm(mixed, module.mixed)), module.merge.weight, module.merge.bias)

    def _depthwise(self, frames: str, weight: Tensor, reach: int) -> str:
        """Add a convolution of each channel: [batch, 1, frames, width] to [batch, width, 1, frames].

        The frames are pictures with a height of one, because onnxruntime has no kernel for sounds with many channels.
        The kernel for pictures reorders the channels anyway, so the transposition costs nothing.
        """
        graph = self._graph
        pictures = graph.node("Transpose", frames, perm=[0, 3, 1, 2])
        kernel, pads = [1, weight.shape[-1]], [0, reach, 0, reach]
        return graph.node("Conv", pictures, graph.tensor(weight), group=len(weight), kernel_shape=kernel, pads=pads)

    def _rows(self, value: str) -> str:
        """Reshape [batch, chunk, width] to [batch * chunk, width], because linear layers are fastest on rows."""
        return self._graph.node("Reshape", value, self._as_rows)

    def _batch(self, rows: str) -> str:
        return self._graph.node("Reshape", rows, self._as_batch)
