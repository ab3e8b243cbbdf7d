"""Speakers are told apart by the real networks in a real Triton, for all kinds of clients."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pytest

from streamer.base.saved_transcript import read_transcripts
from streamer.bridge.access.rules import PortPolicy
from streamer.bridge.service import Service
from streamer.bridge.triton import MODEL
from streamer.bridge.triton.repository import asr_repository
from streamer.bridge.triton.server import TritonServer
from tests.bridge.grpc.grpc_client import LINEAR, RIVA, V1, Client, finals
from tests.bridge.service_client import receive, session
from tests.bridge.uploads.uploading import form, post, recording
from tests.engine.speakers.talks import MAN, WOMAN, conversation
from tests.shared_servers import serving

Words = list[tuple[int, int | None]]  # when a word begins, and its speaker


@pytest.fixture(scope="module")
def triton() -> Iterator[TritonServer]:
    with TritonServer(asr_repository(), models=[MODEL], speakers=True) as server:
        yield server


@pytest.fixture(scope="module")
def service(triton: TritonServer) -> Iterator[Service]:
    with serving(triton, policy=PortPolicy(grpc=("127.0.0.1", 0))) as running:
        yield running


def check(words: Words) -> None:
    """Check that nearly all words have the speaker who says them, and that both speak."""
    _, turns = conversation()
    assert len(words) > 30
    right = 0
    for start_ms, speaker in words:
        who = next((who for start, end, who in turns if start <= start_ms * 16 < end), None)
        right += who in (None, speaker)
    assert right >= 0.9 * len(words)
    assert {speaker for _, speaker in words} == {WOMAN, MAN}


def words_of(finals: list[dict[str, Any]]) -> Words:
    return [(word["start_ms"], word.get("speaker")) for final in finals for word in final["words"]]


async def events(url: str, **options: Any) -> list[dict[str, Any]]:
    """Return the events of a session with the conversation."""
    samples, _ = conversation()
    async with session(url, partials=False, **options) as websocket:

        async def send() -> None:
            audio = samples.tobytes()
            for place in range(0, len(audio), 32_000):
                await websocket.send(audio[place : place + 32_000])
                await asyncio.sleep(0.05 if options.get("live") else 0)
            await websocket.send('{"type":"stop"}')

        sending = asyncio.create_task(send())
        found: list[dict[str, Any]] = []
        while not found or found[-1]["type"] != "done":
            found.append(await receive(websocket))
        await sending
        return found


def kind(found: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [event for event in found if event["type"] == name]


async def test_a_recording_has_speakers_and_a_second_look(service: Service) -> None:
    found = await events(service.url, speakers=True)
    check(words_of(kind(found, "final")))
    assert [event["type"] for event in found[-2:]] == ["speakers", "done"]
    turns = found[-2]["turns"]
    assert {turn["speaker"] for turn in turns} == {WOMAN, MAN}
    assert all(turn["start_ms"] < turn["end_ms"] <= found[-1]["audio_ms"] for turn in turns)


async def test_a_live_session_has_speakers_at_once_and_no_second_look(service: Service) -> None:
    found = await events(service.url, speakers=2, live=True)
    check(words_of(kind(found, "final")))
    assert not kind(found, "speakers")
    for final in kind(found, "final"):
        assert final["speaker"] in [word.get("speaker") for word in final["words"]]


@pytest.mark.parametrize("live", [True, False])
async def test_a_voice_that_is_known_has_its_number(service: Service, live: bool) -> None:
    """The man, who speaks second, is speaker 0 if he was enrolled: from his first word on, and in the second look."""
    samples, turns = conversation()
    begin = next(start for start, _, who in turns if who == MAN)
    voice = base64.b64encode(samples[begin : begin + 5 * 16_000].tobytes()).decode()
    found = await events(service.url, speakers=2, live=live, voices=[{"name": "Roger", "audio": voice}])
    words: Words = [(start_ms, MAN if speaker == 0 else WOMAN) for start_ms, speaker in words_of(kind(found, "final"))]
    check(words)
    if not live:
        second = [turn["speaker"] for turn in found[-2]["turns"]]
        assert [each for each, _ in groupby(second)] == [1, 0, 1, 0]
        assert all(turn["start_ms"] >= 0 for turn in found[-2]["turns"])
    assert not kind(found, "error")


async def test_a_recording_of_nobody_is_told(service: Service) -> None:
    """The client learns that a voice cannot be enrolled; the session goes on without it."""
    silence = base64.b64encode(bytes(64_000)).decode()
    found = await events(service.url, speakers=True, voices=[{"name": "Ada", "audio": silence}])
    [error] = kind(found, "error")
    assert (error["code"], error["fatal"]) == ("no_speakers", False)
    assert "Ada" in error["message"]
    assert found[-1]["type"] == "done"


async def test_only_sessions_that_ask_have_speakers(service: Service) -> None:
    found = await events(service.url)
    assert {speaker for _, speaker in words_of(kind(found, "final"))} == {None}


def _post(service: Service, path: str, body: bytes, **headers: str) -> Any:
    http = service.url.replace("ws", "http", 1).rpartition("/v1/")[0]
    status, _, content = post(http, path, body, **headers)
    assert status == 200, content
    return content.decode()


def test_an_upload_has_speakers_in_all_formats(service: Service) -> None:
    body = recording(conversation()[0])
    answer = json.loads(_post(service, "/v1/transcribe?speakers=true", body))
    check([(word["start_ms"], word["speaker"]) for segment in answer["segments"] for word in segment["words"]])
    subtitles = _post(service, "/v1/transcribe?speakers=2&format=vtt", body)
    assert "<v 1>" in subtitles
    assert "<v 2>" in subtitles
    lines = _post(service, "/v1/transcribe?speakers=2&format=jsonl", body)
    [saved] = read_transcripts(lines, "talk.jsonl")
    assert [json.loads(line)["type"] for line in lines.splitlines()[-2:]] == ["speakers", "done"]
    check([(word["start_ms"], word["speaker"]) for word in saved.words])
    named = _post(service, "/v1/transcribe?speakers=2&speaker_names=Susan,Roger&format=vtt", body)
    assert "<v Roger>" in named
    assert "<v 1>" not in named
    text = _post(service, "/v1/transcribe?speakers=2&format=text", body)
    assert [paragraph[:4] for paragraph in text.split("\n\n")][:3] == ["[1] ", "[2] ", "[1] "]


def test_deepgrams_clients_get_speakers(service: Service) -> None:
    answer = json.loads(_post(service, "/v1/listen?diarize=true&smart_format=true", recording(conversation()[0])))
    [alternative] = answer["results"]["channels"][0]["alternatives"]
    check([(round(1000 * word["start"]), word["speaker"]) for word in alternative["words"]])
    paragraphs = alternative["paragraphs"]
    assert {each["speaker"] for each in paragraphs["paragraphs"]} == {WOMAN, MAN}
    assert "Speaker 0: " in paragraphs["transcript"]
    assert "Speaker 1: " in paragraphs["transcript"]


def test_openais_clients_get_speakers(service: Service) -> None:
    body, kind = form(("response_format", "diarized_json"), ("file", recording(conversation()[0])))
    answer = json.loads(_post(service, "/v1/audio/transcriptions", body, Content_Type=kind))
    assert [segment["speaker"] for segment in answer["segments"]][:1] == ["A"]
    assert {segment["speaker"] for segment in answer["segments"]} == {"A", "B"}


def test_clients_over_grpc_get_speakers(service: Service) -> None:
    wishes = {"enable_word_time_offsets": True, "diarization_config": {"enable_speaker_diarization": True}}
    audio = conversation()[0].tobytes()
    with Client(service.grpc_port) as client:
        live = finals(client.stream(V1, audio, {**LINEAR, **wishes}))
        riva = client.recognise(RIVA, audio, {**LINEAR, **wishes}).results
        *results, last = client.recognise(V1, audio, {**LINEAR, **wishes}).results
    words = [word for result in live for word in result.alternatives[0].words]
    check([(round(word.start_time.ToMilliseconds()), word.speaker_tag - 1) for word in words])
    check([(word.start_time, word.speaker_tag) for result in riva for word in result.alternatives[0].words])
    assert list(last.alternatives[0].words) == [word for result in results for word in result.alternatives[0].words]
    check([(word.start_time.ToMilliseconds(), word.speaker_tag - 1) for word in last.alternatives[0].words])


async def test_without_the_model_there_are_words_and_a_reason(exact_service: Service) -> None:
    found = await events(exact_service.url, speakers=True)
    [error] = kind(found, "error")
    assert (error["code"], error["fatal"]) == ("no_speakers", False)
    assert "unknown model" in error["message"]
    assert not kind(found, "speakers")
    assert found[-1]["type"] == "done"
