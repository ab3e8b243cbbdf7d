"""Whether a session's client is there."""

from __future__ import annotations

import pytest

from streamer.bridge.session.presence import ClientState, Presence
from streamer.bridge.states import StateError


def test_parked_and_back() -> None:
    """A client that lost its connection is waited for until a time, unless it comes back."""
    client = Presence()
    assert (client.parked, client.due_at) == (False, None)
    client.park(130.0)
    assert (client.parked, client.due_at) == (True, 130.0)
    client.come_back()
    assert (client.parked, client.due_at) == (False, None)
    client.come_back()  # from another connection, while the first one lives
    assert client.state is ClientState.CONNECTED


def test_dismissed() -> None:
    """While the service shuts down a client may come over another connection, and is not waited for."""
    client = Presence()
    client.dismiss()
    client.dismiss()
    client.come_back()
    assert client.state is ClientState.DISMISSED
    with pytest.raises(StateError, match="client to become parked: expected connected, met dismissed"):
        client.park(130.0)


def test_left() -> None:
    """Who has left does not come back, however often that is said."""
    client = Presence()
    client.leave()
    client.leave()
    client.dismiss()
    assert (client.left, client.parked) == (True, False)
    with pytest.raises(StateError, match="client: expected connected or dismissed, met left"):
        client.come_back()
