"""Whether a session's client is there: connected, parked for a while, or gone for good. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from streamer.bridge.states import States


class ClientState(Enum):
    """Where the session's client is."""

    CONNECTED = "connected"
    PARKED = "parked"  # it lost its connection, and may come back
    DISMISSED = "dismissed"  # connected; when that connection is lost, nobody waits for it
    LEFT = "left"  # nobody comes back


TRANSITIONS: Mapping[ClientState, tuple[ClientState, ...]] = {
    ClientState.CONNECTED: (ClientState.PARKED, ClientState.DISMISSED, ClientState.LEFT),
    ClientState.PARKED: (ClientState.CONNECTED, ClientState.LEFT),
    ClientState.DISMISSED: (ClientState.LEFT,),
    ClientState.LEFT: (),
}


class Presence:
    """The client of one session. The only place that knows whether it is parked."""

    def __init__(self) -> None:
        self._states = States("client", ClientState.CONNECTED, TRANSITIONS)
        self._until = 0.0  # how long it is waited for while it is parked

    @property
    def state(self) -> ClientState:
        """Where the client is."""
        return self._states.now

    @property
    def parked(self) -> bool:
        """Whether nobody is connected, but somebody may come back."""
        return self._states.now is ClientState.PARKED

    @property
    def left(self) -> bool:
        """Whether nobody comes back."""
        return self._states.now is ClientState.LEFT

    @property
    def due_at(self) -> float | None:
        """When a client that is parked is not waited for any longer."""
        return self._until if self.parked else None

    def park(self, until: float) -> None:
        """The connection is lost; the client may come back for so long."""
        self._states.become(ClientState.PARKED)
        self._until = until

    def come_back(self) -> None:
        """The client has another connection, in the place of one that was lost or not."""
        if self.parked:
            self._states.become(ClientState.CONNECTED)
        else:
            self._states.expect(ClientState.CONNECTED, ClientState.DISMISSED)

    def dismiss(self) -> None:
        """When its connection is lost now, it is not waited for."""
        if self._states.now is ClientState.CONNECTED:
            self._states.become(ClientState.DISMISSED)

    def leave(self) -> None:
        """It is gone, however often that is said."""
        if not self.left:
            self._states.become(ClientState.LEFT)
