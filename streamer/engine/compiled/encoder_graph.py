"""Writes a step of the encoder as a graph: for batches of any size, and for chunks of any length.

What the graph reads of a slot's past comes in as inputs, and what the next step needs goes out. So the graph has no
state, and the slots stay with their owner.
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
_UNSEEN: Final = -1e9  # what softmax turns into zero


def windows(layers: int) -> list[str]:
    """The inputs for the past keys and values, in the order in which the slots have them."""
    return [f"{kind}_{layer}" for layer in range(layers) for kind in ("keys", "values")]


def pasts(layers: int) -> list[str]:
    """The inputs for the past frames of the convolutions, in the same order."""
    return [f"past_{layer}" for layer in range(layers)]


class EncoderGraph:
    """The graph of one encoder.

    Its inputs: `mel`, `frames` (how many a slot has computed), and those of `pasts` and `windows`. Its outputs: the
    frames, the keys and values of the chunk in the order of `windows`, and what the convolutions read of the chunk.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder, self._config = encoder, encoder.config
        self._graph = NetworkWriter()
        self._new_windows: list[str] = []
        self._new_pasts: list[str] = []

    def written(self) -> bytes:
        """The content of its file."""
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
        # The layers of a batch one after another.
        graph.output(graph.node("Concat", *self._new_windows, axis=0), ["windows", CHUNK, width])
        graph.output(graph.node("Concat", *self._new_pasts, axis=0), ["pasts", 1, CHUNK, width])
        return graph.written()

    def _stem(self, stem: SubsamplingStem) -> str:
        graph = self._graph
        mel = graph.input("mel", [BATCH, "hops", self._config.mels])
        return graph.halved(graph.silu(graph.halved(mel, stem.first)), stem.second)

    def _places(self, frames: str) -> None:
        """The positions of the chunk, and the mask: what of the window is from this stream, and all of the chunk."""
        graph, left = self._graph, self._config.left_frames
        streams, chunk = self._streams, self._chunk
        end = graph.node("Squeeze", chunk)
        positions = graph.node("Add", frames, graph.node("Range", graph.number(0), end, graph.number(1)))
        self._positions = graph.node("Mod", positions, graph.number(ROTATION_PERIOD))
        held = graph.node("Less", graph.tensor(torch.arange(left).unsqueeze(0)), frames)
        seen, unseen = graph.tensor(torch.zeros(1)), graph.tensor(torch.full((1,), _UNSEEN))
        window = graph.node("Unsqueeze", graph.node("Where", held, seen, unseen), graph.numbers(1, 2))
        one, every = graph.numbers(1), graph.numbers(left)
        window = graph.node("Expand", window, graph.node("Concat", streams, one, chunk, every, axis=0))
        within = graph.node("Expand", seen, graph.node("Concat", streams, one, chunk, chunk, axis=0))
        self._mask = graph.node("Concat", window, within, axis=3)

    def _block(self, rows: str, block: ConformerBlock, layer: int) -> str:
        graph = self._graph
        rows = graph.node("Add", rows, self._feed_forward(rows, block.before))
        rows = graph.node("Add", rows, self._attention(rows, block.attention, layer))
        rows = graph.node("Add", rows, self._convolution(rows, block.convolution, layer))
        rows = graph.node("Add", rows, self._feed_forward(rows, block.after))
        return graph.norm(rows, block.norm)

    def _feed_forward(self, rows: str, network: FeedForward) -> str:
        """Half of what the network gives."""
        graph, layers = self._graph, tuple(network)
        norm, first, _, second = cast("tuple[nn.LayerNorm, nn.Linear, nn.SiLU, nn.Linear]", layers)
        hidden = graph.silu(graph.linear(graph.plain_norm(rows, norm), *behind(norm, first)))
        return graph.linear(hidden, second.weight / 2, second.bias / 2)

    def _attention(self, rows: str, attention: SelfAttention, layer: int) -> str:
        graph, heads = self._graph, self._config.heads
        normed = graph.plain_norm(rows, attention.norm)
        parts = zip(*(part.chunk(3) for part in behind(attention.norm, attention.project)), strict=True)
        query, key, value = (self._batch(graph.linear(normed, *part)) for part in parts)
        query, key = (self._rotated(vectors) for vectors in (query, key))
        left, size = self._config.left_frames, self._config.width // heads
        past = [graph.input(f"{kind}_{layer}", [BATCH, heads, left, size]) for kind in ("keys", "values")]
        # The operation has a mask of its own and a bias of the key, which are left out.
        given = (query, key, value, "", "", self._mask, *past)
        merged, *_ = graph.nodes("MultiHeadAttention", *given, results=3, domain=CONTRIBUTED, num_heads=heads)
        self._new_windows += [key, value]
        return graph.linear(self._rows(merged), attention.merge.weight, attention.merge.bias)

    def _rotated(self, vectors: str) -> str:
        given = (vectors, self._positions, *self._rotation)
        return self._graph.node("RotaryEmbedding", *given, domain=CONTRIBUTED, num_heads=self._config.heads)

    def _convolution(self, rows: str, module: ConvolutionModule, layer: int) -> str:
        graph = self._graph
        normed = graph.plain_norm(rows, module.norm)
        (weight, gate_weight), (bias, gate_bias) = (part.chunk(2) for part in behind(module.norm, module.gate))
        gate = graph.node("Sigmoid", graph.linear(normed, gate_weight, gate_bias))
        gated = graph.node("Reshape", graph.node("Mul", graph.linear(normed, weight, bias), gate), self._as_pictures)
        past = graph.input(pasts(self._config.layers)[layer], [BATCH, 1, self._config.kernel - 1, self._config.width])
        joined = graph.node("Concat", past, gated, axis=2)
        self._new_pasts.append(gated)
        causal = self._depthwise(joined, module.causal.weight, 0)
        inside = self._depthwise(gated, module.inside.weight, module.reach)
        mixed = self._rows(graph.node("Transpose", graph.node("Add", causal, inside), perm=[0, 2, 3, 1]))
        return graph.linear(graph.silu(graph.norm(mixed, module.mixed)), module.merge.weight, module.merge.bias)

    def _depthwise(self, frames: str, weight: Tensor, reach: int) -> str:
        """A convolution of each channel: [batch, 1, frames, width] to [batch, width, 1, frames].

        As pictures with a height of one, because onnxruntime has no kernel of its own for sounds with many channels.
        It changes the order of the channels for this kernel anyway, and transposes them with it.
        """
        graph = self._graph
        pictures = graph.node("Transpose", frames, perm=[0, 3, 1, 2])
        kernel, pads = [1, weight.shape[-1]], [0, reach, 0, reach]
        return graph.node("Conv", pictures, graph.tensor(weight), group=len(weight), kernel_shape=kernel, pads=pads)

    def _rows(self, value: str) -> str:
        """[batch, chunk, width] to [batch * chunk, width]: linear layers are fastest on rows."""
        return self._graph.node("Reshape", value, self._as_rows)

    def _batch(self, rows: str) -> str:
        return self._graph.node("Reshape", rows, self._as_batch)
