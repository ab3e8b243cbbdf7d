"""The client of Home Assistant, from the package `wyoming`, with only the address changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamer.bridge.access.rules import PortPolicy
from streamer.testing.exact_service import ExactService
from tests.clients.running import HALF, run


@pytest.fixture(scope="module")
def home() -> Iterator[ExactService]:
    """Provide a service with a port for Wyoming."""
    with ExactService(slots=4, policy=PortPolicy(wyoming=("127.0.0.1", 0))) as service:
        yield service


def speak(home: ExactService, talk: Path, language: str, when: dict[str, Callable[[], object]] | None = None) -> Any:
    """Run the client."""
    return run("wyoming_program.py", home, talk, str(home.wyoming_port), language, when=when)


@pytest.mark.parametrize("language", ["en", "en-US"])
def test_wyoming(home: ExactService, talk: Path, language: str) -> None:
    """It finds the model, and its transcript is all chunks together."""
    told = speak(home, talk, language)
    assert (told["pong"], told["models"], told["streams"]) == ("there?", {"default": ["en"]}, True)
    assert (told["transcript"].lower(), told["error"]) == ("hello world goodbye", None)
    assert ("".join(told["chunks"]), len(told["chunks"])) == (told["transcript"], 2)
    assert told["kinds"][0] == "transcript-start"
    assert told["kinds"][-2:] == ["transcript", "transcript-stop"]


def test_wyoming_and_a_killed_triton(home: ExactService, talk: Path) -> None:
    """Each word comes once, and the client only waits."""
    told = speak(home, talk, "en", {HALF: home.kill_recogniser})
    assert told["transcript"].lower() == "hello world goodbye"


def test_a_language_that_the_model_lacks(home: ExactService, talk: Path) -> None:
    """There is no transcript, as Home Assistant expects where something failed."""
    assert speak(home, talk, "de")["transcript"] is None
