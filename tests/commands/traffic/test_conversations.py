"""One session in each format, with a real service that recognises exactly."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest

from streamer.bridge.service import Service
from streamer.bridge.triton.server import TritonServer
from streamer.commands.traffic.conversations import CONVERSATIONS, Conversation, Failed, Heard, Kind, Refused
from streamer.testing import say, silence
from tests.command_run import AWAY

TEXT = "the words of a session"
FORMATS = list(CONVERSATIONS)


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
    partials = [each for each in heard if each.kind is Kind.PARTIAL]
    assert partials
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


@pytest.mark.parametrize("format", FORMATS)
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
