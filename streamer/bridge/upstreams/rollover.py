"""Prepares another model on the same Tritons: what must be true before streams are sent to it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from streamer.bridge.telemetry.logs import Log
from streamer.bridge.upstreams.upstream import Upstream
from streamer.triton import TritonError

log = Log("streamer.bridge")

# How long to wait until a model that was loaded in vain is unused, so that it can be unloaded again.
DROP_LIMIT_S = 60.0


class RollError(Exception):
    """The roll failed, and the service keeps its model. The message says why."""


async def look_for(upstreams: Iterable[Upstream], model: str) -> None:
    """Raise RollError if no Triton is ready, or one that is has no such model. Nothing is loaded for that."""
    asked = _well(upstreams, model)
    looking = (upstream.supervisor.look_for(model) for upstream in asked)
    results = await asyncio.gather(*looking, return_exceptions=True)
    _check(model, [f"{upstream.name}: {error}" for upstream, error in zip(asked, results, strict=True) if error])


async def successors(upstreams: Iterable[Upstream], model: str) -> dict[Upstream, Upstream]:
    """Return for each upstream one with another model at the same Triton, which has answered a short sequence.

    A Triton that is away gets the model when it is back. If a present one cannot serve it, RollError, and nothing has
    changed.
    """
    following = {
        upstream: Upstream(upstream.name, upstream.supervisor, model, loads=True) for upstream in list(upstreams)
    }
    asked = [following[upstream] for upstream in _well(following, model)]
    try:
        results = await asyncio.gather(*(upstream.open() for upstream in asked), return_exceptions=True)
        failures = [f"{upstream.name}: {error}" for upstream, error in zip(asked, results, strict=True) if error]
        failures = failures or [f"{upstream.name} was lost again" for upstream in asked if not upstream.well]
        room, taken = (sum(upstream.most for upstream in asked), sum(upstream.taken for upstream in following))
        if not failures and room < taken:
            failures = [f"It has slots for {room} sequences, but sessions hold {taken}"]
    except asyncio.CancelledError:
        await asyncio.gather(*(upstream.close() for upstream in asked))
        raise
    if failures:
        await asyncio.gather(*(_drop(upstream) for upstream in asked))
        _check(model, failures)
    return following


def _well(upstreams: Iterable[Upstream], model: str) -> list[Upstream]:
    """Return those that are ready. RollError if none is."""
    found = [upstream for upstream in upstreams if upstream.well]
    if not found:
        raise RollError(f"{model} cannot be tested: no Triton is ready")
    return found


def _check(model: str, failures: Sequence[str]) -> None:
    if failures:
        raise RollError(f"{model} cannot be used. {'; '.join(failures)}")


async def _drop(upstream: Upstream) -> None:
    """Leave an upstream, and unload its model if it was loaded for it."""
    await upstream.close()
    if not upstream.loaded:
        return
    try:
        if not await upstream.supervisor.unused(upstream.model, DROP_LIMIT_S):
            raise TritonError("others use it, or its Triton does not report that")
        await upstream.supervisor.unload(upstream.model)
    except TritonError as error:
        log.warning("model not unloaded", triton=upstream.name, model=upstream.model, detail=str(error))
