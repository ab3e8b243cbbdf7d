"""The optimiser Muon for matrices: each update is the momentum of a matrix, made orthogonal.

Matrices of the same shape are computed as one batch. AdamW is used for all other parameters.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
from torch import Tensor, nn

from streamer.training.acoustic.process_group import ProcessGroup

ITERATIONS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)


class Muon:
    """Updates a list of matrices. The updates are scaled so that a learning rate means the same as with AdamW."""

    def __init__(
        self,
        matrices: list[nn.Parameter],
        dtype: torch.dtype,
        momentum: float = 0.95,
        decay: float = 0.02,
        processes: ProcessGroup | None = None,
    ) -> None:
        self._processes = processes or ProcessGroup()
        self._dtype = dtype
        self._momentum = momentum
        self._decay = decay
        by_shape: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
        for matrix in matrices:
            by_shape[matrix.shape].append(matrix)
        self._stacks = list(by_shape.values())
        self._moments = [torch.zeros_like(torch.stack(list(stack))) for stack in self._stacks]

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Update every matrix from its gradient."""
        for stack, moment in zip(self._stacks, self._moments, strict=True):
            gradient = torch.stack([_gradient(matrix) for matrix in stack])
            moment.lerp_(gradient, 1 - self._momentum)
            update = self._orthogonal(gradient.lerp(moment, self._momentum).to(self._dtype)).float()
            scale = 0.2 * max(update.shape[-2:]) ** 0.5
            for matrix, change in zip(stack, update, strict=True):
                matrix.mul_(1 - rate * self._decay).add_(change, alpha=-rate * scale)

    def _orthogonal(self, matrices: Tensor) -> Tensor:
        # This takes a third of the time of a step with a small batch, so the processes share it.
        lengths = [len(part) for part in matrices.tensor_split(self._processes.size)]
        part = matrices.tensor_split(self._processes.size)[self._processes.rank]
        return self._processes.collect(orthogonal(part) if len(part) else part, lengths)

    def state_dict(self) -> dict[str, Any]:
        """Return the moments, for a checkpoint."""
        return {"moments": self._moments}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the moments from a checkpoint."""
        for moment, stored in zip(self._moments, state["moments"], strict=True):
            moment.copy_(stored)


def orthogonal(matrices: Tensor) -> Tensor:
    """Return roughly the nearest orthogonal matrices [number, rows, columns], by Newton and Schulz's iteration."""
    tall = matrices.shape[-2] > matrices.shape[-1]
    current = matrices.mT if tall else matrices
    current = current / current.float().norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7).to(current.dtype)
    first, second, third = COEFFICIENTS
    for _ in range(ITERATIONS):
        square = current @ current.mT
        polynomial = second * square + third * square @ square
        current = first * current + polynomial @ current
    return current.mT if tall else current


def _gradient(matrix: nn.Parameter) -> Tensor:
    return matrix.grad if matrix.grad is not None else torch.zeros_like(matrix)
