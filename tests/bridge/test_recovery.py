"""A Triton that is killed, stopped or cut off during speech: not a word is lost or doubled.

Where a Triton of its own is killed, its model is the exact one, which starts in a tenth of the time.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedError

from streamer.bridge.service import Service
from streamer.bridge.session.deadlines import Limits
from streamer.bridge.triton.server import TritonServer
from streamer.testing.exact_service import exact_repository
from streamer.testing.exact_speech import say, silence
from streamer.testing.faulty_proxy import proxy
from streamer.wire.dialects import elevenlabs
from tests.bridge.service_client import (
    Event,
    disturbed,
    eventually,
    lasting,
    receive,
    recognise,
    rest,
    text,
)
from tests.samples import reference
from tests.triton_processes import shared_memory, shared_memory_names, stubs

# Without a pause that ends a segment, except once before the break and once after it.
WORDS = [f"{part} is said once and in this order" for part in ("it", "this", "that", "the rest")]
SPEECH = np.concatenate(
    [say(WORDS[0]), silence(1500), say(WORDS[1]), silence(300), say(WORDS[2]), silence(1500), say(WORDS[3])]
).tobytes()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide an exact model."""
    return exact_repository(tmp_path_factory.mktemp("repository"))


async def exact(url: str) -> list[Event]:
    """Return the events of an undisturbed session with the exact audio."""
    events = await recognise(url, SPEECH)
    assert text(events).split() == " ".join(WORDS).split()
    return lasting(events)


def check(events: list[Event], whole: list[Event]) -> None:
    """Check that there is one recovery, and otherwise only what an undisturbed session gets."""
    assert [event["type"] for event in events].count("recovered") == 1
    assert lasting(events) == whole
    assert [event["n"] for event in events] == list(range(2, len(events) + 2))


@pytest.mark.usefixtures("no_answer_is_overdue")
@pytest.mark.parametrize("guard", ["", "kill", "suspend"])
async def test_killed(repository: Path, guard: str) -> None:
    """An embedded tritonserver that is killed is started again; nothing is left of it, whatever its guard's state."""
    triton = TritonServer(repository, slots=4)
    async with Service(triton, port=0) as service:
        whole = await exact(service.url)
        first = triton.pid
        prefixes = shared_memory_names(first)
        assert shared_memory(prefixes)

        processes = list(stubs(first))

        async def kill() -> None:
            if guard:
                getattr(psutil.Process(first).parent(), guard)()
            if guard != "kill":
                os.kill(first, signal.SIGKILL)

        check(await disturbed(service.url, kill, SPEECH), whole)
        assert triton.pid != first
        # Without a guard, the processes of the model notice a little later that their server is gone.
        await eventually(lambda: not any(process.is_running() for process in processes))
        await eventually(lambda: not shared_memory(prefixes))
        assert "streamer_ready 1.0" in service.metrics.exposition().decode()


@pytest.mark.usefixtures("no_answer_is_overdue")
async def test_stub_killed(repository: Path) -> None:
    """The death of a model's process is noticed although Triton says that the model is ready."""
    triton = TritonServer(repository, slots=4)
    async with Service(triton, port=0) as service:
        whole = await exact(service.url)
        first = triton.pid

        async def kill() -> None:
            for stub in stubs(first):
                stub.kill()

        check(await disturbed(service.url, kill, SPEECH), whole)
        assert triton.pid != first


@pytest.mark.usefixtures("no_answer_is_overdue")
async def test_marks_and_capitals_after_a_replay(tmp_path: Path) -> None:
    """A sequence that begins at a cut in the middle of a sentence goes on with the same marks and capitals."""
    written: dict[str, Any] = {"written": True, "endpoint": {"longest_ms": 6000}}
    triton = TritonServer(exact_repository(tmp_path, punctuation=True), slots=4)
    spoken = say(" ".join(reference("talk.flac").split()[:30])).tobytes()
    async with Service(triton, port=0, limits=Limits(recover_s=60.0)) as service:  # its model imports torch
        right = lasting(await recognise(service.url, spoken, **written))
        finals = [event for event in right if event["type"] == "final"]
        assert any(mark in final["text"] for final in finals for mark in ",.?")
        assert not all(final["context"]["begins"] for final in finals)

        async def kill() -> None:
            os.kill(triton.pid, signal.SIGKILL)

        check(await disturbed(service.url, kill, spoken, **written), right)


