"""The processes of training: an orderly end, work divided among several, the numbers they use, averaged models."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeVar

import torch
from torch import nn


def precision_of(device: torch.device) -> torch.dtype:
    """Return bfloat16 if the machine computes in it, otherwise float32."""
    fast = device.type == "cuda" or torch.cpu._is_avx512_bf16_supported()
    return torch.bfloat16 if fast else torch.float32


def faster(device: torch.device) -> torch.autocast:
    """Compute in the precision of this device inside a `with`."""
    precision = precision_of(device)
    return torch.autocast(device.type, precision, enabled=precision != torch.float32)


# Handles SIGTERM and Ctrl-C as a request to stop. The work then ends in order.

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StoppedError(Exception):
    """The work was not finished, because the process was asked to stop."""


def stop_signals() -> Callable[[], bool]:
    """Make these signals only request a stop. Returns a function that says whether one has arrived."""
    stopped = False

    def request_stop(*_: object) -> None:
        nonlocal stopped
        stopped = True

    for number in STOP_SIGNALS:
        signal.signal(number, request_stop)
    return lambda: stopped


# Does the same work for many things in several processes, or in this process if there is only one.

Result = TypeVar("Result")


class Workers:
    """A context manager. Processes are spawned, not forked: this process may have threads, which a fork would break.

    A single worker is this process itself, because a new one would take seconds to import what the work needs.
    """

    def __init__(self, processes: int, prepare: Callable[..., None] | None = None, *arguments: Any) -> None:
        """`prepare` is called with `arguments` in every process before its work."""
        self._processes, self._prepare, self._arguments = processes, prepare, arguments
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Workers:
        if self._processes != 1:
            self._pool = ProcessPoolExecutor(self._processes, get_context("spawn"), self._prepare, self._arguments)
        elif self._prepare:
            self._prepare(*self._arguments)
        return self

    def __exit__(self, *details: object) -> None:
        if self._pool:
            self._pool.shutdown()

    def map(self, work: Callable[..., Result], *things: Iterable[Any], chunk: int = 1) -> Iterator[Result]:
        """Return the results in order. Other processes get `chunk` things at a time."""
        return self._pool.map(work, *things, chunksize=chunk) if self._pool else map(work, *things)


# Averages models of one shape. The average of models with the same first weights is often better than each.

Model = TypeVar("Model", bound=nn.Module)


@torch.no_grad()
def averaged(models: Sequence[Model], shares: Sequence[float]) -> Model:
    """Write the average of these models, each with its share, into the first. ValueError if they differ in shape."""
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
