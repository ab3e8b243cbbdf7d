"""The embedded Triton of all workers: the process that started them has it, and they ask for what only that can do.

Sessions go straight to Triton. A worker asks only to open the model, to mend a Triton that fails, and to load or unload
a model. Several workers notice a failure at the same time, and it is mended once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

from streamer.base.json_types import JsonObject
from streamer.bridge.telemetry.logs import Log
from streamer.bridge.triton import TritonError
from streamer.bridge.triton.link import PLAIN
from streamer.bridge.triton.server import TritonServer
from streamer.bridge.upstreams.supervision import EmbeddedTriton
from streamer.bridge.workers.dialogue import Answer, Dialogue

log = Log("streamer.bridge")

# Another report of the same failure comes within this time: overdue answers are noticed after up to half a minute.
MENDED_S: Final = 30.0
_OWN: Final = "own"


class SharedTriton:
    """The embedded Triton as a worker sees it."""

    name = _OWN
    loads = True
    dial = PLAIN

    def __init__(self, dialogue: Dialogue, probers: int) -> None:
        """`probers`: how many workers probe it."""
        self.probers = probers
        self._dialogue = dialogue
        self._reader: str | None = None  # the address at which its reader may be asked

    async def address(self) -> str:
        """Return its gRPC address once it listens."""
        answer = await self._dialogue.ask("address")
        assert isinstance(answer, dict)
        address = str(answer["address"])
        self._reader = address if answer["reader"] else None
        return address

    async def look_for(self, model: str) -> None:
        """Look for the folder of the model."""
        await self._dialogue.ask("look_for", model=model)

    async def load(self, model: str) -> bool:
        """Load this model unless it is loaded."""
        return await self._dialogue.ask("load", model=model) is True

    def instances(self, model: str) -> int | None:
        """Return None: with several workers, the number does not change."""
        return None

    def memory(self, model: str) -> int | None:
        """Return None: with several workers, models are not loaded on demand."""
        return None

    async def resize(self, model: str, instances: int) -> None:
        """Raise TritonError."""
        raise TritonError("with several workers, the number of instances does not change")

    async def unused(self, model: str, limit_s: float) -> bool:
        """Wait until no other worker uses the model, either."""
        return await self._dialogue.ask("unused", model=model, limit_s=limit_s) is True

    async def unload(self, model: str) -> None:
        """Unload a model, if another worker has not done so."""
        await self._dialogue.ask("unload", model=model)

    async def mend(self, model: str, address: str, *, broken: bool) -> None:
        """Mend it, if another worker has not done so."""
        await self._dialogue.ask("mend", model=model, address=address, broken=broken)

    def reader_address(self) -> str | None:
        """Return its address if it runs with a reader."""
        return self._reader

    async def reload(self, model: str) -> None:
        """Load a model again."""
        await self._dialogue.ask("reload", model=model)

    async def cut_off(self) -> None:
        """Do nothing: the process that has it kills it."""

    async def end(self) -> None:
        """Do nothing: the process that has it stops it."""


class TritonForWorkers:
    """The embedded Triton as the supervising process has it: does what workers ask, one thing at a time."""

    def __init__(self, server: TritonServer, workers: Callable[[], set[int]]) -> None:
        """`workers`: returns the numbers of the processes that use it now."""
        self._server = server
        self._triton = EmbeddedTriton(server)
        self._workers = workers
        self._changing = asyncio.Lock()
        self._mended_at: dict[str, float] = {}
        self._users: dict[str, set[int]] = {}  # by model, the workers that have loaded it and not let it go

    def answers(self, worker: int) -> Mapping[str, Answer]:
        """Return what answers the questions of this worker."""

        async def unused(question: JsonObject) -> bool:
            return await self._unused(str(question["model"]), worker, float(str(question["limit_s"])))

        async def load(question: JsonObject) -> bool:
            async with self._changing:
                model = str(question["model"])
                self._users.setdefault(model, set()).add(worker)
                return await self._triton.load(model)

        return {
            "address": self._address,
            "load": load,
            "look_for": self._look_for,
            "mend": self._mend,
            "reload": self._reload,
            "unload": self._unload,
            "unused": unused,
        }

    async def cut_off(self) -> None:
        """Kill it for good."""
        await self._triton.cut_off()

    async def end(self) -> None:
        """Stop it."""
        await self._triton.end()

    async def _address(self, _: JsonObject) -> JsonObject:
        async with self._changing:
            return {"address": await self._triton.address(), "reader": self._triton.reader_address() is not None}

    async def _look_for(self, question: JsonObject) -> None:
        await self._triton.look_for(str(question["model"]))

    async def _mend(self, question: JsonObject) -> None:
        model, broken = str(question["model"]), question["broken"] is True
        async with self._changing:
            # A Triton that was killed has another address afterwards, so a second report finds nothing to kill. A model
            # that was loaded again has not.
            now = time.monotonic()
            if broken and len(self._server.models) > 1:
                if now - self._mended_at.get(model, float("-inf")) < MENDED_S:
                    return
                self._mended_at[model] = now
            await self._triton.mend(model, str(question["address"]), broken=broken)

    async def _reload(self, question: JsonObject) -> None:
        async with self._changing:
            await self._triton.reload(str(question["model"]))

    async def _unload(self, question: JsonObject) -> None:
        model = str(question["model"])
        async with self._changing:
            if model in self._server.models and not self._users_of(model):
                await self._triton.unload(model)

    def _users_of(self, model: str) -> set[int]:
        return self._users.get(model, set()) & self._workers()

    async def _unused(self, model: str, worker: int, limit_s: float) -> bool:
        self._users.get(model, set()).discard(worker)
        deadline = time.monotonic() + limit_s
        while self._users_of(model):
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(_LOOK_EVERY_S)
        return True


_LOOK_EVERY_S: Final = 0.1
