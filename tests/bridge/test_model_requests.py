"""The requests of sessions to the model: who waits for whom."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
from websockets.asyncio.client import ClientConnection, connect

from streamer.bridge.access.keys import Key, KeyFile
from streamer.bridge.access.rules import AccessRules, PortPolicy
from streamer.bridge.triton.server import TritonServer
from streamer.testing.exact_service import add_exact_model
from streamer.testing.exact_speech import say, silence
from tests.bridge.access.bare_port import ALICE, BOB
from tests.bridge.service_client import Event, receive, rest, serving
from tests.bridge.upstreams.speaking_sessions import value
from tests.triton_processes import stubs

FLUSH, STOP = ('{"type":"flush"}', '{"type":"stop"}')
ATTACKERS = 6
# A second pass of this takes longer than any may. But it is not too much for a live session to send at once.
TALK = " ".join(["words without a pause"] * 7)
LONG = np.concatenate([say(TALK), silence(100)]).tobytes()
SHORT = np.concatenate([say("a word"), silence(100)]).tobytes()
OPTIONS: dict[str, Any] = {"second_pass": True, "endpoint": {"silence": False, "longest_ms": 60_000}}


async def opened(url: str, key: Key, *, live: bool) -> ClientConnection:
    websocket = await connect(url, compression=None, additional_headers={"Authorization": f"Bearer {key.secret}"})
    await websocket.send(json.dumps({"type": "start", "live": live, **OPTIONS}))
    assert (await receive(websocket))["type"] == "ready"
    return websocket


async def final_of(websocket: ClientConnection, audio: bytes) -> Event:
    """Send some audio at once, and return its final."""
    await websocket.send(audio)
    await websocket.send(FLUSH)
    while (event := await receive(websocket))["type"] != "final":
        pass
    return event


async def end(websocket: ClientConnection) -> None:
    """End a session in order."""
    await websocket.send(STOP)
    events = await rest(websocket)
    assert (events[-1]["type"], websocket.close_code) == ("done", 1000)


async def test_second_passes_of_one_key_are_no_concern_of_others(tmp_path: Path, keys: KeyFile) -> None:
    """However many long segments one key has read again, another key has its own read, and no session fails.

    Those of the first key keep the words of the first pass, and say so. The model is busy, but is not replaced.
    """
    add_exact_model(tmp_path, "streaming_asr", slots=ATTACKERS + 2, instances=1, fault="reads again slowly")
    with TritonServer(tmp_path) as triton:
        async with serving(triton, policy=PortPolicy(AccessRules(keys))) as service:
            before = {stub.pid for stub in stubs(triton.pid)}
            attackers = [await opened(service.url, ALICE, live=number % 2 > 0) for number in range(ATTACKERS)]
            stranger = await opened(service.url, BOB, live=True)
            over = asyncio.Event()

            async def attack(websocket: ClientConnection) -> list[Event]:
                finals = []
                while not over.is_set():
                    finals.append(await final_of(websocket, LONG))
                return finals

            attacks = [asyncio.create_task(attack(websocket)) for websocket in attackers]
            heard = [await final_of(stranger, SHORT) for _ in range(4)]
            over.set()
            theirs = [final for finals in await asyncio.gather(*attacks) for final in finals]
            for websocket in (stranger, *attackers):
                await end(websocket)
            assert [(event["text"], event["read_by"]) for event in heard] == [("a word", "second_pass")] * 4
            assert {event["text"] for event in theirs} == {TALK}
            assert "first_pass" in {event["read_by"] for event in theirs}
            assert value(service, "streamer_recoveries_total") == 0
            assert {stub.pid for stub in stubs(triton.pid)} == before
