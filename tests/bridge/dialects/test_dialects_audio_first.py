"""Formats whose sessions begin with audio, with a real service: words, faults, keys, rests and the shutdown."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AsyncExitStack
from urllib.parse import urlsplit

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from streamer.bridge.access.keys import KeyFile
from streamer.bridge.access.rules import AccessRules
from streamer.bridge.dialects import dialects
from streamer.bridge.service import Service
from streamer.bridge.triton.server import TritonServer
from streamer.testing import say, silence
from streamer.testing.exact_service import ExactService
from streamer.wire.dialects.formats import FORMATS
from tests.bridge.access.bare_port import ALICE, bearer, listening
from tests.bridge.dialects.conftest import DECODERS, SESSIONS
from tests.bridge.dialects.self_hosted_clients import CLIENTS, address, floats, receive, rest, speak, talk
from tests.bridge.service_client import eventually
from tests.bridge.uploads.uploading import decoders, post, recording

SENTENCES = talk(
    *(part for said in ("the first one", "and the second", "bye") for part in (say(said), silence(1500))), silence(4000)
)
HEARD = ["the first one", "and the second", "bye"]
# A mistake in the address of a format.
MISTAKES = {
    "deepgram-flux": "eot_threshold=much",
    "assemblyai": "format_turns=perhaps",
    "elevenlabs": "audio_format=mp3",
    "azure": "wordLevelTimestamps=perhaps",
}
# The close code at the shutdown, if it is not 1013. One of Speechmatics rests before its first message.
LEAVES = {"speechmatics": 4013, "speechmatics-agent": 4013}
# The first message of a client that sends a recording in any format.
CONTAINED = '{"message":"StartRecognition","audio_format":{"type":"file"},"transcription_config":{"language":"en"}}'
FULL = {"deepgram-flux": 429}  # the status for a full service, if it is not 503
every_format = pytest.mark.parametrize("format", CLIENTS)


def plain(texts: list[str]) -> list[str]:
    """Return texts without capitals."""
    return [text.lower() for text in texts]


def sentence(refusal: bytes | bytearray) -> str:
    """Return the sentence of a refusal, in any of these formats."""
    content = json.loads(refusal)
    error = (
        content.get("err_msg")
        or content.get("detail")
        or content.get("reason")
        or content.get("error_message")
        or content["error"]
    )
    return str(error["message"] if isinstance(error, dict) else error)


def figures(service: ExactService) -> str:
    """Return the metrics."""
    return post(service.url, "/metrics", method="GET")[2].decode()


def taken_slots(service: ExactService) -> int:
    """Return how many sessions have a slot."""
    return int(json.loads(post(service.url, "/readyz", method="GET")[2])["sequences"])


def running(format: str) -> str:
    """Return what the metrics show while a session in this format is recognised."""
    return f'{{protocol="{FORMATS[format].protocol}",state="streaming"}} 1.0'


def test_each_format_has_a_client() -> None:
    """No format of the table is left out here: three of them have tests of their own."""
    assert set(CLIENTS) == set(FORMATS) - {"deepgram", "openai-realtime", "twilio"}


@every_format
async def test_words(exact: ExactService, format: str) -> None:
    """Each sentence is a final, and each word comes once."""
    assert plain(await speak(exact.url, format, SENTENCES)) == HEARD


@pytest.mark.parametrize(
    ("path", "hello", "end", "undecodable"),
    [
        ("/v2/listen?model=flux-general-en", "", '{"type":"CloseStream"}', 1008),
        ("/v3/ws?encoding=ogg_opus", "", '{"type":"Terminate"}', 3006),
        ("/v2/en", CONTAINED, '{"message":"EndOfStream","last_seq_no":9}', 1003),
        ("/transcribe-websocket", '{"model":"stt-rt-v5","enable_endpoint_detection":true}', "", 1008),
        ("/v2/agent", CONTAINED, '{"message":"EndOfStream","last_seq_no":9}', 1003),
    ],
)
async def test_a_container(exact: ExactService, path: str, hello: str, end: str, undecodable: int) -> None:
    """Audio may come in a container, where the format has that; what is none ends with a close that says so.

    The address says it, or the first message.
    """
    heard = []
    for content in (recording(SENTENCES), b"no recording" * 2000):
        async with connect(f"ws://{urlsplit(exact.url).netloc}{path}", ping_timeout=None) as websocket:
            reading = asyncio.create_task(rest(websocket))
            for text in filter(None, [hello]):
                await websocket.send(text)
            for place in range(0, len(content), 4000):
                await websocket.send(content[place : place + 4000])
            await websocket.send(end)
            messages = [json.loads(line) for line in (await reading).splitlines()]
        ends = [
            each
            for each in messages
            if each.get("end_of_turn")
            or each.get("event") == "EndOfTurn"
            or each.get("message") in ("AddTranscript", "AddSegment")
        ]
        turns = "".join(t["text"] for each in messages for t in each.get("tokens", ()) if t["is_final"]).split("<end>")
        texts = [turn.lower().strip() for turn in turns if turn]
        texts += [(each.get("segment") or each.get("metadata") or each)["transcript"].lower().strip() for each in ends]
        heard.append((texts, websocket.close_code))
    assert heard == [(HEARD, 1000), ([], undecodable)]


async def test_no_decoder_is_free(exact: ExactService) -> None:
    """A client that says only after the upgrade that a recording comes hears then why it cannot, and is closed."""
    # A place is given back a moment after its decoder has ended, and before its websocket has.
    await eventually(lambda: 'streamer_connections{state="websocket"} 0.0' in figures(exact))
    assert decoders() == 0
    taken = [await connect(address(exact.url, "speechmatics")) for _ in range(DECODERS)]
    try:
        for websocket in taken:
            await websocket.send(CONTAINED)
            assert json.loads(await receive(websocket))["message"] == "RecognitionStarted"
            await websocket.send(recording(SENTENCES)[:20_000])
        await eventually(lambda: decoders() == DECODERS)
        async with connect(address(exact.url, "speechmatics")) as late:
            await late.send(CONTAINED)
            *_, error = [json.loads(line) for line in (await rest(late)).splitlines()]
            assert (error["message"], error["type"], "later" in error["reason"]) == ("Error", "job_error", True)
            assert (late.close_code, late.close_reason) == (4013, "job_error")
    finally:
        for websocket in taken:
            await websocket.close()
    await eventually(lambda: decoders() == 0)
    # The places are free again, and the session that was refused holds nothing.
    assert plain(await speak(exact.url, "speechmatics", SENTENCES)) == HEARD


@every_format
async def test_a_killed_triton_is_a_pause(exact: ExactService, format: str) -> None:
    """In the middle of a session: no word is lost or doubled."""

    async def kill() -> None:
        await eventually(lambda: running(format) in figures(exact))
        await asyncio.to_thread(exact.kill_recogniser)

    heard = plain(await speak(exact.url, format, SENTENCES, middle=kill))
    assert " ".join(heard) == " ".join(HEARD)
    await eventually(lambda: post(exact.url, "/readyz", method="GET")[0] == 200)


@every_format
async def test_keys(keys: KeyFile, format: str) -> None:
    """A key may be in the header or in the query. Without one, the refusal comes before the upgrade."""
    async with listening(AccessRules(keys)) as server:
        for query, headers, status in (
            ("", {}, 401),
            ("token=wrong", {}, 401),
            (f"token={ALICE.secret}", {}, 503),  # there is no recogniser, but the key is right
            ("", bearer(ALICE.secret), 503),
            (MISTAKES.get(format, "step_ms=7"), bearer(ALICE.secret), 400),
        ):
            with pytest.raises(InvalidStatus) as refused:
                await connect(address(server.url, format, query), additional_headers=headers)
            assert refused.value.response.status_code == status
            assert len(sentence(refused.value.response.body or b"").split()) > 4


async def test_a_silent_client_holds_no_slot(exact: ExactService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its session ends, and goes on with the next audio, with the times of one session."""
    monkeypatch.setattr(dialects, "REST_AFTER_S", 0.3)
    async with connect(address(exact.url, "sherpa-onnx")) as websocket:
        await websocket.send(floats(say("before")))
        while not (first := json.loads(await receive(websocket)))["is_final"]:
            pass
        await eventually(lambda: 'protocol="sherpa_onnx",state="streaming"} 0.0' in figures(exact))
        await websocket.send(floats(talk(say("after"), silence(2000))))
        while not (second := json.loads(await receive(websocket)))["is_final"]:
            pass
    assert (first["text"], second["text"]) == ("before", "after")
    assert (second["segment"], second["start_time"] >= len(say("before")) / 16_000) == (1, True)


