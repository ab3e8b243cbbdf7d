"""Clients of OpenAI's realtime transcription, with a real service and real sockets."""

from __future__ import annotations

import asyncio
import io
import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
import soundfile
from websockets.exceptions import ConnectionClosed, InvalidStatus

from streamer.bridge.access.keys import KeyFile, make_key
from streamer.bridge.access.quotas import QuotaLimits
from streamer.bridge.access.rules import AccessRules, PortPolicy
from streamer.bridge.service import Service
from streamer.bridge.session.deadlines import Limits
from streamer.testing import say
from streamer.testing.exact_service import ExactService
from streamer.testing.exact_speech import Audio
from streamer.wire.dialects.openai_realtime import FLAT_SECRETS, PATH, SECRETS
from tests.bridge.dialects.realtime_client import COMPLETED, DELTA, Event, RealtimeClient, realtime, slowly, spoken
from tests.bridge.service_client import PATIENCE_S, eventually
from tests.bridge.uploads.uploading import post

AT_16 = {"type": "audio/pcm", "rate": 16_000}
ALICE, BOB = make_key("alice"), make_key("bob")
KEY = {"Authorization": f"Bearer {ALICE.secret}"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExactService]:
    """Provide a service that recognises exactly, with keys, for two sessions at a time."""
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(f"{ALICE.line}\n{BOB.line}\n")
    access = AccessRules(KeyFile(keys), quotas=QuotaLimits(per_key=2), open_metrics=True)
    with ExactService(slots=3, policy=PortPolicy(access)) as exact:
        yield exact


@pytest.fixture
def service(running: ExactService) -> ExactService:
    """Provide the service when it has room: sessions end just after their clients have seen the close."""
    end = time.monotonic() + PATIENCE_S
    while sessions(running.url) > 0 or not has_room(running.url):
        assert time.monotonic() < end
        time.sleep(0.02)
    return running


def g711(audio: Audio, subtype: str) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, audio, 8000, format="RAW", subtype=subtype)
    return file.getvalue()


def sessions(url: str) -> float:
    """Return how many sessions the service has now."""
    lines = post(url, "/metrics", method="GET")[2].decode().splitlines()
    return float(dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))["streamer_sessions"])


def has_room(url: str) -> bool:
    """Return whether the recogniser is ready and no session has a slot."""
    status, _, content = post(url, "/readyz", method="GET")
    return status == 200 and json.loads(content)["sequences"] == 0


def closed(client: RealtimeClient) -> int | None:
    """Receive everything until the connection is closed. Return the code of the close."""
    with suppress(ConnectionClosed):
        while True:
            client.receive()
    return client.websocket.close_code


def check(events: list[Event]) -> None:
    """Check the rules of every conversation."""
    assert len({event["event_id"] for event in events}) == len(events)
    kinds: dict[str, list[Event]] = {}
    for event in events:
        kinds.setdefault(event["type"].rpartition(".")[2], []).append(event)
    committed = [event["item_id"] for event in kinds.get("committed", [])]
    before = [event["previous_item_id"] for event in kinds.get("committed", [])]
    assert [event["item_id"] for event in kinds.get("completed", [])] == committed
    assert before == [None, *committed][: len(committed)]
    for event in kinds.get("completed", []):
        deltas = [each["delta"] for each in kinds.get("delta", []) if each["item_id"] == event["item_id"]]
        assert len("".join(deltas).split()) <= len(event["transcript"].split())  # no word was told twice


def test_turns_are_detected(service: ExactService) -> None:
    """Two sentences are two items, with deltas before the end; the times count all audio."""
    with realtime(service.url, additional_headers=KEY) as client:
        assert client.events[0]["type"] == "session.created"
        client.update(format=AT_16, turn_detection={"type": "server_vad", "silence_duration_ms": 350})
        client.append(spoken(say("hello world")))
        assert client.until(COMPLETED)["transcript"] == "Hello world"
        client.append(spoken(say("goodbye")))
        assert client.until(COMPLETED)["transcript"] == "Goodbye"
        check(client.events)
        began = [event["audio_start_ms"] for event in client.events if "audio_start_ms" in event]
        ended = [event["audio_end_ms"] for event in client.events if "audio_end_ms" in event]
        assert began[0] < 1440 < ended[0] < began[1] < 2940 + 840 < ended[1]
        assert next(event["delta"] for event in client.events if event["type"] == DELTA) == "Hello"


