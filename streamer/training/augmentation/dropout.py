"""Dropout in training: each number that a part of a block adds to a frame is left out with some probability.

The encoder of the service has none, and needs none. So dropout hangs on the model of a training run as hooks.
"""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn
from torch.nn import functional

from streamer.engine.models.encoder import ConvolutionModule, Encoder, FeedForward, SelfAttention


def add_dropout(encoder: Encoder, share: float) -> None:
    """Leave out this share of the numbers while the encoder is in training mode."""
    for module in encoder.modules():
        if isinstance(module, FeedForward | SelfAttention | ConvolutionModule):
            module.register_forward_hook(partial(_dropped, share))


def _dropped(share: float, module: nn.Module, _: object, output: Tensor) -> Tensor:
    return functional.dropout(output, share, module.training)
