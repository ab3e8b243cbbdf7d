"""Clients of Deepgram, with only the address changed: its SDKs, LiveKit's plugin, and pipecat's service."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from streamer.client import transcribe
from streamer.testing.exact_service import ExactService
from tests.bridge.access.certificate_authority import Authority
from tests.clients.conftest import KEY
from tests.clients.running import HALF, run

LIVEKIT = [
    ["start_of_speech", ""],
    ["final_transcript", "Hello world"],
    ["end_of_speech", ""],
    ["start_of_speech", ""],
    ["final_transcript", "Goodbye"],
    ["end_of_speech", ""],
]
javascript = pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")


def results(messages: list[Any], *, final: bool = True) -> list[Any]:
    """The results among live messages that are final, or those that are not."""
    return [message for message in messages if message["type"] == "Results" and message["is_final"] is final]


def finals(messages: list[Any]) -> str:
    """The final text of live messages."""
    return " ".join(filter(None, (each["channel"]["alternatives"][0]["transcript"] for each in results(messages))))


def words(messages: list[Any]) -> list[tuple[str, int, int]]:
    """The final words of live messages, and when they were said."""
    alternatives = [result["channel"]["alternatives"][0] for result in results(messages)]
    return [of_seconds(word) for alternative in alternatives for word in alternative["words"]]


def of_seconds(word: dict[str, Any]) -> tuple[str, int, int]:
    return word["punctuated_word"], round(1000 * word["start"]), round(1000 * word["end"])


def native_words(service: ExactService, recording: Path) -> list[tuple[str, int, int]]:
    """The words of the native protocol for the same samples, endpoint and form."""
    options = {"written": True, "endpoint": {"after_text_ms": 400}}
    transcript = transcribe(str(recording), url=service.url, options=options).result()
    return [(word["word"], word["start_ms"], word["end_ms"]) for word in transcript.words]


def livekit(told: Any) -> list[Any]:
    """The events of LiveKit that tell turns."""
    return [event for event in told["events"] if event[0] not in ("interim_transcript", "recognition_usage")]


def test_the_sdk_for_python(exact: ExactService, talk: Path) -> None:
    """It knows every message as what it is; `Finalize` is answered once, and words are those of the native protocol."""
    told = run("deepgram_program.py", exact, talk)
    classes = {f"ListenV1{kind}" for kind in ("SpeechStarted", "Results", "UtteranceEnd", "Metadata")}
    assert {message["class"] for message in told["live"]} == classes
    assert finals(told["live"]) == "Hello world Goodbye"
    assert words(told["live"]) == native_words(exact, talk)
    assert results(told["live"], final=False)
    assert sum(bool(result["from_finalize"]) for result in results(told["live"])) == 1
    assert told["live"][-1]["duration"] == 5.4
    [channel] = told["recorded"]["results"]["channels"]
    [alternative] = channel["alternatives"]
    assert alternative["transcript"] == "Hello world Goodbye"
    assert [of_seconds(word)[0] for word in alternative["words"]] == ["Hello", "world", "Goodbye"]
    assert len(told["recorded"]["results"]["utterances"]) == 2
    assert told["refused"] == ["BadRequestError", 400]


def test_endpointing(exact: ExactService, talk: Path) -> None:
    """A pause ends an utterance, unless the client has switched that off; the words are the same."""
    told = run("deepgram_program.py", exact, talk)
    assert any(result["speech_final"] for result in results(told["live"]))
    assert not any(result["speech_final"] for result in results(told["endpointing off"]))
    assert finals(told["endpointing off"]) == "Hello world Goodbye"


def test_refusals(guarded: ExactService, authority: Authority, talk: Path) -> None:
    """Each is an error of the SDK with the status of the original, and what is only switched off is no reason."""
    trusted = {"SSL_CERT_FILE": str(authority.root)}
    told = run("deepgram_refusals_program.py", guarded, talk, KEY.secret, environment=trusted)
    assert [told[name] for name in ("off", "redact", "wrong key", "full")] == [101, 400, 401, 429]
    assert told["language"][:2] == ["BadRequestError", 400]
    assert "only English" in told["language"][2]["err_msg"]
    assert told["no audio"][:2] == ["BadRequestError", 400]
    assert (told["wrong key, recorded"][1], told["full, recorded"][1]) == (401, 429)
    assert told["full, recorded"][2]["err_code"] == "TOO_MANY_REQUESTS"


def test_models_projects_addresses_and_tokens(guarded: ExactService, authority: Authority, talk: Path) -> None:
    """The SDK reads the lists and its errors, an address is fetched, and a token is as good as its maker."""
    trusted = {"SSL_CERT_FILE": str(authority.root)}
    told = run("deepgram_paths_program.py", guarded, talk, KEY.secret, environment=trusted)
    assert told["project"] == ["streamer", True]
    assert told["models"] == ["default", "default"]
    assert told["models of the project"] == ["default"]
    assert (told["keys"][1], told["keys"][2]["err_code"]) == (404, "NOT_FOUND")
    assert (told["wrong key"][1], told["wrong key"][2]["err_code"]) == (401, "INVALID_AUTH")
    assert (told["expires"], told["opened"]) == (60, True)
    assert told["recorded"] == told["fetched"] == "hello world goodbye"
    assert told["another token"][1] == 401


@javascript
def test_the_sdk_for_javascript(exact: ExactService, talk: Path) -> None:
    """It does not connect again after the end."""
    told = run("deepgram_program.cjs", exact, talk)
    assert (told["code"], told["opened"], finals(told["live"])) == (1000, 1, "Hello world Goodbye")
    [channel] = told["recorded"]["results"]["channels"]
    assert channel["alternatives"][0]["transcript"] == "Hello world Goodbye"


@javascript
def test_a_connection_that_is_cut(exact: ExactService, talk: Path) -> None:
    """The SDK for JavaScript connects again, and the new session hears everything that it is sent."""
    told = run("deepgram_reconnecting.cjs", exact, talk, when={"cut": exact.cut})
    assert told == {"opened": 2, "code": 1000, "heard": "hello world goodbye"}


def test_livekit(exact: ExactService, talk: Path) -> None:
    """Each turn begins and ends, and its stream ends when it closes it."""
    told = run("livekit_program.py", exact, talk)
    assert livekit(told) == LIVEKIT
    assert any(event[0] == "interim_transcript" for event in told["events"])
    assert told["recorded"] == "Hello world Goodbye"


def test_pipecat(exact: ExactService, turn: Path) -> None:
    """When the user stops talking, the last words come at once, and are known to end the turn."""
    assert run("pipecat_program.py", exact, turn) == {"heard": [["Hello world", False], ["Goodbye", True]]}


def test_a_killed_triton_is_a_pause(exact: ExactService, talk: Path, turn: Path) -> None:
    """In the middle of a session: every client gets each word once, and notices nothing."""
    killed = {HALF: exact.kill_recogniser}
    told = run("deepgram_program.py", exact, talk, when=killed)
    assert finals(told["live"]) == finals(told["endpointing off"]) == "Hello world Goodbye"
    assert livekit(run("livekit_program.py", exact, talk, when=killed)) == LIVEKIT
    heard = {"heard": [["Hello world", False], ["Goodbye", True]]}
    assert run("pipecat_program.py", exact, turn, when=killed) == heard


@javascript
def test_a_killed_triton_is_a_pause_to_the_sdk_for_javascript(exact: ExactService, talk: Path) -> None:
    """In the middle of a session: each word comes once, over one connection."""
    told = run("deepgram_program.cjs", exact, talk, when={HALF: exact.kill_recogniser})
    assert (told["code"], told["opened"], finals(told["live"])) == (1000, 1, "Hello world Goodbye")
