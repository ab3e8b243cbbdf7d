"""How the client sends audio: whole, in order, at the right pace, and no more than the peer takes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray
from websockets.asyncio.server import ServerConnection

import streamer.client.sending
from streamer.audio.recording_check import AudioError
from streamer.client import SessionError, transcribe
from tests.client.scripted_peer import READY, Polite, peer


async def test_a_source_is_sent_whole_between_start_and_stop() -> None:
    """Every sample arrives in order, however the source is divided, between the options and `stop`."""
    script = Polite()
    blocks: list[bytes | NDArray[np.int16]] = [
        np.arange(3, dtype=np.int16),
        b"\7\0",
        np.arange(40_000, dtype=np.int32).astype(np.int16),
    ]
    async with peer(script) as address:
        events = transcribe(blocks, address, options={"partials": False})
        assert [event["type"] async for event in events] == ["ready", "done"]
    assert script.sound == b"".join(block if isinstance(block, bytes) else block.tobytes() for block in blocks)
    assert script.texts == [{"type": "start", "partials": False}, {"type": "stop"}]


async def test_a_file_is_sent_by_its_name(tmp_path: Path) -> None:
    """A path is opened, and its samples are sent."""
    script = Polite()
    samples = np.arange(16_000, dtype=np.int16)
    soundfile.write(tmp_path / "a.wav", samples, 16_000)
    async with peer(script) as address:
        events: list[Any] = [event async for event in transcribe(tmp_path / "a.wav", address)]
    assert events[-1]["audio_ms"] == 1000
    assert script.sound == samples.tobytes()


async def test_a_missing_file_is_noticed_before_connecting(tmp_path: Path) -> None:
    """A missing file is reported before a connection is opened."""
    with pytest.raises(AudioError, match="no such file"):
        await anext(transcribe(tmp_path / "a.wav", "127.0.0.1:1"))


@pytest.mark.parametrize(
    ("audio", "words"),
    [
        (
            np.zeros(160, np.float32),
            "an array of audio must be int16, not float32: give",
        ),
        ("missing.wav", "audio must be bytes or an array of int16, not str"),
    ],
)
async def test_what_is_no_audio_is_refused(audio: Any, words: str) -> None:
    """Fractions would be silence as whole numbers, so they are refused; so is everything that is no audio."""
    async with peer(Polite()) as address:
        with pytest.raises(TypeError, match=words):
            await transcribe([audio], address)


async def test_each_kind_of_bytes_is_the_same_audio() -> None:
    """Bytes, views of them and arrays in any order of bytes are sent alike."""
    samples = np.arange(800, dtype=np.int16)
    data = samples.tobytes()
    async with peer(script := Polite()) as address:
        kinds: list[Any] = [data, bytearray(data), memoryview(data), samples, samples.astype(">i2")]
        await transcribe(kinds, address)
    assert script.sound == 5 * data


def test_an_unknown_way_of_channels() -> None:
    """Channels are mixed or separate; anything else is refused at once."""
    with pytest.raises(ValueError, match="'channels' must be mix or separate, not 'both'"):
        transcribe("talk.wav", channels="both")  # type: ignore[arg-type]


async def test_paced_sends_as_fast_as_it_was_spoken() -> None:
    """With `paced`, half a second of audio takes half a second, in small pieces. Without it, it takes no time."""
    async with peer(script := Polite()) as address:
        async for _ in transcribe([bytes(16_000)], address, paced=True):
            pass
    assert len(script.times) == 5
    assert script.times[-1] - script.times[0] > 0.35
    async with peer(script := Polite()) as address:
        async for _ in transcribe([bytes(16_000)], address):
            pass
    assert len(script.times) == 1


async def test_sending_and_receiving_do_not_wait_for_each_other() -> None:
    """A peer that stops reading until its long answers are read causes no deadlock."""

    async def script(websocket: ServerConnection) -> None:
        await websocket.recv()
        await websocket.send(READY)
        for _ in range(100):
            await websocket.send(json.dumps({"type": "heard", "filling": "x" * 100_000}))
        async for message in websocket:
            if isinstance(message, str):
                await websocket.send('{"type":"done","audio_ms":0}')

    async with peer(script) as address:
        blocks = [bytes(32_000)] * 400
        kinds = [event["type"] async for event in transcribe(blocks, address)]
    assert kinds == ["ready", *["heard"] * 100, "done"]


async def test_a_slow_peer_holds_up_the_source() -> None:
    """If the peer does not read, the source is not read either, so nothing piles up."""
    taken = 0

    def source() -> Iterator[bytes]:
        nonlocal taken
        for _ in range(4000):
            taken += 1
            yield bytes(32_000)

    async def script(websocket: ServerConnection) -> None:
        await websocket.recv()
        await websocket.send(READY)
        await asyncio.sleep(1)
        await websocket.close(1011, "enough")

    async with peer(script, close_timeout=0.1) as address:
        with pytest.raises(SessionError, match="enough"):
            async for _ in transcribe(source(), address):
                pass
    assert 0 < taken < 1000


async def test_a_failing_source_still_gets_its_words() -> None:
    """Audio before a failure of the source is recognised, and then the failure is raised."""

    def source() -> Iterator[bytes]:
        yield bytes(3200)
        raise AudioError("the recording is torn.")

    async with peer(script := Polite()) as address:
        events = transcribe(source(), address)
        assert [(await anext(events))["type"] for _ in range(2)] == ["ready", "done"]
        with pytest.raises(AudioError, match="torn"):
            await anext(events)
    assert len(script.sound) == 3200


async def test_a_silent_source_keeps_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keepalives are sent while a live source has no audio, but not too often."""
    monkeypatch.setattr(streamer.client.sending, "KEEPALIVE_S", 0.1)

    async def source() -> AsyncIterator[bytes]:
        for _ in range(30):
            await asyncio.sleep(0.01)
            yield b""

    async with peer(script := Polite()) as address:
        async for _ in transcribe(source(), address):
            pass
    assert 1 <= [text["type"] for text in script.texts].count("keepalive") < 15
    assert script.sound == b""


async def test_leaving_early_closes_the_connection() -> None:
    """Leaving the loop early leaves no session and no sender behind."""
    script = Polite()
    async with peer(script) as address:
        async with aclosing(transcribe([bytes(3200)] * 100_000, address, paced=True)) as events:
            assert (await anext(events))["type"] == "ready"
        await asyncio.wait_for(script.closed.wait(), 60)
    assert asyncio.all_tasks() == {asyncio.current_task()}
