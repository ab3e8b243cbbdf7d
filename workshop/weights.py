"""Weights of models in training: the precision in which they are computed, and averages of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import nn

Model = TypeVar("Model", bound=nn.Module)


def precision_of(device: torch.device) -> torch.dtype:
    """Return bfloat16 if the machine computes in it, otherwise float32."""
    fast = device.type == "cuda" or torch.cpu._is_avx512_bf16_supported()
    return torch.bfloat16 if fast else torch.float32


def faster(device: torch.device) -> torch.autocast:
    """Compute in the precision of this device inside a `with`."""
    precision = precision_of(device)
    return torch.autocast(device.type, precision, enabled=precision != torch.float32)


@torch.no_grad()
def averaged(models: Sequence[Model], shares: Sequence[float]) -> Model:
    """Write the average of these models, each with its share, into the first. ValueError if they differ in shape.

    The average of models with the same first weights is often better than each of them.
    """
    total = sum(shares)
    if total <= 0 or min(shares) < 0:
        raise ValueError("no share may be below zero, and one must be above")
    first, *others = (model.state_dict() for model in models)
    shapes = {name: weights.shape for name, weights in first.items()}
    for other in others:
        if {name: weights.shape for name, weights in other.items()} != shapes:
            raise ValueError("the models do not have the same shape")
    for name, weights in first.items():
        if weights.is_floating_point():
            parts = zip((weights, *(other[name] for other in others)), shares, strict=True)
            weights.copy_(torch.stack([share / total * part.double() for part, share in parts]).sum(0))
    return models[0]
