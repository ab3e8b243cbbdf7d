"""Clients of OpenAI's realtime transcription, with a real service and real sockets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamer.testing import say
from streamer.testing.exact_service import ExactService
from tests.bridge.dialects.realtime_client import COMPLETED, realtime, spoken

RATE = {"type": "audio/pcm", "rate": 16_000}


@pytest.fixture(scope="module")
def service() -> Iterator[ExactService]:
    """Provide a service that recognises exactly."""
    with ExactService(slots=3) as exact:
        yield exact


def test_turns(service: ExactService) -> None:
    with realtime(service.url) as client:
        client.update(format=RATE)
        client.append(spoken(say("hello world"), say("goodbye")))
        client.until(COMPLETED)
        client.until(COMPLETED)
        for event in client.events:
            print(event)
