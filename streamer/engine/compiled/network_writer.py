"""Writes the layers of our networks into a graph."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from streamer.graphs.graph_writer import CONTRIBUTED, GraphWriter
from streamer.graphs.onnx_file import ElementType

BATCH: Final = "batch"
HALVED_CONTEXT: Final = 8
"""How many frames before the first one two layers of `halved` read."""
_END: Final = 2**62  # the end of a slice that goes to the end of its axis
_KINDS: Final = {torch.float32: ElementType.FLOAT, torch.int64: ElementType.INT64}


class NetworkWriter(GraphWriter):
    """Writes a graph. Each method adds a layer, and returns the name of its output."""

    def tensor(self, tensor: Tensor) -> str:
        """Add a constant with fractions in 32 bits or whole numbers."""
        value = (tensor.detach().float() if tensor.is_floating_point() else tensor).contiguous()
        return self.constant(value.numpy().tobytes(), value.shape, _KINDS[value.dtype])

    def linear(self, rows: str, weight: Tensor, bias: Tensor) -> str:
        """Add a linear layer on rows. The weight has the order of axes that torch uses."""
        return self.node("Gemm", rows, self.tensor(weight.t()), self.tensor(bias))

    def norm(self, rows: str, norm: nn.LayerNorm) -> str:
        """Add layer normalisation."""
        weight, bias = self.tensor(norm.weight), self.tensor(norm.bias)
        return self.node("LayerNormalization", rows, weight, bias, axis=-1, epsilon=norm.eps)

    def plain_norm(self, rows: str, norm: nn.LayerNorm) -> str:
        """Add layer normalisation without weights and biases, which `behind` has moved into the next layer."""
        like = norm.weight.detach().float()
        weight, bias = self.tensor(torch.ones_like(like)), self.tensor(torch.zeros_like(like))
        return self.node("LayerNormalization", rows, weight, bias, axis=-1, epsilon=norm.eps)

    def silu(self, value: str) -> str:
        """Add SiLU as one operation."""
        return self.node("QuickGelu", value, domain=CONTRIBUTED, alpha=1.0)

    def halved(self, frames: str, layer: nn.Conv1d) -> str:
        """Add a convolution of stride 2 on [batch, frames, width] as a product of rows. The number of frames is even.

        A product is faster for many streams, and the bits of a frame do not depend on the rest of the batch. A row is
        made of whole pairs of frames. If the layer reads an odd number of frames, the first one of a row has no weight.
        """
        [kernel], width = layer.kernel_size, layer.in_channels
        count = (kernel + 1) // 2
        pairs = self.node("Reshape", frames, self.numbers(0, -1, 2 * width))
        parts = [self.part(pairs, first, first + 1 - count) for first in range(count)]
        rows = self.node("Concat", *parts, axis=2)
        weight = pad(layer.weight.permute(2, 1, 0), (0, 0, 0, 0, 2 * count - kernel, 0)).flatten(0, 1)
        bias = torch.zeros(layer.out_channels) if layer.bias is None else layer.bias
        return self.node("Add", self.node("MatMul", rows, self.tensor(weight)), self.tensor(bias))

    def part(self, value: str, begin: int, end: int) -> str:
        """Add a slice of the second axis. An end of 0 is the end of the axis."""
        return self.node("Slice", value, self.numbers(begin), self.numbers(end or _END), self.numbers(1))


def behind(norm: nn.LayerNorm, layer: nn.Linear) -> tuple[Tensor, Tensor]:
    """Return the weight and bias of a linear layer that also does the scaling and shifting of the norm before it."""
    weight, bias = layer.weight.detach().float(), layer.bias.detach().float()
    return weight * norm.weight.detach().float(), bias + weight @ norm.bias.detach().float()
