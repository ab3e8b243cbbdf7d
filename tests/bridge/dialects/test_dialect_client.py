"""Live sessions of Deepgram's clients with a service that recognises exactly, also with audio in a container."""

from __future__ import annotations

import asyncio
import hashlib
import json
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

from streamer.bridge.access.quotas import UploadLimits
from streamer.bridge.dialects.dialect_client import ContainerFeed
from streamer.testing import say
from streamer.testing.exact_service import ExactService
from streamer.wire.dialects.deepgram import DeepgramLive
from streamer.wire.dialects.dialect import FLUSH, Opening, Step
from tests.bridge.dialects.conftest import DECODERS, SESSIONS
from tests.bridge.dialects.deepgram_client import (
    CLOSE,
    FINALIZE,
    KEEPALIVE,
    LINEAR,
    Message,
    address,
    covered,
    finals,
    listen,
    receive,
    rest,
    text,
    until,
)
from tests.bridge.service_client import eventually
from tests.bridge.uploads.uploading import decoder_processes, decoders, post, recording, sentences

TALK = sentences(say("hello world"), say("goodbye"))
AUDIO = TALK.astype("<i2").tobytes()
PIECES = [AUDIO[place : place + 3201] for place in range(0, len(AUDIO), 3201)]
TEXT = "hello world goodbye"


def sequences(service: ExactService) -> int:
    """Return how many slots are in use."""
    return int(json.loads(post(service.url, "/readyz", method="GET")[2])["sequences"])


def transcript(message: Message) -> str:
    """Return the text of a result."""
    return str(message["channel"]["alternatives"][0]["transcript"])


async def test_a_live_session(exact: ExactService) -> None:
    """Words come, the finals cover all of the audio, then comes `Metadata` and a normal close."""
    messages, code, reason = await listen(exact.url, f"{LINEAR}&model=nova-3&language=en-US", [KEEPALIVE, *PIECES])
    assert (code, reason) == (1000, "")
    assert [transcript(message) for message in messages[:-1]] == ["hello world", "goodbye", ""]
    assert covered(messages) == len(TALK) / 16_000 == messages[-1]["duration"]
    assert messages[-1]["type"] == "Metadata"
    assert messages[-1]["sha256"] == hashlib.sha256(AUDIO).hexdigest()


async def test_every_result_has_every_field(exact: ExactService) -> None:
    """Results have all fields, because clients drop others. Interim results begin where the last final ended."""
    query = f"{LINEAR}&interim_results=true&vad_events=true&punctuate=true&utterance_end_ms=1000&endpointing=25"
    messages, _, _ = await listen(exact.url, query, PIECES)
    results = [message for message in messages if message["type"] == "Results"]
    fields = {"type", "channel_index", "duration", "start", "is_final", "speech_final", "channel", "metadata"}
    assert all(set(message) == fields | {"from_finalize"} for message in results)
    assert any(not message["is_final"] for message in results)
    end = 0.0
    for message in results:
        assert message["start"] == pytest.approx(end)
        end += message["duration"] * message["is_final"]
    assert text(messages) == "Hello world Goodbye"
    kinds = [message["type"] for message in messages if message["type"] != "Results"]
    assert kinds == ["SpeechStarted", "UtteranceEnd", "SpeechStarted", "UtteranceEnd", "Metadata"]
    words = finals(messages)[0]["channel"]["alternatives"][0]["words"]
    assert [(word["word"], word["punctuated_word"]) for word in words] == [("hello", "Hello"), ("world", "world")]


async def test_finalize_is_always_answered(exact: ExactService) -> None:
    """`Finalize` is answered within a word, in silence and without any audio; the answer has the last words, if any."""
    async with connect(address(exact.url, LINEAR)) as websocket:
        await websocket.send(FINALIZE)
        nothing = await receive(websocket)
        assert (nothing["from_finalize"], nothing["is_final"], transcript(nothing)) == (True, True, "")
        await websocket.send(say("hello").astype("<i2").tobytes())
        await websocket.send(FINALIZE)
        [answer] = await until(websocket, from_finalize=True)
        assert (transcript(answer), answer["is_final"], answer["speech_final"]) == ("hello", True, False)
        await websocket.send(FINALIZE)
        await websocket.send(FINALIZE)
        for _ in range(2):
            assert transcript((await until(websocket, from_finalize=True))[-1]) == ""
        await websocket.send(CLOSE)
        assert [message["type"] for message in await rest(websocket)] == ["Metadata"]
        assert websocket.close_code == 1000


async def test_keepalive_and_unknown_messages(exact: ExactService) -> None:
    """A `KeepAlive` gets no answer, an unknown message gets an error, and `Configure` gets an answer."""
    async with connect(address(exact.url, LINEAR)) as websocket:
        await websocket.send(KEEPALIVE)
        for unknown in ("{", "[1]", '{"type":"Dance"}', "[" * 5000):
            await websocket.send(unknown)
            answer = await receive(websocket)
            assert (answer["type"], answer["variant"]) == ("Error", "SchemaError")
        await websocket.send('{"type":"Configure","keyterms":[]}')
        assert (await receive(websocket))["type"] == "ConfigureSuccess"
        await websocket.send('{"type":"Configure","features":{"numerals":true}}')
        assert (await receive(websocket))["type"] == "ConfigureFailure"
        await websocket.send(AUDIO)
        await websocket.send(b"")  # an old `CloseStream`
        await websocket.send(AUDIO)
        messages = await rest(websocket)
    assert (text(messages), messages[-1]["duration"]) == (TEXT, len(TALK) / 16_000)


