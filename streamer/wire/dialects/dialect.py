"""What all dialects have in common. A dialect is the format of another service over a websocket.

It turns a request into the options of a session or into a refusal, what its client sends into messages of the native
protocol, and the messages of the session into its own. Everything else is the same code as for native sessions. Pure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from streamer.wire.dialects.spoken_language import Languages
from streamer.wire.events import ServerMessage
from streamer.wire.native import encode, parse
from streamer.wire.upload import Problem

FLUSH: Final = encode({"type": "flush"})
KEEPALIVE: Final = encode({"type": "keepalive"})
STOP: Final = encode({"type": "stop"})


@dataclass(frozen=True)
class Opening:
    """The request that opens a websocket, and what the service adds to it."""

    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)  # by names in small letters
    models: Mapping[str, Languages] = field(default_factory=dict)  # the service's models by public name
    request_id: str = ""  # a random UUID
    created: str = ""  # the time of the request, as 2026-01-31T12:00:00.000Z


@dataclass(frozen=True)
class Reply:
    """A message for the client that the session does not know about."""

    text: str


@dataclass(frozen=True)
class Hangup:
    """Closes the websocket at once, without waiting for the session."""

    code: int
    reason: str = ""


# What is to be done, one after another: a native message for the session (a string), audio, a reply, or the end.
# Audio is in the encoding of `start`. If `container` is true, it is the next part of a recording in any format.
Step = str | bytes | Reply | Hangup


class Dialect(ABC):
    """One websocket in a foreign format. WireError when it is made refuses the request with an HTTP status."""

    protocol: ClassVar[str]  # its name in metrics
    subprotocols: ClassVar[tuple[str, ...]] = ()  # the answer selects the first one that the client offers
    largest_message: ClassVar[int | None] = None  # bytes, if it is not that of native messages
    idle_s: ClassVar[float | None] = None  # how long a client may send nothing, if that is shorter than usual
    # Whether a step STOP does not end the websocket: the next `start` begins another session behind it. Such a dialect
    # also has rest() and fail().
    successive: ClassVar[bool] = False

    @abstractmethod
    def __init__(self, opening: Opening) -> None: ...

    @staticmethod
    @abstractmethod
    def refusal(code: str, message: str, status: int, request_id: str) -> tuple[int, str]:
        """Return the status and the JSON of a refused request. `status`: the usual one for this code."""

    # What the request asks for

    headers: Mapping[str, str] = {}  # further fields of the answer to the handshake
    container = False  # the audio is a recording in any format, which must be decoded first
    separate = False  # the channels of this recording are recognised separately
    slots = 1  # how many streams the session will have, as far as that is known

    # What the client sends

    def greet(self) -> Iterable[Step]:
        """Begin: the websocket is open."""
        return ()

    @abstractmethod
    def receive(self, message: str | bytes) -> Iterable[Step]:
        """Take a message of the client. Steps that are made one by one are also done one by one."""

    def opened(self, channels: int) -> Iterable[Step]:
        """Take the number of streams of a container; the decoder has read its header."""
        return ()

    def waiting(self) -> Iterable[Step]:
        """Note that audio came, but that nothing of its container was decoded for a while."""
        return (KEEPALIVE,)

    def undecodable(self, problem: Problem) -> Iterable[Step]:
        """End, because a container cannot be decoded, or not any further."""
        return (STOP,)

    def rest(self) -> Iterable[Step]:
        """End the session, because the client has sent nothing for a while. Only if it is `successive`."""
        return ()

    # What the client gets

    def fail(self, code: str, message: str) -> Iterable[str]:
        """Say why the service closes the websocket while it has no session. Only if the dialect is `successive`."""
        return ()

    @abstractmethod
    def tell(self, message: ServerMessage) -> Iterable[str]:
        """Write a message of the session."""

    @abstractmethod
    def close(self, code: int, reason: str) -> tuple[int, str]:
        """Return the code and the reason of the close for those of the native protocol."""


def start(**options: Any) -> str:
    """Write the `start` of the session. WireError if an option is not valid."""
    text = encode({"type": "start", **options})
    parse(text)
    return text
