"""Checks of the usual port, and whether a service recognises anything."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from streamer.bridge.service import Service
from streamer.commands.checks import service as checks
from streamer.commands.checks.finding import FINE, WARNING, WRONG
from workshop.graphs.exact_icefall import make_ctc_folder


@pytest.fixture
def usual(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Another port as the usual one, which another program uses."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(checks, "DEFAULT_PORT", taken.getsockname()[1])
        yield taken


def test_a_port_that_is_taken(usual: socket.socket) -> None:
    """If the port is taken, the remedy is another port; when it is free, there is no warning."""
    number = usual.getsockname()[1]
    (found,) = checks.port()
    assert (found.subject, found.state) == (f"port {number}", WARNING)
    assert "Address already in use" in found.said
    assert "streamer serve --port" in found.remedy
    usual.close()
    (found,) = checks.port()
    assert (found.state, found.said) == (FINE, f"port {number} of 127.0.0.1 is free")


def test_a_service_on_the_port(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """A running service is asked for its state."""
    monkeypatch.setattr(checks, "DEFAULT_PORT", urlsplit(service.url).port)
    (found,) = checks.port()
    assert found.state == FINE
    assert "a Streamer service listens there and is ready (0 of " in found.said


def test_a_service_that_was_named(service: Service) -> None:
    """A named service must recognise the sample. Its address is shown without a key."""
    (found,) = checks.named_service(f"{service.url}?key=secret")
    assert found.state == FINE
    assert "apostle" in found.said
    assert "secret" not in found.said
    (found,) = checks.named_service("ws://127.0.0.1:1/v1/stream")
    assert (found.state, "the connection was refused" in found.said) == (WRONG, True)


def test_a_trial_of_a_public_model(tmp_path: Path) -> None:
    """A folder is tried with a service of its own; words of another language are no problem, nor are none."""
    (found,) = checks.trial(make_ctc_folder(tmp_path))
    assert found.state == FINE
    assert "and recognised 5.9 s of audio" in found.said
