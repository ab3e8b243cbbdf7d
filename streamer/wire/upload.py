"""The base of all formats of uploaded recordings: options as text, forms in pieces, the transcript, and problems.

A format turns a query and the fields of a form into the options of a session. It turns the messages of the session
into an answer: one document at the end, or a server-sent event for each message. Pure.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final, Protocol

from streamer.base.codes import ErrorCode
from streamer.base.events import ServerMessage, content
from streamer.base.option_kinds import Flag, FlagOr, FlagOrWhole
from streamer.base.options import OPTIONS
from streamer.base.transcript import Transcript
from streamer.wire.errors import WireError, bad, quote
from streamer.wire.native import encode
from streamer.wire.options import Start, read, with_second_pass

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"
EVENTS: Final = "text/event-stream; charset=utf-8"
_JSON_TYPE: Final = "json"  # a part of the content types of JSON
SAMPLE_OPTIONS: Final = ("encoding", "sample_rate", "channels")  # for a recording without a header
SESSION_OPTIONS: Final = tuple(each.name for each in OPTIONS.values() if each.recordings)
_LISTS: Final = ("hotwords", "speaker_names")  # as text: JSON, or parts with commas in between
_WORDS: Final = {"true": True, "1": True, "false": False, "0": False}
_RETRY_S: Final = 5
_LONG_RETRY_S: Final = 60
# The HTTP status for each code of a problem. Any other code is a mistake in the request, with status 400.
_STATUSES: Final[Mapping[ErrorCode, int]] = {
    ErrorCode.UNAUTHORIZED: 401,
    ErrorCode.BAD_ORIGIN: 403,
    ErrorCode.ENDED_BY_OPERATOR: 403,  # clients repeat a request after 408, 409, 429 and 5xx
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.TOO_SLOW: 408,
    ErrorCode.IDLE: 408,
    ErrorCode.TOO_LARGE: 413,
    ErrorCode.TOO_LONG: 413,
    ErrorCode.UNKNOWN_FORMAT: 415,
    ErrorCode.NO_AUDIO: 422,
    ErrorCode.DAMAGED_AUDIO: 422,
    ErrorCode.TOO_COSTLY: 422,
    ErrorCode.TOO_MANY_SESSIONS: 429,
    ErrorCode.AUDIO_USED_UP: 429,
    ErrorCode.HOTWORDS_USED_UP: 429,
    ErrorCode.INTERNAL: 500,
    ErrorCode.BUSY: 503,
    ErrorCode.FAILED: 503,
    ErrorCode.FULL: 503,
    ErrorCode.NOT_READY: 503,
    ErrorCode.SHUTTING_DOWN: 503,
}


@dataclass(frozen=True)
class Problem:
    """The reason why a recording was not transcribed, or not to its end: a word for programs, a sentence for people."""

    code: ErrorCode
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

    def reader(self, content_type: str, beginning: bytes) -> BodyReader | None:
        """Return the reader of a body with this beginning. None: the body is the recording itself."""
        return FormReader(content_type) if is_form(content_type) else None

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
        return BareSamples(*(self._session_options.get(name, OPTIONS[name].default) for name in SAMPLE_OPTIONS))

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

    def is_json(self, content_type: str, beginning: bytes) -> bool:
        """Return whether a body is JSON. No recording begins like it, but bare samples may do."""
        named = _JSON_TYPE in content_type.lower()
        return beginning.lstrip()[:1] == b"{" and (named or self.samples is None)

    def take(self, name: str, text: str) -> None:
        """Take an option of the session as text. Raise WireError if it is not valid."""
        value = option_of_text(name, text)
        if name == "hotwords":
            value = [*self._session_options.get(name, []), *value]
        read(Start, "start", {name: value})
        self._session_options[name] = value
        if name == "speaker_names":
            self.transcript.speaker_names = value


def flag(name: str, text: str) -> bool:
    """Read true or false. Raise WireError if the text is neither."""
    if (value := _WORDS.get(text.strip().lower())) is None:
        raise bad(ErrorCode.BAD_OPTION, f"'{name}' must be true or false, not {quote(text)}.")
    return value


def option_of_text(name: str, text: str) -> Any:
    """Return the value of an option in the type that it has in `start`. Raise WireError if it has another one."""
    declared = OPTIONS[name].kind
    if isinstance(declared, Flag):
        return flag(name, text)
    if isinstance(declared, FlagOr):
        word = text.strip().lower()
        value = word if word in declared.words else _WORDS.get(word)
        if value is None:
            raise bad(ErrorCode.BAD_OPTION, f"'{name}' must be {declared.right}, not {quote(text)}.")
        return value
    kind = declared.type
    if isinstance(declared, FlagOrWhole) and (truth := _WORDS.get(text.strip().lower())) is not None:
        return truth
    if kind is int or isinstance(declared, FlagOrWhole):
        if not (text.isascii() and text.isdecimal() and len(text) < 10):
            raise bad(ErrorCode.BAD_OPTION, f"'{name}' must be a whole number, not {quote(text)}.")
        return int(text)
    if name in _LISTS:
        entries = _json(name, text) if text.lstrip().startswith("[") else [part.strip() for part in text.split(",")]
        if not isinstance(entries, list):
            raise bad(ErrorCode.BAD_OPTION, f"'{name}' must be a list, not {quote(text)}.")
        return entries
    if name == "endpoint" and text.lstrip().startswith("{"):
        return _json(name, text)
    return text


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise bad(ErrorCode.BAD_OPTION, f"'{name}' is not valid JSON: {quote(text)}.") from None


def problem_of(error: WireError) -> Problem:
    """Return the problem for a request that cannot be understood."""
    return Problem(error.code, error.message)


# Reads a form with a file (multipart/form-data) piece by piece. Fields come out whole, the file in pieces.

MOST_PARTS: Final = 300  # a form may have a part for each hotword
LONGEST_FIELDS: Final = 64 * 1024  # bytes of all fields together, without the file
_LONGEST_HEAD: Final = 8 * 1024  # of one part
_LONGEST_BOUNDARY: Final = 70
_BOUNDARY: Final = re.compile(r'boundary=(?:"([^"]+)"|([^\s;"]+))', re.IGNORECASE)
_PARAMETER: Final = re.compile(r';\s*([\w*-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;]+))')
FORM: Final = "multipart/form-data"


@dataclass(frozen=True)
class Field:
    """One field with its value."""

    name: str
    value: str


@dataclass(frozen=True)
class Address:
    """The address of a recording, which the service must fetch."""

    text: str


class _State(Enum):
    PREAMBLE = "preamble"  # before the first boundary
    BOUNDARY = "boundary"  # what follows a boundary
    HEAD = "head"  # of a part
    CONTENT = "content"
    OVER = "over"


def is_form(content_type: str) -> bool:
    """Return whether a body with this content type is a form."""
    return content_type.partition(";")[0].strip().lower() == FORM


class BodyReader(Protocol):
    """Finds a recording in a body that has more than it."""

    has_file: bool  # the recording has begun

    def feed(self, data: bytes) -> Iterator[Field | bytes]:
        """Take bytes of the body, and yield complete fields and bytes of the recording. Raise WireError if invalid."""

    def finish(self) -> Iterable[Field | Address]:
        """Return the last fields, and what must be fetched. Raise WireError if the body has no recording."""


class FormReader:
    """A reader that takes the bytes of a form, and yields its fields and the bytes of the part `file`."""

    def __init__(self, content_type: str) -> None:
        """Take the content type of the form. Raise WireError if it names no boundary."""
        match = _BOUNDARY.search(content_type)
        boundary = (match.group(1) or match.group(2)) if match else ""
        if not 1 <= len(boundary) <= _LONGEST_BOUNDARY or not boundary.isascii():
            raise _invalid("its type names no boundary")
        self._mark = b"\r\n--" + boundary.encode()
        self._buffer = bytearray(b"\r\n")  # so that a boundary at the very beginning counts too
        self._state = _State.PREAMBLE
        self._name = ""
        self._is_file = False
        self._value = bytearray()
        self._parts = 0
        self._field_bytes = 0  # of all fields together
        self.has_file = False  # a part `file` has begun

    @property
    def over(self) -> bool:
        """True when the last boundary has come."""
        return self._state is _State.OVER

    def feed(self, data: bytes) -> Iterator[Field | bytes]:
        """Take bytes, and yield complete fields and bytes of the file. Raise WireError if this is not a form."""
        self._buffer += data
        while True:
            before = self._state, len(self._buffer)
            if self._state is _State.OVER:
                self._buffer.clear()  # whatever follows is no part of the form
                return
            if self._state is _State.BOUNDARY:
                self._read_boundary()
            elif self._state is _State.HEAD:
                self._read_head()
            else:
                yield from self._read_content()
            if before == (self._state, len(self._buffer)):
                return

    def finish(self) -> Iterable[Field]:
        """Check that the form is complete and has a file. Raise WireError if not."""
        if not self.over:
            raise _invalid("it ends before its last boundary")
        if not self.has_file:
            raise bad(ErrorCode.BAD_FORM, "The form has no part with the name 'file': send the recording in one.")
        return ()

    def _read_boundary(self) -> None:
        if self._buffer.startswith(b"--"):
            self._state = _State.OVER
            return
        end = self._buffer.find(b"\r\n")
        if end < 0 and len(self._buffer) < _LONGEST_HEAD:
            return
        if end < 0 or self._buffer[:end].strip(b" \t"):
            raise _invalid("a boundary is not alone on its line")
        del self._buffer[: end + 2]
        self._state = _State.HEAD

    def _read_head(self) -> None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0 or end > _LONGEST_HEAD:
            if len(self._buffer) > _LONGEST_HEAD:
                raise _invalid(f"the head of a part is longer than {_LONGEST_HEAD} bytes")
            return
        self._name = _name_of(bytes(self._buffer[:end]).decode("utf-8", "replace"))
        del self._buffer[: end + 4]
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise _invalid(f"it has more than {MOST_PARTS} parts")
        self._is_file = self._name == "file"
        if self._is_file and self.has_file:
            raise bad(
                ErrorCode.BAD_FORM, "The form has two parts with the name 'file': send one recording in a request."
            )
        self.has_file = self.has_file or self._is_file
        self._value.clear()
        self._state = _State.CONTENT

    def _read_content(self) -> Iterator[Field | bytes]:
        """Yield everything up to the next boundary. Bytes that may be the beginning of a boundary wait for more."""
        end = self._buffer.find(self._mark)
        last = end if end >= 0 else max(0, len(self._buffer) - len(self._mark) + 1)
        content = bytes(self._buffer[:last])
        del self._buffer[: end + len(self._mark) if end >= 0 else last]
        state, self._state = self._state, _State.BOUNDARY if end >= 0 else self._state
        if state is _State.PREAMBLE:
            return
        if self._is_file:
            if content:
                yield content
            return
        self._field_bytes += len(content)
        if self._field_bytes > LONGEST_FIELDS:
            raise _invalid(f"its fields have more than {LONGEST_FIELDS} bytes together")
        self._value += content
        if end >= 0:
            yield Field(self._name, self._value.decode("utf-8", "replace"))


def _name_of(head: str) -> str:
    """Return the name of the part that has this head."""
    for line in head.split("\r\n"):
        title, _, value = line.partition(":")
        if title.strip().lower() == "content-disposition":
            for name, quoted, plain in _PARAMETER.findall(value):
                if name.lower() == "name":
                    return re.sub(r"\\(.)", r"\1", quoted) or str(plain)
    raise _invalid("a part has no name")


def _invalid(fault: str) -> WireError:
    return bad(ErrorCode.BAD_FORM, f"The body is not a valid form ({FORM}): {fault}.")
