"""A service that hears exactly what is said, and the faults that its clients have to cope with."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from streamer.client import SessionError, connect
from streamer.testing import ExactService, say


@pytest.fixture(scope="module")
def service() -> Iterator[ExactService]:
    """One for all tests here; its port is free once it is left."""
    with ExactService(slots=4) as service:
        yield service
    parts = urlsplit(service.url)
    with socket.create_server((str(parts.hostname), int(parts.port or 0))):
        pass


def finals(session: object) -> str:
    """The text of a session to its end."""
    return " ".join(event["text"] for event in session if event["type"] == "final")  # type: ignore[attr-defined]


def test_it_hears_what_is_said(service: ExactService) -> None:
    """Every word, in every session."""
    for text in ("hello world", "it's a quick brown fox"):
        with connect(service.url) as session:
            session.send(say(text))
            session.stop()
            assert finals(session) == text


def test_a_cut_and_a_stall_lose_nothing(service: ExactService) -> None:
    """A client that goes on has all words once."""
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
    """The service starts it again; the session is told so."""
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
    """As long as it is asked to refuse them."""
    service.refuse()
    with pytest.raises(SessionError), connect(service.url):
        pass
    service.refuse(False)
    with connect(service.url) as session:
        session.stop()


def test_a_start_that_fails_is_told() -> None:
    """The reason is that of the service; nothing is left of it."""
    with pytest.raises(TypeError, match="unknown"), ExactService(unknown=1):
        pass
