"""Writes the layers of our networks into a graph."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn

from streamer.graphs.graph_writer import CONTRIBUTED, GraphWriter
from streamer.graphs.onnx_file import ElementType

BATCH: Final = "batch"
_KINDS: Final = {torch.float32: ElementType.FLOAT, torch.int64: ElementType.INT64}


class NetworkWriter(GraphWriter):
    """Adds a layer with every call."""

    def tensor(self, tensor: Tensor) -> str:
        """A constant: fractions in 32 bits, or whole numbers."""
        kept = (tensor.detach().float() if tensor.is_floating_point() else tensor).contiguous()
        return self.constant(kept.numpy().tobytes(), kept.shape, _KINDS[kept.dtype])

    def linear(self, rows: str, weight: Tensor, bias: Tensor) -> str:
        """A linear layer, as torch keeps its weights, on rows."""
        return self.node("Gemm", rows, self.tensor(weight.t()), self.tensor(bias))

    def norm(self, rows: str, norm: nn.LayerNorm) -> str:
        """Layer normalisation."""
        weight, bias = self.tensor(norm.weight), self.tensor(norm.bias)
        return self.node("LayerNormalization", rows, weight, bias, axis=-1, epsilon=norm.eps)

    def plain_norm(self, rows: str, norm: nn.LayerNorm) -> str:
        """The same without weights and biases, which `behind` has moved into the next layer."""
        like = norm.weight.detach().float()
        weight, bias = self.tensor(torch.ones_like(like)), self.tensor(torch.zeros_like(like))
        return self.node("LayerNormalization", rows, weight, bias, axis=-1, epsilon=norm.eps)

    def silu(self, value: str) -> str:
        """SiLU as one operation."""
        return self.node("QuickGelu", value, domain=CONTRIBUTED, alpha=1.0)

    def convolution(self, sound: str, layer: nn.Conv1d) -> str:
        """A convolution along the last axis."""
        weight, bias = self.tensor(layer.weight), [] if layer.bias is None else [self.tensor(layer.bias)]
        return self.node("Conv", sound, weight, *bias, kernel_shape=layer.kernel_size, strides=layer.stride)


def behind(norm: nn.LayerNorm, layer: nn.Linear) -> tuple[Tensor, Tensor]:
    """The weight and bias of a linear layer that does the scaling and shifting of the norm before it, too."""
    weight, bias = layer.weight.detach().float(), layer.bias.detach().float()
    return weight * norm.weight.detach().float(), bias + weight @ norm.bias.detach().float()
