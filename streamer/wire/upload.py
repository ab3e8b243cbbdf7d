"""The base of all formats of uploaded recordings: options as text, the transcript, and problems with their status.

A format turns a query and the fields of a form into the options of a session. It turns the messages of the session
into an answer: one document at the end, or a server-sent event for each message. Pure.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final

from streamer.transcript import Transcript
from streamer.wire.errors import WireError, bad, quote
from streamer.wire.events import ServerMessage, content
from streamer.wire.native import encode
from streamer.wire.options import Start, read, with_second_pass

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"
EVENTS: Final = "text/event-stream; charset=utf-8"
# Options of a session that make no sense for a recording.
_LIVE_ONLY: Final = ("resume", "live", "context")
SAMPLE_OPTIONS: Final = ("encoding", "sample_rate", "channels")  # for a recording without a header
SESSION_OPTIONS: Final = tuple(each.name for each in fields(Start) if each.name not in _LIVE_ONLY)
_DEFAULTS: Final[dict[str, Any]] = {each.name: each.default for each in fields(Start)}
_WORDS: Final = {"true": True, "1": True, "false": False, "0": False}
_RETRY_S: Final = 5
_LONG_RETRY_S: Final = 60
# The HTTP status for each code of a problem. Any other code is a mistake in the request, with status 400.
_STATUSES: Final = {
    "unauthorized": 401,
    "bad_origin": 403,
    "too_slow": 408,
    "idle": 408,
    "too_large": 413,
    "too_long": 413,
    "unknown_format": 415,
    "no_audio": 422,
    "damaged_audio": 422,
    "too_costly": 422,
    "too_many_sessions": 429,
    "audio_used_up": 429,
    "hotwords_used_up": 429,
    "internal": 500,
    "busy": 503,
    "failed": 503,
    "full": 503,
    "not_ready": 503,
    "shutting_down": 503,
}


@dataclass(frozen=True)
class Problem:
    """The reason why a recording was not transcribed, or not to its end: a word for programs, a sentence for people."""

    code: str
    message: str

    @property
    def status(self) -> int:
        """The HTTP status."""
        return _STATUSES.get(self.code, 400)

    @property
    def retry_s(self) -> int:
        """The number of seconds after which the client may try again; 0 if that does not help."""
        if self.status == 503:
            return _RETRY_S
        return _LONG_RETRY_S if self.status == 429 else 0


@dataclass(frozen=True)
class BareSamples:
    """The format of a body that is bare samples without a header."""

    encoding: str
    sample_rate: int
    channels: int


class UploadFormat(ABC):
    """One upload: it reads the options of the request, and writes the answer."""

    protocol: ClassVar[str]  # its name in metrics

    def __init__(self) -> None:
        self._session_options: dict[str, Any] = {}  # of the session, as the client has set them
        self.transcript = Transcript("")
        self.begun = False  # the session has sent a message

    # What the client asks for

    @abstractmethod
    def query(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Take the options of the query. Raise WireError if one is not valid."""

    @abstractmethod
    def field(self, name: str, value: str, *, late: bool) -> None:
        """Take a field of the form. `late`: it follows the file. Raise WireError if it is not valid, or too late."""

    @abstractmethod
    def settle(self) -> None:
        """Note that no more options can come. Raise WireError if they contradict each other."""

    def look(self, data: bytes) -> None:
        """Look at the next part of the recording before it is decoded. Raise WireError if it is no recording."""
        return

    @property
    @abstractmethod
    def streams(self) -> bool | None:
        """Whether the answer is a stream of events; None if a later field may still decide it."""

    @property
    def separate(self) -> bool:
        """Whether each channel is recognised separately."""
        return bool(self._session_options.get("multichannel", False))

    @property
    def samples(self) -> BareSamples | None:
        """The format of bare samples; None if the recording has a header."""
        if not any(name in self._session_options for name in SAMPLE_OPTIONS):
            return None
        return BareSamples(*(self._session_options.get(name, _DEFAULTS[name]) for name in SAMPLE_OPTIONS))

    def start(self, channels: int) -> str:
        """Return the `start` of the session, for decoded audio with this number of channels."""
        options = {name: value for name, value in self._session_options.items() if name not in SAMPLE_OPTIONS}
        options = {**with_second_pass(options), "channels": channels, "partials": self._wants_partials}
        return encode({"type": "start", **options})

    @property
    def _wants_partials(self) -> bool:
        return bool(self.streams) and bool(self._session_options.get("partials", True))

    # What the client gets

    def add(self, message: ServerMessage) -> None:
        """Add a message to the transcript."""
        self.begun = True
        self.transcript.add({"type": message.type, **content(message)})

    @abstractmethod
    def event(self, message: ServerMessage) -> bytes:
        """Return a message as events; empty if the client has no use for it."""

    @abstractmethod
    def document(self) -> tuple[str, str]:
        """Return the type and the text of the whole answer."""

    @abstractmethod
    def refusal(self, problem: Problem) -> tuple[int, str]:
        """Return the status and the JSON of an answer without a transcript."""

    @abstractmethod
    def last_event(self, problem: Problem | None) -> bytes:
        """Return the last event: the end of the transcript, or the problem."""

    # For the formats

    def take(self, name: str, text: str) -> None:
        """Take an option of the session as text. Raise WireError if it is not valid."""
        value = _value(name, text)
        if name == "hotwords":
            value = [*self._session_options.get(name, []), *value]
        read(Start, "start", {name: value})
        self._session_options[name] = value


def flag(name: str, text: str) -> bool:
    """Read true or false. Raise WireError if the text is neither."""
    if (value := _WORDS.get(text.strip().lower())) is None:
        raise bad("bad_option", f"'{name}' must be true or false, not {quote(text)}.")
    return value


def _value(name: str, text: str) -> Any:
    """Return the value of an option in the type that it has in `start`."""
    default = _DEFAULTS[name]
    if isinstance(default, bool):
        return flag(name, text)
    if isinstance(default, int):
        if not (text.isascii() and text.isdecimal() and len(text) < 10):
            raise bad("bad_option", f"'{name}' must be a whole number, not {quote(text)}.")
        return int(text)
    if name == "hotwords":
        hotwords = _json(name, text) if text.lstrip().startswith("[") else [part.strip() for part in text.split(",")]
        if not isinstance(hotwords, list):
            raise bad("bad_option", f"'{name}' must be a list, not {quote(text)}.")
        return hotwords
    if name == "endpoint" and text.lstrip().startswith("{"):
        return _json(name, text)
    return text


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise bad("bad_option", f"'{name}' is not valid JSON: {quote(text)}.") from None


def problem_of(error: WireError) -> Problem:
    """Return the problem for a request that cannot be understood."""
    return Problem(error.code, error.message)
