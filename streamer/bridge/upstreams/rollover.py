"""One model follows another on the same Tritons: what has to hold before anybody is sent to the new one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from streamer.bridge.telemetry.logs import Log
from streamer.bridge.upstreams.upstream import Upstream
from streamer.triton import TritonError

log = Log("streamer.bridge")

# A model that was loaded for nothing is taken out again unless somebody else has begun to use it meanwhile.
DROP_LIMIT_S = 60.0


class RollError(Exception):
    """The service keeps the model that it has; the message says why."""


async def successors(upstreams: Iterable[Upstream], model: str) -> dict[Upstream, Upstream]:
    """For each of them the same Triton with another model, which has answered a short sequence there.

    One that is away gets the model when it is back. RollError, and nothing has changed, if another cannot serve it.
    """
    following = {
        upstream: Upstream(upstream.name, upstream.supervisor, model, loads=True) for upstream in list(upstreams)
    }
    asked = [following[upstream] for upstream in following if upstream.well]
    if not asked:
        raise RollError(f"{model} cannot be tried: no Triton is well")
    try:
        results = await asyncio.gather(*(upstream.open() for upstream in asked), return_exceptions=True)
        failures = [f"{upstream.name}: {error}" for upstream, error in zip(asked, results, strict=True) if error]
        failures = failures or [f"{upstream.name} was lost again" for upstream in asked if not upstream.well]
        room, taken = (sum(upstream.most for upstream in asked), sum(upstream.taken for upstream in following))
        if not failures and room < taken:
            failures = [f"It has slots for {room} sequences, and sessions hold {taken}"]
    except asyncio.CancelledError:
        await asyncio.gather(*(upstream.close() for upstream in asked))
        raise
    if failures:
        await asyncio.gather(*(_drop(upstream) for upstream in asked))
        raise RollError(f"{model} cannot be used. {'; '.join(failures)}")
    return following


async def _drop(upstream: Upstream) -> None:
    """Leave it as if it had never been."""
    await upstream.close()
    if not upstream.loaded:
        return
    try:
        if not await upstream.supervisor.unused(upstream.model, DROP_LIMIT_S):
            raise TritonError("somebody uses it")
        await upstream.supervisor.unload(upstream.model)
    except TritonError as error:
        log.warning("model not unloaded", triton=upstream.name, model=upstream.model, detail=str(error))