async def test_a_service_that_stands_still_cuts_no_word(exact: ExactService, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has come while the service did nothing is read before it takes the client for a silent one."""
    monkeypatch.setattr(dialects, "REST_AFTER_S", 0.4)
    spoken = talk(say("hello"), silence(2000))
    middle = len(say("hello")) // 2
    async with connect(address(exact.url, "sherpa-onnx")) as websocket:
        await websocket.send(floats(spoken[:middle]))
        await eventually(lambda: 'protocol="sherpa_onnx",state="streaming"} 1.0' in figures(exact))
        assert exact._loop is not None
        exact._loop.call_soon_threadsafe(time.sleep, 1.0)
        await asyncio.sleep(0.3)
        await websocket.send(floats(spoken[middle:]))
        while not (final := json.loads(await receive(websocket)))["is_final"]:
            pass
    assert (final["text"], final["segment"]) == ("hello", 0)


async def test_metrics_know_the_format(exact: ExactService) -> None:
    """Each format has its sessions there, also before the first one."""
    await speak(exact.url, "sherpa-onnx", say("one"))
    shown = figures(exact)
    for kind in FORMATS.values():
        assert f'streamer_protocol_sessions_total{{protocol="{kind.protocol}"}}' in shown
    assert 'streamer_protocol_sessions_total{protocol="sherpa_onnx"} 0.0' not in shown


@every_format
async def test_a_full_service(exact: ExactService, format: str) -> None:
    """A client for which there is no place is refused before the upgrade, and learns when to come again."""
    await eventually(lambda: taken_slots(exact) == 0)
    taken = [await connect(address(exact.url, "sherpa-onnx")) for _ in range(SESSIONS)]
    try:
        for websocket in taken:
            await websocket.send(floats(say("here")))
            await receive(websocket)
        with pytest.raises(InvalidStatus) as refused:
            await connect(address(exact.url, format))
        assert refused.value.response.status_code == FULL.get(format, 503)
        assert int(refused.value.response.headers["Retry-After"]) > 0
    finally:
        for websocket in taken:
            await websocket.close()


@every_format
async def test_the_shutdown(exact_triton: TritonServer, format: str) -> None:
    """What was said is heard before the service closes; a resting connection is closed too."""
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(Service(exact_triton.grpc_address, port=0))
        busy, resting = [await connect(address(service.url, format)) for _ in range(2)]
        await CLIENTS[format].greet(busy)
        await busy.send(CLIENTS[format].form(say("heard")))
        await eventually(lambda: running(format) in service.metrics.exposition().decode())
        leaving = asyncio.create_task(stack.aclose())
        said = [await rest(websocket) for websocket in (busy, resting)]
        await leaving
    assert (busy.close_code, resting.close_code) == (LEAVES.get(format, 1013),) * 2
    assert "heard" in said[0].lower()
