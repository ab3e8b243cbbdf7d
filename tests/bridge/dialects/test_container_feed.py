"""Live audio in a container, cut anywhere."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import struct
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from streamer.bridge.access.upload_limits import UploadLimits
from streamer.bridge.dialects.container_feed import ContainerFeed
from streamer.testing import say
from streamer.testing.exact_service import ExactService
from streamer.wire.dialects.deepgram_live import DeepgramLive
from streamer.wire.dialects.dialect import FLUSH, Opening, Step
from tests.bridge.dialects.conftest import DECODERS
from tests.bridge.dialects.deepgram_client import (
    CLOSE,
    FINALIZE,
    KEEPALIVE,
    LINEAR,
    address,
    covered,
    finals,
    listen,
    rest,
    text,
    until,
)
from tests.bridge.service_client import eventually
from tests.bridge.uploads.uploading import decoder_processes, decoders, post, recording, sentences

TALK = sentences(say("hello world"), say("goodbye"))
TEXT = "hello world goodbye"
WAV = recording(TALK)
needs_ffmpeg = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")


def cut(data: bytes, size: int) -> list[bytes]:
    """Return the data in pieces."""
    return [data[place : place + size] for place in range(0, len(data), size)]


def endless(length: int) -> bytes:
    """Return a WAV file as a stream has it: its header was written before the length was known."""
    return WAV[:4] + struct.pack("<I", length) + WAV[8:40] + struct.pack("<I", length) + WAV[44:]


def matroska() -> bytes:
    """Return the audio in the container of browsers, with a lossless codec."""
    command = ("ffmpeg", "-v", "error", "-i", "pipe:0", "-c:a", "flac", "-f", "matroska", "pipe:1")
    return subprocess.run(command, input=WAV, capture_output=True, check=True).stdout


async def soon_connected(service: ExactService) -> ClientConnection:
    """Connect, even if the decoder of the test before this one has just ended."""
    for _ in range(3000):
        try:
            return await connect(address(service.url, ""))
        except InvalidStatus as refused:
            if refused.response.status_code != 429:
                raise
            await asyncio.sleep(0.02)
    raise AssertionError("no decoder's place became free")


@pytest.mark.parametrize(
    ("data", "size", "query"),
    [
        (WAV, 7919, ""),
        (endless(0), 31, ""),
        (endless(0xFFFFFFFF), 100_000, "sample_rate=8000&channels=7"),
        (recording(TALK, "FLAC"), 1013, "encoding=flac"),
    ],
)
async def test_a_container_may_be_cut_anywhere(exact: ExactService, data: bytes, size: int, query: str) -> None:
    """The header of a container names the format, so the query need not."""
    messages, code, _ = await listen(exact.url, query, [KEEPALIVE, *cut(data, size)])
    assert (code, text(messages), messages[-1]["type"]) == (1000, TEXT, "Metadata")
    assert covered(messages) == len(TALK) / 16_000


@needs_ffmpeg
async def test_a_browsers_container_is_heard_while_it_is_sent(exact: ExactService) -> None:
    """Words of the first half come before the second half is sent, and `Finalize` is answered in between."""
    pieces = cut(matroska(), 500)
    async with connect(address(exact.url, "interim_results=true")) as websocket:
        for piece in pieces[: len(pieces) * 3 // 4]:
            await websocket.send(piece)
        messages = await until(websocket, is_final=True)
        await websocket.send(FINALIZE)
        messages += await until(websocket, from_finalize=True)
        for piece in pieces[len(pieces) * 3 // 4 :]:
            await websocket.send(piece)
        await websocket.send(CLOSE)
        messages += await rest(websocket)
        assert websocket.close_code == 1000
    assert text(messages).replace(" ", "") == TEXT.replace(" ", "")
    await eventually(lambda: decoders() == 0)


async def test_channels_of_a_container(exact: ExactService) -> None:
    """The header of a container gives the number of channels; a `Finalize` before the header is answered too."""
    both = recording(np.stack([TALK, TALK[::-1] * 0], axis=1))
    messages, code, _ = await listen(exact.url, "multichannel=true", [KEEPALIVE, FINALIZE, *cut(both, 5000)])
    assert (code, messages[-1]["channels"]) == (1000, 2)
    assert (text(messages, 0), text(messages, 1)) == (TEXT, "")
    assert [message["from_finalize"] for message in messages[:2]] == [True, True]


async def test_only_the_client_ends_its_stream(exact: ExactService) -> None:
    """A recording that is complete does not close the websocket, and what follows it is ignored."""
    async with connect(address(exact.url, "")) as websocket:
        await websocket.send(WAV)
        await until(websocket, is_final=True)
        await eventually(lambda: decoders() == 0)
        await websocket.send(b"more")
        await websocket.send(FINALIZE)
        messages = await until(websocket, from_finalize=True)
        assert text(messages) == "goodbye"
        await websocket.send(CLOSE)
        assert [message["type"] for message in await rest(websocket)] == ["Metadata"]
        assert websocket.close_code == 1000


@pytest.mark.parametrize("query", ["", "multichannel=true", "encoding=opus"])
async def test_what_is_no_container_is_told_by_the_close(exact: ExactService, query: str) -> None:
    """If the data is no container, the close has the code and the reason that clients know; there is no `Metadata`."""
    noise = np.random.default_rng(5).bytes(20_000)
    async with connect(address(exact.url, query)) as websocket:
        await websocket.send(noise)
        await websocket.send(CLOSE)
        messages = await rest(websocket)
        assert (websocket.close_code, websocket.close_reason) == (1008, "DATA-0000")
    assert [message["type"] for message in messages if message["type"] == "Metadata"] == []


async def test_nothing_at_all(exact: ExactService) -> None:
    """A client may close its stream before it has sent any audio."""
    for query in ("", "multichannel=true", LINEAR):
        messages, code, _ = await listen(exact.url, query, [])
        assert (code, [message["type"] for message in messages]) == (1000, ["Metadata"])


async def test_decoders_have_a_bound(exact: ExactService) -> None:
    """The bound holds for uploads and live sessions together, and a client learns it before the upgrade."""
    opened = [await soon_connected(exact) for _ in range(DECODERS)]
    with pytest.raises(InvalidStatus) as refused:
        await connect(address(exact.url, ""))
    assert refused.value.response.status_code == 429
    assert post(exact.url, "/v1/listen", WAV)[0] == 429
    for websocket in opened:
        await websocket.close()
    await eventually(lambda: post(exact.url, "/v1/listen", WAV)[0] == 200)


async def test_a_client_that_leaves_takes_its_decoder_with_it(exact: ExactService) -> None:
    """A decoder ends with its client at any moment. There are only two places, so each must be free again."""
    for _ in range(3):
        async with connect(address(exact.url, "")) as websocket:
            await websocket.send(WAV[: len(WAV) // 2])
            await until(websocket, is_final=True)
        await eventually(lambda: decoders() == 0)
    messages, _, _ = await listen(exact.url, "", [WAV])
    assert len(finals(messages)) == 3


async def test_a_flush_is_about_all_audio_while_the_session_takes_none() -> None:
    """A session that takes nothing for a while, as during a recovery, gets all that was sent, and then the flush."""
    async with fed(recording(TALK), FINALIZE) as next_step:
        taken = [await next_step()]
        while taken[-1] != FLUSH:
            await asyncio.sleep(0.3)  # the decoder waits, because nobody takes what it has
            taken.append(await next_step())
    assert sum(len(step) for step in taken if isinstance(step, bytes)) == 2 * len(TALK)


async def test_a_flush_waits_for_a_decoder_that_gets_no_processor() -> None:
    """A decoder that is slow, as on a busy machine, is not taken for one that has nothing more to give."""
    long = np.tile(TALK, 20)  # more than lies between the decoder and the feed, so that the decoder cannot have ended
    async with fed(recording(long), FINALIZE) as next_step:
        taken = [await next_step()]
        (decoder,) = decoder_processes()
        os.kill(decoder, signal.SIGSTOP)
        waiting = asyncio.ensure_future(next_step())
        while (await asyncio.wait({waiting}, timeout=0.5))[0]:  # what came before it was stopped
            taken.append(waiting.result())
            assert taken[-1] != FLUSH
            waiting = asyncio.ensure_future(next_step())
        os.kill(decoder, signal.SIGCONT)
        taken.append(await waiting)
        while taken[-1] != FLUSH:
            taken.append(await next_step())
    assert sum(len(step) for step in taken if isinstance(step, bytes)) == 2 * len(long)


@asynccontextmanager
async def fed(*messages: str | bytes) -> AsyncIterator[Callable[[], Awaitable[Step]]]:
    """Provide a function that returns the next step of a feed whose client has sent these messages."""

    class Sent(asyncio.Queue[str | bytes]):
        receive = asyncio.Queue.get

    sent: Any = Sent()  # in place of a websocket
    for message in messages:
        sent.put_nowait(message)
    feed = ContainerFeed(UploadLimits(), separate=False)
    try:
        yield partial(feed.next, sent, DeepgramLive(Opening()))
    finally:
        await feed.release()
