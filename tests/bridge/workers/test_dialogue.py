"""Both sides of a dialogue over a real pair of sockets: questions at the same time, failures, and the end of a side."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from streamer.base.json_types import JsonObject
from streamer.bridge.triton import TritonError
from streamer.bridge.workers.dialogue import Answer, Dialogue, DialogueEnded

Heard = list[tuple[str, JsonObject]]


@asynccontextmanager
async def dialogue(
    answers: dict[str, Answer],
) -> AsyncIterator[tuple[Dialogue, Dialogue, Heard]]:
    """Two sides: the first one asks, the second one answers, and what the second one hears."""
    ours, theirs = socket.socketpair()
    first, second = await Dialogue.over(ours), await Dialogue.over(theirs)
    heard: Heard = []
    tasks = [
        asyncio.create_task(first.run({}, lambda what, message: None)),
        asyncio.create_task(second.run(answers, lambda what, message: heard.append((what, message)))),
    ]
    yield first, second, heard
    first.close()
    second.close()
    await asyncio.wait_for(asyncio.gather(*tasks), 60)


async def test_questions_at_the_same_time() -> None:
    """Each question gets its own answer, whichever comes first; a sentence of a failure comes back."""
    gates = {name: asyncio.Event() for name in "abc"}

    async def wait(question: JsonObject) -> str:
        await gates[str(question["name"])].wait()
        return f"answer to {question['name']}"

    async def fail(_: JsonObject) -> None:
        raise TritonError("it is not there")

    async def stumble(_: JsonObject) -> None:
        raise ValueError("a mistake")

    async with dialogue({"wait": wait, "fail": fail, "stumble": stumble}) as (first, _, heard):
        asked = {name: asyncio.create_task(first.ask("wait", name=name)) for name in "abc"}
        for name in "cab":
            gates[name].set()
            assert await asyncio.wait_for(asked[name], 60) == f"answer to {name}"
        with pytest.raises(TritonError, match="it is not there"):
            await first.ask("fail")
        with pytest.raises(TritonError, match="the service failed: a mistake"):
            await first.ask("stumble")
        first.tell("ready", capacity=7)
        for _ in range(600):
            if heard:
                break
            await asyncio.sleep(0.02)
        assert heard == [("ready", {"tell": "ready", "capacity": 7})]


async def test_the_end_of_a_side() -> None:
    """Who waits for an answer learns that the other side has ended, and so does who asks later."""

    async def wait(_: JsonObject) -> None:
        await asyncio.Event().wait()

    async with dialogue({"wait": wait}) as (first, second, _):
        asked = asyncio.create_task(first.ask("wait"))
        await asyncio.sleep(0.05)
        second.close()
        with pytest.raises(DialogueEnded):
            await asyncio.wait_for(asked, 60)
        with pytest.raises(DialogueEnded):
            await first.ask("wait")
        first.tell("nothing")
