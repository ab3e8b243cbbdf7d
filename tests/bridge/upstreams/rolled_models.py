"""Models that replace one another during sessions: their repository, their service, and a check of the events."""

from __future__ import annotations

import asyncio
import copy
import json
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from streamer.bridge.service import Service
from streamer.bridge.triton.server import TritonServer
from streamer.testing.exact_service import add_exact_model
from tests.bridge.service_client import Event, lasting


def two_models(folder: Path, *, punctuation: bool = False) -> Path:
    """Put two exact models, `one` and `two`, into a folder."""
    for name in ("one", "two"):
        add_exact_model(folder, name, punctuation=punctuation)
    return folder


@asynccontextmanager
async def serving(repository: Path, **settings: Any) -> AsyncIterator[tuple[Service, TritonServer]]:
    """Run a service with the first of them."""
    triton = TritonServer(repository, models=["one"], slots=24)
    async with Service(triton, port=0, models={"default": "one"}, **settings) as service:
        yield service, triton


def check(events: list[Event], whole: list[Event]) -> None:
    """Check that there is only what an undisturbed session gets, and no recovery."""
    assert "recovered" not in {event["type"] for event in events}
    assert lasting(copy.deepcopy(events)) == lasting(copy.deepcopy(whole))
    assert [event["n"] for event in events] == list(range(2, len(events) + 2))


def states(triton: TritonServer) -> dict[str, str]:
    """Return the state of each model in Triton's repository index."""
    url = f"http://{triton.http_address}/v2/repository/index"
    with urllib.request.urlopen(urllib.request.Request(url, data=b"{}", method="POST"), timeout=60) as answer:
        return {model["name"]: model.get("state", "") for model in json.load(answer)}


async def gone(triton: TritonServer, model: str) -> None:
    """Wait until Triton has unloaded the model."""
    for _ in range(600):
        if (await asyncio.to_thread(states, triton)).get(model, "") not in ("READY", "UNLOADING", "LOADING"):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(states(triton))
