"""Live sessions of Deepgram's clients, over a real socket, with a service that recognises exactly."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from streamer.testing import say
from streamer.testing.exact_service import ExactService
from streamer.wire.dialects.deepgram_live import DeepgramLive
from tests.bridge.dialects.conftest import SESSIONS
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
from tests.bridge.uploads.uploading import post, sentences

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
        (f"{LINEAR}&diarize=true", 400, "Bad Request"),
    ):
        with pytest.raises(InvalidStatus) as refused:
            await connect(address(exact.url, query))
        told = json.loads(refused.value.response.body or b"")
        assert (refused.value.response.status_code, told["err_code"]) == (status, code)
        assert set(told) == {"err_code", "err_msg", "request_id"}
    for websocket in taken:
        await websocket.close()
