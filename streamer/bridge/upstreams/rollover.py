"""Prepares another model on the same Tritons, and tests it before streams go there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from streamer.bridge.telemetry.logs import Log
from streamer.bridge.upstreams.upstream import Upstream
from streamer.triton import TritonError

log = Log("streamer.bridge")

# The longest wait until a model that was loaded in vain is unused, so that it can be unloaded again.
DROP_LIMIT_S = 60.0


class RollError(Exception):
    """The roll failed, and the service keeps its model. The message says why."""


async def look_for(upstreams: Iterable[Upstream], model: str) -> None:
    """Raise RollError if no Triton is ready, or a ready one has no such model. This loads nothing."""
    ready = _ready(upstreams, model)
    searches = (upstream.supervisor.look_for(model) for upstream in ready)
    results = await asyncio.gather(*searches, return_exceptions=True)
    _check(model, [f"{upstream.name}: {error}" for upstream, error in zip(ready, results, strict=True) if error])


async def successors(upstreams: Iterable[Upstream], model: str) -> dict[Upstream, Upstream]:
    """Return for each upstream one with another model at the same Triton, which has answered a short sequence.

    A Triton that is away gets the model when it is back. If a ready one cannot serve the model, raise RollError, and
    leave everything as it was.
    """
    successor_of = {
        upstream: Upstream(upstream.name, upstream.supervisor, model, loads=True) for upstream in list(upstreams)
    }
    ready = [successor_of[upstream] for upstream in _ready(successor_of, model)]
    try:
        results = await asyncio.gather(*(upstream.open() for upstream in ready), return_exceptions=True)
        failures = [f"{upstream.name}: {error}" for upstream, error in zip(ready, results, strict=True) if error]
        failures = failures or [f"{upstream.name} was lost again" for upstream in ready if not upstream.well]
        room, in_use = (sum(upstream.most for upstream in ready), sum(upstream.in_use for upstream in successor_of))
        if not failures and room < in_use:
            failures = [f"It has slots for {room} sequences, but sessions hold {in_use}"]
    except asyncio.CancelledError:
        await asyncio.gather(*(upstream.close() for upstream in ready))
        raise
    if failures:
        await asyncio.gather(*(_drop(upstream) for upstream in ready))
        _check(model, failures)
    return successor_of


def _ready(upstreams: Iterable[Upstream], model: str) -> list[Upstream]:
    """Return the upstreams that are ready. Raise RollError if none is."""
    ready = [upstream for upstream in upstreams if upstream.well]
    if not ready:
        raise RollError(f"{model} cannot be tested: no Triton is ready")
    return ready


def _check(model: str, failures: Sequence[str]) -> None:
    if failures:
        raise RollError(f"{model} cannot be used. {'; '.join(failures)}")


async def _drop(upstream: Upstream) -> None:
    """Leave an upstream, and unload its model if this upstream has loaded it."""
    await upstream.close()
    if not upstream.loaded:
        return
    try:
        if not await upstream.supervisor.unused(upstream.model, DROP_LIMIT_S):
            raise TritonError("others use it, or its Triton does not report that")
        await upstream.supervisor.unload(upstream.model)
    except TritonError as error:
        log.warning("model not unloaded", triton=upstream.name, model=upstream.model, detail=str(error))
