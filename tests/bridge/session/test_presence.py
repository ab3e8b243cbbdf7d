"""The states of a session's client."""

from __future__ import annotations

import pytest

from streamer.bridge.session.presence import ClientState, Presence
from streamer.bridge.states import StateError


def test_parked_and_back() -> None:
    """A session waits for a client that lost its connection, until a limit or until the client returns."""
    client = Presence()
    assert (client.parked, client.due_at) == (False, None)
    client.park(130.0)
    assert (client.parked, client.due_at) == (True, 130.0)
    client.come_back()
    assert (client.parked, client.due_at) == (False, None)
    client.come_back()  # over another connection, while the first one lives
    assert client.state is ClientState.CONNECTED


def test_dismissed() -> None:
    """During shutdown a client may return over another connection, but the session does not wait for it."""
    client = Presence()
    client.dismiss()
    client.dismiss()
    client.come_back()
    assert client.state is ClientState.DISMISSED
    with pytest.raises(StateError, match="client to become parked: expected connected, met dismissed"):
        client.park(130.0)


def test_left() -> None:
    """A client that has left cannot return."""
    client = Presence()
    client.leave()
    client.leave()
    client.dismiss()
    assert (client.gone, client.parked) == (True, False)
    with pytest.raises(StateError, match="client: expected connected or dismissed, met left"):
        client.come_back()
