"""Websockets that rest between their sessions: their number, and how long they may rest."""

from __future__ import annotations

import json
import threading

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from streamer.bridge.dialects import successive
from streamer.testing import say
from streamer.testing.exact_service import ExactService
from tests.bridge.dialects.realtime_client import COMPLETED, DELTA, RealtimeClient, realtime, spoken

AT_16 = {"type": "audio/pcm", "rate": 16_000}


def test_only_so_many_may_rest(exact: ExactService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a limited number of websockets may rest; those that have a session do not count."""
    monkeypatch.setattr(successive, "MOST_RESTING", 1)
    with realtime(exact.url) as client:
        with pytest.raises(InvalidStatus) as caught, realtime(exact.url):
            pass
        assert caught.value.response.status_code == 503
        assert json.loads(caught.value.response.body or b"")["error"]["code"] == "busy"
        client.update(format=AT_16)
        client.append(spoken(say("now it speaks")))
        client.until(DELTA)
        with realtime(exact.url):
            pass


def test_nobody_may_rest_for_ever(exact: ExactService, monkeypatch: pytest.MonkeyPatch) -> None:
    """A websocket that rests for too long gets an error and a normal close."""
    monkeypatch.setattr(successive, "LONGEST_REST_S", 0.1)
    with realtime(exact.url) as client:
        assert client.receive()["error"]["code"] == "session_expired"
        with pytest.raises(ConnectionClosed):
            client.receive()
        assert client.websocket.close_code == 1000


def test_events_come_in_the_order_in_which_they_were_made(exact: ExactService) -> None:
    """Events come in order, although different tasks send results and answers to the client's events."""
    with realtime(exact.url) as client:
        client.update(format=AT_16, turn_detection=None)
        sending = threading.Thread(target=_commit_often, args=(client,))
        sending.start()
        while len(client.transcripts()) < 12:
            client.receive()
        sending.join()
    numbers = [int(event["event_id"].rpartition("_")[2]) for event in client.events]
    assert numbers == sorted(numbers)
    assert client.transcripts() == ["Word"] * 12
    assert client.events[-1]["type"] == COMPLETED


def _commit_often(client: RealtimeClient) -> None:
    for _ in range(12):
        client.append(say("word"))
        client.send("input_audio_buffer.commit")
