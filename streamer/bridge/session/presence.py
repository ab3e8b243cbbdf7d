"""The client of a session: connected, parked (its connection is lost, and it may return), or gone. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from streamer.bridge.states import States


class ClientState(Enum):
    """Whether the session's client is connected."""

    CONNECTED = "connected"
    PARKED = "parked"  # it lost its connection, and may return
    DISMISSED = "dismissed"  # connected, but it may not return if the connection is lost
    LEFT = "left"  # it cannot return


TRANSITIONS: Mapping[ClientState, tuple[ClientState, ...]] = {
    ClientState.CONNECTED: (ClientState.PARKED, ClientState.DISMISSED, ClientState.LEFT),
    ClientState.PARKED: (ClientState.CONNECTED, ClientState.LEFT),
    ClientState.DISMISSED: (ClientState.LEFT,),
    ClientState.LEFT: (),
}


class Presence:
    """The client of one session. Only this class knows whether it is parked."""

    def __init__(self) -> None:
        self._states = States("client", ClientState.CONNECTED, TRANSITIONS)
        self._until = 0.0  # a parked client may return before this time

    @property
    def state(self) -> ClientState:
        """The state of the client."""
        return self._states.now

    @property
    def parked(self) -> bool:
        """Whether the client lost its connection and may return."""
        return self._states.now is ClientState.PARKED

    @property
    def gone(self) -> bool:
        """Whether the client is gone and cannot return."""
        return self._states.now is ClientState.LEFT

    @property
    def due_at(self) -> float | None:
        """The end of the time in which a parked client may return."""
        return self._until if self.parked else None

    def park(self, until: float) -> None:
        """Note that the connection is lost. The client may return before this time."""
        self._states.become(ClientState.PARKED)
        self._until = until

    def come_back(self) -> None:
        """Note that the client has a new connection. The old one may not be lost yet."""
        if self.parked:
            self._states.become(ClientState.CONNECTED)
        else:
            self._states.expect(ClientState.CONNECTED, ClientState.DISMISSED)

    def dismiss(self) -> None:
        """Note that the session ends if the connection is lost from now on."""
        if self._states.now is ClientState.CONNECTED:
            self._states.become(ClientState.DISMISSED)

    def leave(self) -> None:
        """Note that the client is gone. This may be called again."""
        if not self.gone:
            self._states.become(ClientState.LEFT)