def test_commits_make_items(service: ExactService) -> None:
    """Without detection, a pause ends nothing. A commit without audio gets an error that repeats its name."""
    with realtime(service.url, "model=gpt-realtime", additional_headers=KEY) as client:
        client.update(format=AT_16, turn_detection=None)
        client.append(spoken(say("one two"), say("three")))
        client.send("input_audio_buffer.commit")
        client.append(spoken(say("four")))
        client.send("input_audio_buffer.commit")
        client.until(COMPLETED)
        client.until(COMPLETED)
        client.send("input_audio_buffer.commit", event_id="mine")
        error = client.receive()["error"]
        assert (error["code"], error["event_id"]) == ("input_audio_buffer_commit_empty", "mine")
        assert client.transcripts() == ["One two Three", "Four"]
        check([event for event in client.events if event["type"] != "error"])


def test_cleared_audio_is_not_transcribed(service: ExactService) -> None:
    """Cleared audio is neither in the next commit nor in deltas."""
    with realtime(service.url, additional_headers=KEY) as client:
        client.update(format=AT_16, turn_detection=None)
        client.append(spoken(say("forget this")))
        client.send("input_audio_buffer.clear")
        client.append(spoken(say("keep this")))
        client.send("input_audio_buffer.commit")
        client.until("input_audio_buffer.cleared")
        assert client.until(COMPLETED)["transcript"] == "Keep this"
        check(client.events)


def test_mistakes_leave_the_session_open(service: ExactService) -> None:
    """Each mistake gets an error, which repeats the name of the event."""
    with realtime(service.url, additional_headers=KEY) as client:
        client.websocket.send("no json")
        client.websocket.send(b"\0\0")
        client.send("input_audio_buffer.append", audio="no base64", event_id="a")
        client.send("session.update", session={"audio": {"input": {"format": {"type": "audio/opus"}}}}, event_id="b")
        client.send("response.create", event_id="c")
        errors = [client.receive()["error"] for _ in range(5)]
        assert [error["event_id"] for error in errors] == [None, None, "a", "b", "c"]
        assert {error["type"] for error in errors} == {"invalid_request_error"}
        client.update(format=AT_16, turn_detection=None, colour="red")
        client.append(say("fine"))
        client.send("input_audio_buffer.commit")
        assert client.until(COMPLETED)["transcript"] == "Fine"


@pytest.mark.parametrize("name", ["g711_ulaw", "g711_alaw"])
def test_the_older_shape_and_telephone_audio(service: ExactService, name: str) -> None:
    """Clients may use the older, flat session and telephone audio, and an item is created."""
    old = {**KEY, "OpenAI-Beta": "realtime=v1"}
    with realtime(service.url, additional_headers=old) as client:
        assert client.events[0]["type"] == "transcription_session.created"
        session = {"input_audio_format": name, "turn_detection": None}
        client.send("transcription_session.update", session=session)
        assert client.until("transcription_session.updated")["session"]["input_audio_format"] == name
        client.append(g711(slowly("a call", 8000), name[5:].upper()))
        client.send("input_audio_buffer.commit")
        client.until("conversation.item.created")
        assert client.until(COMPLETED)["transcript"] == "A call"


def test_settings_may_change_at_any_time(service: ExactService) -> None:
    """The format and the detection may change in the middle of the audio; times go on."""
    with realtime(service.url, additional_headers=KEY) as client:
        client.append(slowly("first", 24_000))
        client.update(format={"type": "audio/pcmu"})
        client.append(g711(slowly("second", 8000), "ULAW"))
        client.update(format=AT_16, turn_detection=None)
        client.append(say("third"))
        client.update(turn_detection={"type": "semantic_vad", "eagerness": "high"})
        client.append(spoken(say("and fourth")))
        client.until("input_audio_buffer.speech_stopped")
        while len(client.transcripts()) < 3:
            client.receive()
        assert client.transcripts() == ["First", "Second", "Third And fourth"]
        check(client.events)


