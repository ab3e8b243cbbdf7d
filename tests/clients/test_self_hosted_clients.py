"""Clients of servers that people run themselves, with only the address changed: from the packages of these servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamer.bridge.access.rules import PortPolicy
from streamer.testing.exact_service import ExactService
from tests.clients.running import HALF, run

SENTENCES = ["hello world", "goodbye"]


@pytest.fixture(scope="module")
def at_sherpa() -> Iterator[ExactService]:
    """Provide a service that speaks the format of sherpa-onnx at `/`, because its client knows no path."""
    with ExactService(slots=4, policy=PortPolicy(root="sherpa-onnx")) as service:
        yield service


@pytest.fixture(scope="module")
def at_whisperlive() -> Iterator[ExactService]:
    """Provide a service that speaks the format of WhisperLive at `/`, because its client knows no path."""
    with ExactService(slots=4, policy=PortPolicy(root="whisperlive")) as service:
        yield service


def sherpa_finals(told: Any) -> list[str]:
    """The finals of the client of sherpa-onnx that have words."""
    return [result["text"] for result in told["results"] if result["is_final"] and result["text"]]


def test_vosk(exact: ExactService, talk: Path) -> None:
    """It waits for the answer to each message, so it gets each final in time, with its words."""
    told = run("vosk_program.py", exact, talk)
    assert [result["text"] for result in told["results"] if result["text"]] == SENTENCES
    assert told["text"].split("\n")[:2] == SENTENCES
    assert told["srt"].startswith("1\n00:00:00,040 --> 00:00:01,3")
    assert [word["word"] for result in told["results"] for word in result.get("result", ())] == [
        "hello",
        "world",
        "goodbye",
    ]


def test_vosk_and_a_killed_triton(exact: ExactService, talk: Path) -> None:
    """Each word comes once, and the client only waits."""
    told = run("vosk_program.py", exact, talk, when={HALF: exact.kill_recogniser})
    assert " ".join(result["text"] for result in told["results"] if result["text"]) == " ".join(SENTENCES)


def test_sherpa_onnx(at_sherpa: ExactService, talk: Path) -> None:
    """Its client shows each result, and closes after the last one."""
    told = run("sherpa_program.py", at_sherpa, talk)
    assert (told["status"], told["closed"]) == (0, True)
    assert sherpa_finals(told) == SENTENCES
    assert [result["is_eof"] for result in told["results"]][-2:] == [False, True]
    assert {result["segment"] for result in told["results"] if result["text"]} == {0, 1}


def test_sherpa_onnx_and_a_killed_triton(at_sherpa: ExactService, talk: Path) -> None:
    """Each word comes once, and the client notices nothing."""
    told = run("sherpa_program.py", at_sherpa, talk, when={HALF: at_sherpa.kill_recogniser})
    assert (told["status"], " ".join(sherpa_finals(told))) == (0, " ".join(SENTENCES))


def kept(told: Any) -> list[str]:
    """The texts that the client of WhisperLive keeps."""
    return [segment["text"].strip() for segment in told["kept"]]


def test_whisperlive(at_whisperlive: ExactService, talk: Path) -> None:
    """Its client keeps each segment once it is completed, and shows it before."""
    told = run("whisperlive_program.py", at_whisperlive, talk)
    assert (kept(told), told["error"]) == (["Hello world", "Goodbye"], False)
    assert any(not segment["completed"] for _, segments in told["heard"] for segment in segments)


def test_whisperlive_and_a_killed_triton(at_whisperlive: ExactService, talk: Path) -> None:
    """Each word comes once, over one connection."""
    told = run("whisperlive_program.py", at_whisperlive, talk, when={HALF: at_whisperlive.kill_recogniser})
    assert " ".join(kept(told)).lower() == "hello world goodbye"


def test_whisperlive_does_not_translate(at_whisperlive: ExactService, talk: Path) -> None:
    """Its client learns that there is no translation, and ends."""
    told = run("whisperlive_program.py", at_whisperlive, talk, "translate")
    assert (told["error"], told["heard"]) == (True, [])


def test_whisperlivekit(exact: ExactService, talk: Path) -> None:
    """In both modes its client has the same lines, with their times."""
    told = run("whisperlivekit_program.py", exact, talk)
    for mode in ("full", "diff"):
        assert [line["text"] for line in told[mode]["lines"]] == ["Hello world", "Goodbye"]
        assert told[mode]["lines"][0]["start"] == "0:00:00.04"
        assert told[mode]["updates"] > 2


def test_whisperlivekit_and_a_killed_triton(exact: ExactService, talk: Path) -> None:
    """Each word comes once."""
    told = run("whisperlivekit_program.py", exact, talk, when={HALF: exact.kill_recogniser})
    assert told["full"]["text"].lower() == told["diff"]["text"].lower() == "hello world goodbye"
