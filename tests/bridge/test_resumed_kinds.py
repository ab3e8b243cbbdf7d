"""Sessions of other kinds that lose their connection: several channels, other rates, a Triton that dies meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soxr
from websockets.asyncio.client import connect as open_websocket

from streamer.bridge.service import Service
from streamer.bridge.triton.server import TritonServer
from streamer.testing.exact_service import add_exact_model
from streamer.testing.exact_speech import say, silence
from tests.bridge.service_client import Event, lasting, receive, recognise, rest, resume, serving, text
from tests.samples import pcm
from tests.triton_processes import no_streams

# For each type of sample, the options of `start`.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "two channels": ("<i2", {"channels": 2, "multichannel": True}),
    "44.1 kHz": ("<i2", {"sample_rate": 44_100}),
    "8 kHz, mixed": ("<f4", {"sample_rate": 8_000, "encoding": "pcm_f32le", "channels": 2}),
    "two channels of 22.05 kHz": (
        "<f4",
        {"sample_rate": 22_050, "encoding": "pcm_f32le", "channels": 2, "multichannel": True},
    ),
}


@pytest.fixture(scope="module")
def triton(shipped_triton: TritonServer) -> TritonServer:
    """Provide the shipped model: audio of other rates has no levels for an exact one."""
    return shipped_triton


def recording(kind: str) -> tuple[bytes, int]:
    """Return some seconds of speech, later on the second channel than on the first, and the bytes of a short time."""
    form, options = KINDS[kind]
    samples = np.frombuffer(pcm("talk.flac"), np.int16)[: 15 * 8000].astype(np.float32) / 32768
    samples = soxr.resample(samples, 16_000, options.get("sample_rate", 16_000))
    late = np.roll(samples, len(samples) // 3)
    channels = np.stack([samples, late], axis=1)[:, : options.get("channels", 1)]
    scaled = channels if form == "<f4" else np.clip(np.rint(channels * 32768), -32768, 32767)
    audio = np.ascontiguousarray(scaled.astype(form))
    return audio.tobytes(), audio.itemsize * audio.shape[1]


def by_channel(events: list[Event]) -> list[list[Event]]:
    """Return finals and speech events by channel, because the order between channels varies."""
    kept = lasting(events)
    return [[event for event in kept if event.get("channel", 0) == channel] for channel in (0, 1)]


@pytest.mark.parametrize("kind", KINDS)
async def test_cut_anywhere(triton: TritonServer, kind: str) -> None:
    """Connections lost again and again, even within a sample, change no words, times or numbers."""
    (audio, frame), options = recording(kind), KINDS[kind][1]
    dice = random.Random(kind)
    async with serving(triton) as service:
        whole = by_channel(await recognise(service.url, audio, [100_000] * 40, **options))
        told: list[Event] = []
        websocket = await open_websocket(service.url, compression=None)
        await websocket.send(json.dumps({"type": "start", **options}))
        ready = await receive(websocket)
        for share in (0.3, 0.55, 0.8):
            place = ready["from_sample"] * frame
            end = int(len(audio) * share) + dice.randrange(1, frame)
            for start in range(place, end, 50_001):
                await websocket.send(audio[start : min(end, start + 50_001)])
            told += [await receive(websocket) for _ in range(2)]
            websocket.transport.abort()
            websocket = await open_websocket(service.url, compression=None)
            await websocket.send(resume(ready, told[-1]["n"]))
            ready = {**ready, "from_sample": (await receive(websocket))["from_sample"]}
            assert place <= ready["from_sample"] * frame <= end
        reading = asyncio.create_task(rest(websocket))
        for start in range(ready["from_sample"] * frame, len(audio), 50_000):
            await websocket.send(audio[start : start + 50_000])
        await websocket.send('{"type":"stop"}')
        told += await reading
        assert websocket.close_code == 1000
    assert [event["n"] for event in told] == list(range(2, len(told) + 2))
    assert by_channel(told) == whole
    await no_streams(triton)


async def test_triton_dies_while_nobody_is_connected(tmp_path: Path) -> None:
    """A client that returns during or after a recovery finds every word, and is told of the recovery."""
    add_exact_model(tmp_path, "streaming_asr", slots=8)
    first = np.concatenate([say("abc"), silence(1500), say("def gh")]).tobytes()
    second = np.concatenate([say("ij kl"), silence(300)]).tobytes()
    triton = TritonServer(tmp_path)
    async with Service(triton, port=0) as service:
        for pause in (4.0, 0.0):
            websocket = await open_websocket(service.url, compression=None)
            await websocket.send('{"type":"start"}')
            ready = await receive(websocket)
            await websocket.send(first)
            told: list[Event] = []
            while not told or told[-1]["type"] != "final":
                told.append(await receive(websocket))
            websocket.transport.abort()
            await asyncio.sleep(0.2)
            os.kill(triton.pid, signal.SIGKILL)
            await asyncio.sleep(pause)
            websocket = await open_websocket(service.url, compression=None)
            await websocket.send(resume(ready, told[-1]["n"]))
            assert (await receive(websocket))["from_sample"] == len(first) // 2
            await websocket.send(second)
            await websocket.send('{"type":"stop"}')
            told += await rest(websocket)
            assert websocket.close_code == 1000
            assert text(told) == "abc def gh ij kl"
            assert [event["n"] for event in told] == list(range(2, len(told) + 2))
            assert [event["type"] for event in told].count("recovered") == 1