def test_messages_may_be_large(service: ExactService) -> None:
    """Messages may be larger than at other paths; audio of more than 15 MiB gets an error, as at OpenAI."""
    with realtime(service.url, additional_headers=KEY) as client:
        client.update(format={"type": "audio/pcm", "rate": 192_000}, turn_detection=None)
        client.append(bytes(1_920_000), piece=1_920_000)
        client.send("input_audio_buffer.append", audio="AAAA" * (5 * 2**20 + 1), event_id="large")
        assert client.receive()["error"]["event_id"] == "large"
        client.send("input_audio_buffer.commit")
        assert client.until(COMPLETED)["usage"]["seconds"] == 5


def test_a_killed_recogniser_is_only_a_pause(service: ExactService) -> None:
    """If the recogniser is killed, no word is lost or doubled."""
    with realtime(service.url, additional_headers=KEY) as client:
        client.update(format=AT_16)
        client.append(spoken(say("before it dies")))
        client.until(COMPLETED)
        client.append(say("while it"))
        service.kill_recogniser()
        client.append(spoken(say("is dead"), say("after it is back")))
        client.until(COMPLETED)
        client.until(COMPLETED)
        assert client.transcripts() == ["Before it dies", "While it is dead", "After it is back"]
        check(client.events)


def test_a_wrong_key_is_refused_before_the_upgrade(service: ExactService) -> None:
    """A wrong key gets 401 in OpenAI's form. The right one may be a subprotocol, as browsers send it."""
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        with pytest.raises(InvalidStatus) as caught, realtime(service.url, additional_headers=headers):
            pass
        response = caught.value.response
        assert response.status_code == 401
        error = json.loads(response.body or b"")["error"]
        assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", "invalid_api_key", None)
    offered = ["realtime", f"openai-insecure-api-key.{ALICE.secret}", "openai-beta.realtime-v1"]
    with realtime(service.url, subprotocols=offered) as client:
        assert client.websocket.subprotocol == "realtime"
        assert client.events[0]["type"] == "transcription_session.created"


def test_a_service_without_room_refuses(service: ExactService) -> None:
    """Without room, a caller with all of its connections gets 429 before the upgrade, and everybody else 503."""
    with realtime(service.url, additional_headers=KEY) as one, realtime(service.url, additional_headers=KEY) as other:
        for client in (one, other):
            client.update(format=AT_16, turn_detection=None)
            client.append(spoken(say("busy")))
            client.until(DELTA)
        bob = {"Authorization": f"Bearer {BOB.secret}"}
        for headers, status, code in ((KEY, 429, "rate_limit_exceeded"), (bob, 503, "full")):
            with pytest.raises(InvalidStatus) as caught, realtime(service.url, additional_headers=headers):
                pass
            response = caught.value.response
            assert (response.status_code, response.headers["Retry-After"]) == (status, "5")
            assert json.loads(response.body or b"")["error"]["code"] == code


SETTINGS = {
    "format": {"type": "audio/pcm", "rate": 16_000},
    "turn_detection": None,
    "transcription": {"model": "whisper-1", "language": "en"},
}


def test_a_key_for_a_short_time(service: ExactService) -> None:
    """A page gets a key with the settings of its sessions, and is recognised with them, as its maker would be."""
    wanted = {"session": {"type": "transcription", "audio": {"input": SETTINGS}}, "expires_after": {"seconds": 60}}
    began = int(time.time())
    status, _, content = post(service.url, SECRETS, json.dumps(wanted), **KEY)
    told = json.loads(content)
    assert (status, told["value"][:3]) == (200, "ek_")
    assert began + 60 <= told["expires_at"] <= time.time() + 60
    assert told["session"]["audio"]["input"]["transcription"] == SETTINGS["transcription"]
    offered = ["realtime", f"openai-insecure-api-key.{told['value']}"]
    with realtime(service.url, subprotocols=offered) as client:
        [created] = client.events
        assert created["session"]["audio"]["input"] | SETTINGS == created["session"]["audio"]["input"]
        client.append(spoken(say("hello world")))
        client.send("input_audio_buffer.commit")
        assert client.until(COMPLETED)["transcript"] == "Hello world"