@pytest.mark.parametrize("multichannel", [False, True])
async def test_channels(exact: ExactService, multichannel: bool) -> None:
    """Each channel has its own results, or all are mixed into one."""
    second = np.zeros_like(TALK)
    said = say("over there")
    second[-len(said) :] = said if multichannel else 0
    both = np.stack([TALK, second], axis=1)
    audio = both.astype("<i2").tobytes()
    query = f"{LINEAR}&channels=2&multichannel={str(multichannel).lower()}"
    messages, code, _ = await listen(exact.url, query, [FINALIZE, audio, FINALIZE])
    total = 2 if multichannel else 1
    assert (code, messages[-1]["channels"]) == (1000, total)
    answered = [message["channel_index"] for message in messages[:-1] if message["from_finalize"]]
    assert sorted(answered) == sorted([[number, total] for number in range(total)] * 2)
    assert covered(messages) == len(TALK) / 16_000
    if multichannel:
        assert (text(messages, 0), text(messages, 1)) == (TEXT, "over there")
        assert covered(messages, 1) == len(TALK) / 16_000


async def test_a_killed_recogniser_is_only_a_pause(exact: ExactService) -> None:
    """No word is lost or doubled, and the finals still follow each other."""
    said = sentences(*map(say, ("before it dies", "while it is dead", "after it is back")))
    audio = said.astype("<i2").tobytes()
    async with connect(address(exact.url, LINEAR)) as websocket:
        await websocket.send(audio[: len(audio) // 2])
        messages = [await receive(websocket)]
        exact.kill_recogniser()
        await websocket.send(audio[len(audio) // 2 :])
        await websocket.send(FINALIZE)
        await websocket.send(CLOSE)
        messages += await rest(websocket)
        assert websocket.close_code == 1000
    assert text(messages) == "before it dies while it is dead after it is back"
    assert covered(messages) == len(said) / 16_000
    assert sum(message.get("from_finalize", False) for message in messages) == 1


async def test_a_silent_client_is_told_why(exact: ExactService, monkeypatch: pytest.MonkeyPatch) -> None:
    """If neither audio nor `KeepAlive` comes, the last words come, and a close with the reason that clients know."""
    monkeypatch.setattr(DeepgramLive, "idle_s", 0.5)
    async with connect(address(exact.url, LINEAR)) as websocket:
        await websocket.send(say("hello").astype("<i2").tobytes())
        messages = await rest(websocket)
        assert (websocket.close_code, websocket.close_reason) == (1011, "NET-0001")
    assert text(messages) == "hello"


async def test_half_a_sample_at_the_end_is_no_error(exact: ExactService) -> None:
    """A client that ends within a sample has closed its stream, so it gets `Metadata` and a normal close."""
    messages, code, _ = await listen(exact.url, LINEAR, [AUDIO, b"\0"])
    assert (code, text(messages), messages[-1]["type"]) == (1000, TEXT, "Metadata")


async def test_metrics_know_the_format(exact: ExactService) -> None:
    """The metrics show sessions and refusals of the format."""
    async with connect(address(exact.url, LINEAR)) as websocket:
        await websocket.send(FINALIZE)
        await receive(websocket)
        metrics = post(exact.url, "/metrics", method="GET")[2].decode()
    assert 'streamer_sessions_by_state{protocol="deepgram",state="streaming"} 1.0' in metrics
    assert 'streamer_protocol_sessions_total{protocol="deepgram"} 0.0' not in metrics


async def test_a_client_that_only_leaves(exact: ExactService) -> None:
    """If a client only leaves, its slot is free again."""
    await eventually(lambda: sequences(exact) == 0)
    for _ in range(SESSIONS):
        async with connect(address(exact.url, LINEAR)) as websocket:
            await websocket.send(AUDIO[:6400])
    await eventually(lambda: sequences(exact) == 0)


async def test_refusals_come_before_the_upgrade(exact: ExactService) -> None:
    """If all slots are in use, or an option is invalid, a refusal in Deepgram's JSON comes before the upgrade."""
    await eventually(lambda: sequences(exact) == 0)
    taken = [await connect(address(exact.url, LINEAR)) for _ in range(SESSIONS)]
    for websocket in taken:
        await websocket.send(FINALIZE)
        await receive(websocket)
    for query, status, code in (
        (LINEAR, 429, "TOO_MANY_REQUESTS"),
        ("encoding=linear16", 400, "Bad Request"),
        (f"{LINEAR}&redact=pci", 400, "Bad Request"),
    ):
        with pytest.raises(InvalidStatus) as refused:
            await connect(address(exact.url, query))
        told = json.loads(refused.value.response.body or b"")
        assert (refused.value.response.status_code, told["err_code"]) == (status, code)
        assert set(told) == {"err_code", "err_msg", "request_id"}
    for websocket in taken:
        await websocket.close()


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
    await eventually(lambda: sequences(exact) == 0 and decoders() == 0)
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
