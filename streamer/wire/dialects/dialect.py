"""The base of all dialects, the formats of other services over a websocket, and the language that clients name.

A dialect turns a request into the options of a session, or refuses it. It turns the messages of its client into
messages of the native protocol, and the messages of the session into its own. All other code is that of native
sessions. Pure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from streamer.base.codes import ErrorCode
from streamer.base.events import ServerMessage
from streamer.base.json_types import JsonObject
from streamer.base.limits import LANGUAGE
from streamer.base.names import is_english, same_language
from streamer.wire.errors import bad, quote
from streamer.wire.native import encode, parse
from streamer.wire.options import Start, read
from streamer.wire.upload import Problem

FLUSH: Final = encode({"type": "flush"})
KEEPALIVE: Final = encode({"type": "keepalive"})
STOP: Final = encode({"type": "stop"})


@dataclass(frozen=True)
class Opening:
    """The request that opens a websocket, and what the service adds to it."""

    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)  # by name in lower case
    models: Mapping[str, Languages] = field(default_factory=dict)  # the service's models by public name
    request_id: str = ""  # a random UUID
    created: str = ""  # the time of the request, such as 2026-01-31T12:00:00.000Z
    settings: str = ""  # what its key for a short time was made for, as JSON
    path: str = ""


@dataclass(frozen=True)
class Reply:
    """A message of the dialect itself for the client, without the session."""

    text: str


@dataclass(frozen=True)
class Hangup:
    """Closes the websocket at once, without waiting for the session."""

    code: int
    reason: str = ""


@dataclass(frozen=True)
class Aside:
    """Something that happened and is no speech, for the webhook of the session."""

    type: str
    data: JsonObject


# One thing that the service must do: send the session a native message (a string) or audio (bytes), send the client a
# reply, hang up, or pass an aside on. Audio has the encoding of `start`, or is part of a recording in any format if
# `container` is true.
Step = str | bytes | Reply | Hangup | Aside


class Dialect(ABC):
    """One websocket in a foreign format. A WireError from its constructor refuses the request with an HTTP status."""

    protocol: ClassVar[str]  # its name in metrics
    path: ClassVar[str]
    other_paths: ClassVar[tuple[str, ...]] = ()  # perhaps with {places}
    subprotocols: ClassVar[tuple[str, ...]] = ()  # the answer selects the first one that the client offers
    largest_message: ClassVar[int | None] = None  # in bytes; None: as for native messages
    # Calls: the network signs its requests, hangs up when it likes, and listens to nothing.
    telephone: ClassVar[bool] = False

    @abstractmethod
    def __init__(self, opening: Opening) -> None: ...

    @staticmethod
    @abstractmethod
    def refusal(code: ErrorCode, message: str, status: int, request_id: str) -> tuple[int, str]:
        """Return the status and the JSON of a refused request. `status`: the usual one for this code."""

    # What the request asks for

    # True if the websocket stays open after the step STOP, and the next `start` begins another session. Such a dialect
    # also has rest() and fail(). It may find in the first message that there is only one session, or a container: then
    # it changes both fields before its first `start`.
    successive = False
    rest_after_s: float | None = None  # how long its client sends nothing before rest(); None: the usual time
    idle_s: float | None = None  # how long a client may send nothing; None: as long as a native one
    headers: Mapping[str, str] = {}  # further fields of the answer to the handshake
    container = False  # the audio is a recording in any format, which must be decoded first
    separate = False  # the channels of this recording are recognised separately
    slots = 1  # how many streams the session will have, as far as the request says it
    about: Mapping[str, object] = {}  # what a webhook is told of the session besides

    # What the client sends

    def greet(self) -> Iterable[Step]:
        """Begin: the websocket is open."""
        return ()

    @abstractmethod
    def receive(self, message: str | bytes) -> Iterable[Step]:
        """Take a message of the client. The service does each step before it asks for the next one."""

    def opened(self, channels: int) -> Iterable[Step]:
        """Take the number of channels of a container. The decoder has read its header."""
        return ()

    def waiting(self) -> Iterable[Step]:
        """Note that bytes of a container come, but have given no audio for a while."""
        return (KEEPALIVE,)

    def undecodable(self, problem: Problem) -> Iterable[Step]:
        """End the session, because the container cannot be decoded, or not to its end."""
        return (STOP,)

    def rest(self) -> Iterable[Step]:
        """End the session, because the client has sent nothing for a while. For `successive` dialects."""
        return ()

    # What the client gets

    def fail(self, code: ErrorCode, message: str) -> Iterable[str]:
        """Return the reason why the service closes a websocket without a session. For `successive` dialects."""
        return ()

    @abstractmethod
    def tell(self, message: ServerMessage) -> Iterable[str]:
        """Return the messages for a message of the session."""

    @abstractmethod
    def close(self, code: int, reason: str) -> tuple[int, str]:
        """Return the close code and the reason that replace those of the native protocol."""


def start(**options: Any) -> str:
    """Return the `start` of a session. Raise WireError if an option is not valid."""
    text = encode({"type": "start", **options})
    parse(text)
    return text


# Turns the language that a client of another service names into the option of a session.

# The languages of a model, by its own names. Empty: a session cannot choose one. None: the model is not loaded yet.
Languages = tuple[str, ...] | None

# With these names a client says that it does not know the language, or that there are several.
_ANY: Final = (LANGUAGE, "multi")
_ENGLISH: Final = "english"


def session_language(option: str, requested: Iterable[str], languages: Languages) -> str:
    """Return the language for the session: the first of the requested ones that the model has.

    A model without a choice counts as English. Raise WireError, which names the option, if the model has none of them.
    """
    names = [language for language in requested if language.strip()]
    if not names:
        return LANGUAGE
    if languages is not None and not languages:
        if any(is_english(language) or language.lower() in _ANY for language in names):
            return LANGUAGE
        why = f"the recogniser knows only English, not {quote(_one_or_list(names))}"
        raise bad(ErrorCode.BAD_OPTION, f"'{option}' must be en: {why}.")
    if any(language.lower() in _ANY for language in names):
        return LANGUAGE
    if languages is None:
        # The model may have no choice, and then takes no name. If it lacks the language, it refuses the session later.
        if any(map(is_english, names)):
            return LANGUAGE
        return str(read(Start, "start", {"language": names[0]})["language"])
    for language in names:
        if match := same_language("en" if language.lower() == _ENGLISH else language, languages):
            return match
    raise bad(
        ErrorCode.BAD_OPTION, f"'{option}' must be one of {', '.join(languages)}, not {quote(_one_or_list(names))}."
    )


def _one_or_list(names: list[str]) -> object:
    return names[0] if len(names) == 1 else names