@pytest.mark.parametrize("path", FLAT_SECRETS)
def test_older_shapes_of_keys(service: ExactService, path: str) -> None:
    """In the older shape the request is the session, and the key is in the answer's session."""
    wanted = {"input_audio_format": "g711_ulaw", "input_audio_transcription": {"language": "en"}}
    status, _, content = post(service.url, path, json.dumps(wanted), **KEY)
    told = json.loads(content)
    assert (status, told["input_audio_format"]) == (200, "g711_ulaw")
    secret = {"Authorization": f"Bearer {told['client_secret']['value']}"}
    with realtime(service.url, additional_headers=secret) as client:
        assert client.events[0]["session"]["audio"]["input"]["format"] == {"type": "audio/pcmu"}


def test_a_key_for_a_short_time_counts_as_its_maker(service: ExactService) -> None:
    """The sessions of both are limited together."""
    secret = json.loads(post(service.url, SECRETS, b"", **KEY)[2])["value"]
    short = {"Authorization": f"Bearer {secret}"}
    with realtime(service.url, additional_headers=KEY), realtime(service.url, additional_headers=short):
        for headers in (KEY, short):
            with pytest.raises(InvalidStatus) as caught, realtime(service.url, additional_headers=headers):
                pass
            assert caught.value.response.status_code == 429


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"expires_after": {"seconds": 7201}}, "from 10 to 7200"),
        ({"expires_after": 60}, "must be an object"),
        ({"session": {"audio": {"input": {"transcription": {"language": "de"}}}}}, "knows only English"),
        ({"session": [1]}, "must be an object"),
        ([], "must be a JSON object"),
    ],
)
def test_refused_requests_for_keys(service: ExactService, body: object, words: str) -> None:
    """What cannot be meant is refused before there is a key, in OpenAI's form."""
    status, _, content = post(service.url, SECRETS, json.dumps(body), **KEY)
    told = json.loads(content)["error"]
    assert (status, told["type"], words in told["message"]) == (400, "invalid_request_error", True)


def test_nobody_else_makes_keys(service: ExactService) -> None:
    """Without a key, with a wrong one and with one for a short time, no key is made."""
    secret = json.loads(post(service.url, SECRETS, b"", **KEY)[2])["value"]
    for headers in ({}, {"Authorization": "Bearer ek_guess"}, {"Authorization": f"Bearer {secret}"}):
        for path in (SECRETS, *FLAT_SECRETS):
            status, _, content = post(service.url, path, b"{}", **headers)
            assert (status, json.loads(content)["error"]["code"]) == (401, "invalid_api_key")
    status, _, content = post(service.url, PATH, method="GET", **KEY)
    assert (status, json.loads(content)["error"]["type"]) == (426, "invalid_request_error")


async def test_a_silent_client_gives_its_slot_back(service: ExactService) -> None:
    """A silent client gives its slot back, and gets another one with its next audio; its item goes on."""
    async with Service(service.triton_address, port=0, limits=Limits(idle_s=1.0)) as running:

        def talk() -> str:
            with realtime(running.url) as client:
                client.update(format=AT_16, turn_detection=None)
                client.append(spoken(say("first part")))
                client.until(DELTA)
                while sessions(running.url):
                    time.sleep(0.05)
                client.append(spoken(say("second part")))
                client.send("input_audio_buffer.commit")
                return str(client.until(COMPLETED)["transcript"])

        assert await asyncio.to_thread(talk) == "First part Second part"


async def test_the_end_of_the_service_is_told(service: ExactService) -> None:
    """When the service ends, the speech so far becomes an item, and then a close says why."""
    opened = [threading.Event(), threading.Event()]

    def talk(url: str, number: int) -> RealtimeClient:
        with realtime(url) as client:
            client.update(format=AT_16)
            if number:
                client.append(say("in the middle of it"), piece=100_000)  # one message, so the delta tells of all
                client.until(DELTA)
            opened[number].set()
            assert closed(client) == 1013
        return client

    async with Service(service.triton_address, port=0) as running:
        talks = [asyncio.create_task(asyncio.to_thread(talk, running.url, number)) for number in (0, 1)]
        await eventually(lambda: all(event.is_set() for event in opened))
    for client in await asyncio.gather(*talks):
        assert str(client.websocket.close_reason).startswith("The service is shutting down")
        check(client.events)
    assert client.transcripts() == ["In the middle of it"]
