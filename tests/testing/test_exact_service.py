"""A service that hears exactly what is said, and the faults that its clients have to handle."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from streamer.client import SessionError, connect
from streamer.testing import ExactService, say


@pytest.fixture(scope="module")
def service() -> Iterator[ExactService]:
    """Provide one service for all tests here. Its port is free afterwards."""
    with ExactService(slots=4) as service:
        yield service
    parts = urlsplit(service.url)
    with socket.create_server((str(parts.hostname), int(parts.port or 0))):
        pass


def finals(session: object) -> str:
    """Return the text of a session at its end."""
    return " ".join(event["text"] for event in session if event["type"] == "final")  # type: ignore[attr-defined]


def test_it_hears_what_is_said(service: ExactService) -> None:
    """Every session gets each of its words."""
    for text in ("hello world", "it's a quick brown fox"):
        with connect(service.url) as session:
            session.send(say(text))
            session.stop()
            assert finals(session) == text


def test_a_cut_and_a_stall_lose_nothing(service: ExactService) -> None:
    """A client that reconnects gets each word once."""
    with connect(service.url) as session:
        session.send(say("one two"))
        service.cut()
        session.send(say("three"))
        service.stall()
        session.send(say("four"))
        service.resume()
        session.stop()
        assert finals(session) == "one two three four"


def test_a_recogniser_that_is_killed_is_recovered_from(service: ExactService) -> None:
    """The service starts the recogniser again, and tells the session."""
    with connect(service.url) as session:
        session.send(say("before and"))
        next(event for event in session if event["type"] == "partial")
        service.kill_recogniser()
        session.send(say("after"))
        session.stop()
        events = list(session)
    assert [event["text"] for event in events if event["type"] == "final"] == ["before and after"]
    assert [event["type"] for event in events].count("recovered") == 1


def test_connections_are_refused(service: ExactService) -> None:
    """Connections are refused for as long as the test asks for it."""
    service.refuse()
    with pytest.raises(SessionError), connect(service.url):
        pass
    service.refuse(False)
    with connect(service.url) as session:
        session.stop()


def test_a_start_that_fails_is_told() -> None:
    """A start that fails has the reason of the service, and leaves nothing behind."""
    with pytest.raises(TypeError, match="unknown"), ExactService(unknown=1):
        pass
