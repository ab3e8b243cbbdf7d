"""The public models of a service. Clients use their names. Each name stands for a Triton model, which may change."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from streamer.bridge.upstreams.pool import LoadState, UpstreamPool
from streamer.bridge.upstreams.tritons import Tritons
from streamer.limits import DEFAULT_MODEL
from streamer.wire.dialects.spoken_language import Languages


class Models:
    """All models. open() waits until each of them answers at one Triton. They are kept well until close()."""

    def __init__(self, tritons: Tritons, models: Mapping[str, str], *, on_demand: bool = False) -> None:
        """`models`: the Triton model for each public name, including `default`.

        `on_demand`: open only `default`. A ModelLoader opens the others when sessions ask for them.
        """
        self._tritons = tritons
        # Only one task at a time may change the set of Tritons or models.
        self._changing = asyncio.Lock()
        self._pools = {
            name: UpstreamPool(name, model, tritons, lambda: self._pools.values(), self._changing)
            for name, model in models.items()
        }
        self._on_demand = on_demand
        self._following: asyncio.Task[None] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The public names. They do not change while the service runs."""
        return tuple(self._pools)

    @property
    def languages(self) -> Mapping[str, Languages]:
        """The languages of each model, by public name."""
        return {name: pool.languages for name, pool in self._pools.items()}

    @property
    def pools(self) -> Mapping[str, UpstreamPool]:
        """The pools by public name."""
        return self._pools

    @property
    def default(self) -> UpstreamPool:
        """The pool for sessions that do not name a model."""
        return self._pools[DEFAULT_MODEL]

    @property
    def tritons(self) -> int:
        """The number of Tritons."""
        return len(self._tritons.present)

    @property
    def tritons_ready(self) -> int:
        """The number of Tritons that serve every loaded model in every instance."""
        loaded = [pool for pool in self._pools.values() if not self._on_demand or pool.state is LoadState.LOADED]
        return len(set(self._tritons.present).intersection(*(pool.ready_upstreams for pool in loaded)))

    async def open(self) -> None:
        """Wait until each model is well at one Triton. Raise LinkError or TritonError if that fails."""
        await self._tritons.find()
        for pool in [self.default] if self._on_demand else self._pools.values():
            await pool.open()
        self._following = asyncio.create_task(self._tritons.follow(self._follow))

    async def close(self) -> None:
        """Leave all Tritons, and stop embedded ones."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        await asyncio.gather(*(pool.close() for pool in self._pools.values()))
        await self._tritons.end()

    async def cut_off(self) -> None:
        """Kill embedded Tritons at once, so that close() need not wait for them."""
        await self._tritons.cut_off()

    def states(self) -> dict[str, int]:
        """Return how many models are in each state of loading."""
        return {state.value: sum(pool.state is state for pool in self._pools.values()) for state in LoadState}

    def state(self) -> dict[str, Any]:
        """Return what /readyz reports for each model."""
        return {
            name: {"model": pool.model, "state": pool.state.value, "ready": pool.ready, "sequences": pool.held}
            for name, pool in self._pools.items()
        }

    async def _follow(self) -> None:
        async with self._changing:
            for pool in self._pools.values():
                pool.follow()
