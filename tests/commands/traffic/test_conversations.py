"""One session in each format, with a real service that recognises exactly."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from websockets.asyncio.server import ServerConnection, serve

from streamer.bridge.service import Service
from streamer.bridge.triton.server import TritonServer
from streamer.commands.traffic.conversations import CONVERSATIONS, Conversation, Failed, Heard, Kind, Refused
from streamer.testing import say, silence
from tests.command_run import AWAY

TEXT = "the words of a session"
FORMATS = ["native", "deepgram", "sherpa-onnx"]


async def hear(conversation: Conversation, audio: bytes) -> list[Heard]:
    """Send audio, and return all that is heard."""
    try:
        await conversation.open()
        await conversation.send(audio)
        await conversation.stop()
        return [heard async for heard in conversation]
    finally:
        await conversation.close()


@pytest.mark.parametrize("format", FORMATS)
def test_words_and_times(exact_service: Service, format: str) -> None:
    """The finals have all words, each with its end within the audio, and partials come before."""
    audio = b"".join(each.tobytes() for each in (say(TEXT), silence(1500), say("and more")))
    seconds = len(audio) / 32_000
    heard = asyncio.run(hear(CONVERSATIONS[format](exact_service.url, {}), audio))
    finals = [each for each in heard if each.kind is Kind.FINAL]
    assert [word for each in finals for word in each.words] == f"{TEXT} and more".split()
    ends = [end for each in finals for end in each.ends_s]
    assert len(ends) == 7
    assert all(early < late for early, late in pairwise(ends))
    assert 0 < ends[0] < ends[-1] <= seconds + 0.5
    assert heard[-1].kind is Kind.END
    partials = [each for each in heard if each.kind is Kind.PARTIAL]
    assert partials
    if format != "sherpa-onnx":  # its messages do not say how much was recognised
        assert all(each.covered_s is not None and 0 < each.covered_s <= seconds + 0.5 for each in partials)


@pytest.mark.parametrize("format", FORMATS)
async def test_a_full_service(exact_triton: TritonServer, format: str) -> None:
    """A refusal has its code, and the time after which to try again."""
    async with Service(exact_triton.grpc_address, port=0, sessions=1) as service:
        first, second = (CONVERSATIONS[format](service.url, {}) for _ in range(2))
        await first.open()
        await first.send(say(TEXT).tobytes())
        with pytest.raises(Refused) as refused:
            await second.open()
        assert refused.value.code == "full"
        assert 1 <= refused.value.retry_s <= 60
        await second.close()
        await first.stop()
        assert [word for heard in [each async for each in first] for word in heard.words][-5:] == TEXT.split()
        await first.close()


@pytest.mark.parametrize("format", CONVERSATIONS)
async def test_nobody_there(format: str) -> None:
    """Without a service, the session is refused, and says why."""
    with pytest.raises(Refused) as refused:
        await CONVERSATIONS[format](f"ws://{AWAY}/v1/stream", {}).open()
    assert refused.value.code == "away"


@pytest.mark.parametrize(
    ("format", "options", "code"),
    [("native", {"encoding": "none"}, "unsupported_audio"), ("deepgram", {"sample_rate": "x"}, "status 400")],
)
async def test_what_it_does_not_take(
    exact_service: Service, format: str, options: Mapping[str, Any], code: str
) -> None:
    """Options that the service does not take are a refusal too."""
    with pytest.raises(Refused) as refused:
        await CONVERSATIONS[format](exact_service.url, options).open()
    assert refused.value.code == code


async def test_a_session_that_is_cut_off(exact_triton: TritonServer) -> None:
    """In a format without another connection, a lost one is a failure."""
    async with Service(exact_triton.grpc_address, port=0) as service:
        conversation = CONVERSATIONS["deepgram"](service.url, {})
        await conversation.open()
        await conversation.send(say(TEXT).tobytes())
        conversation._websocket.transport.abort()  # type: ignore[attr-defined]
        with pytest.raises(Failed) as failed:
            [heard async for heard in conversation]
        assert failed.value.code == "lost"
        await conversation.close()


# What the server of sherpa-onnx 2.0.1 said to a client, without the fields that nobody reads.
SHERPA = (
    """{ "text": "HE WAS", "tokens": [" HE", " WA", "S"], "timestamps": [0.36, 0.80, 0.84], "segment": 0,
        "start_time": 1.28, "is_final": false, "is_eof": false}""",
    """{ "text": "HE WAS OUT", "tokens": [" HE", " WA", "S", " OUT"], "timestamps": [0.36, 0.80, 0.84, 1.40],
        "segment": 0, "start_time": 1.28, "is_final": true, "is_eof": false}""",
    """{ "text": "", "tokens": [], "timestamps": [], "segment": 1, "start_time": 4.96, "is_final": true,
        "is_eof": true}""",
    "Done!",
)


async def test_sherpa() -> None:
    """The server of sherpa-onnx gets fractions, and words are made of its tokens. It waits for the client to close."""
    got: list[str | bytes] = []

    async def serve_one(websocket: ServerConnection) -> None:
        async for message in websocket:
            got.append(message)
            if message == "Done":
                for each in SHERPA:
                    await websocket.send(each)

    async with serve(serve_one, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        audio = np.array([0, 16_384, -32_768], "<i2")
        heard = await hear(CONVERSATIONS["sherpa-onnx"](f"ws://127.0.0.1:{port}/v1/stream", {}), audio.tobytes())
    assert isinstance(got[0], bytes)
    assert np.frombuffer(got[0], "<f4").tolist() == [0.0, 0.5, -1.0]
    assert [(each.kind, " ".join(each.words)) for each in heard] == [
        (Kind.PARTIAL, "HE WAS"),
        (Kind.FINAL, "HE WAS OUT"),
        (Kind.FINAL, ""),
        (Kind.END, ""),
    ]
    assert heard[1].ends_s == pytest.approx([1.64, 2.12, 2.68])


async def test_sherpa_is_cut_off() -> None:
    """If that server closes before its last word, the session has failed."""

    async def serve_one(websocket: ServerConnection) -> None:
        await websocket.close(1011)

    async with serve(serve_one, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        conversation = CONVERSATIONS["sherpa-onnx"](f"ws://127.0.0.1:{port}", {})
        await conversation.open()
        with pytest.raises(Failed) as failed:
            [heard async for heard in conversation]
        await conversation.close()
    assert failed.value.code == "close 1011"