async def test_stopped(repository: Path) -> None:
    """A stopped Triton is left when its answers are overdue, and replaced."""
    triton = TritonServer(repository, slots=4)
    async with Service(triton, port=0) as service:
        whole = await exact(service.url)
        first = triton.pid

        async def stop() -> None:
            os.kill(first, signal.SIGSTOP)

        events = await disturbed(service.url, stop, SPEECH)
        check(events, whole)
        assert triton.pid != first
        assert not psutil.pid_exists(first)


@pytest.mark.usefixtures("no_answer_is_overdue")
async def test_link_cut(triton: TritonServer) -> None:
    """When only the connection to a Triton breaks, the session goes on over another connection."""
    async with proxy(triton.grpc_address) as (address, cut), Service(address, port=0) as service:
        whole = await exact(service.url)
        check(await disturbed(service.url, cut, SPEECH), whole)


@pytest.mark.usefixtures("no_answer_is_overdue")
async def test_two_tritons(repository: Path) -> None:
    """With two Tritons, the sessions of one that dies go on at the other at once."""
    with TritonServer(repository, slots=4) as one, TritonServer(repository, slots=4) as other:
        async with Service([one.grpc_address, other.grpc_address], port=0) as service:
            whole = await exact(service.url)

            async def kill() -> None:
                with suppress(ProcessLookupError):  # the other session killed it first
                    os.kill(other.pid, signal.SIGKILL)

            both = await asyncio.gather(*(disturbed(service.url, kill, SPEECH) for _ in range(2)))
            kinds = [[event["type"] for event in events].count("recovered") for events in both]
            assert sorted(kinds) == [0, 1]
            for events in both:
                assert lasting(events) == whole


async def test_nothing_comes_back(triton: TritonServer) -> None:
    """If no Triton returns, the session fails, and says how much audio was not recognised."""
    async with (
        proxy(triton.grpc_address) as (address, cut),
        Service(address, port=0, limits=Limits(recover_s=1.0)) as service,
        connect(service.url, compression=None) as websocket,
    ):
        await websocket.send('{"type":"start"}')
        assert (await receive(websocket))["type"] == "ready"
        await websocket.send(bytes(64_000))
        await asyncio.sleep(1)
        await cut(for_good=True)
        await websocket.send(bytes(32_000))
        error = (await rest(websocket))[-1]
        assert (error["code"], error["unrecognised_ms"], websocket.close_code) == ("failed", 3000, 1011)
        async with connect(service.url, compression=None) as second:
            await second.send('{"type":"start"}')
            assert (await receive(second))["code"] == "not_ready"


async def test_nothing_comes_back_before_the_answer_to_a_commit(repository: Path) -> None:
    """A client of ElevenLabs that waits for the text of its commit is not told that the first sentence is all of it."""
    with TritonServer(repository, slots=4) as triton:
        async with (
            proxy(triton.grpc_address) as (address, cut),
            Service(address, port=0, limits=Limits(recover_s=1.0)) as service,
            connect(f"{service.url.removesuffix('/v1/stream')}{elevenlabs.PATH}", compression=None) as websocket,
        ):

            async def send(audio: bytes, *, commit: bool = False) -> None:
                content = base64.b64encode(audio).decode()
                await websocket.send(
                    json.dumps({"message_type": elevenlabs.CHUNK, "audio_base_64": content, "commit": commit})
                )

            await send(SPEECH)
            heard = ""
            while WORDS[1] not in heard:  # so the first sentence is final
                heard = json.loads(await websocket.recv()).get("text", "").lower()
            await cut(for_good=True)
            await send(b"", commit=True)
            told = []
            with suppress(ConnectionClosedError):
                while True:
                    told.append(json.loads(await websocket.recv()))
        assert [message["message_type"] for message in told[-2:]] == ["partial_transcript", "transcriber_error"]
        assert told[-2]["text"].lower().rstrip(".") == WORDS[0]
        assert not [message for message in told if message["message_type"].startswith("committed")]
