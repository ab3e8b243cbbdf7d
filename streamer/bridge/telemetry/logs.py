"""Structured logs: one line an event, with the session that it belongs to, as text or as JSON.

    log = Log("streamer.bridge")
    log.info("ended", reason="done", audio_ms=3140)

An event is a few fixed words, what differs stands in fields. The session's id is taken from the context in which a line
is written, so no call site can forget it. Transcripts, audio, hot words, keys and tokens do not belong here.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Iterator, MutableMapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from streamer.bridge.telemetry.log_writer import LogWriter

if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter

FORMATS: Final = ("text", "json")
LEVELS: Final = ("debug", "info", "warning", "error")
# The session that is served in this context. A task takes it over from whoever started it.
session: Final[ContextVar[str]] = ContextVar("session", default="")

STANDARD_ERROR: Final = 2
_SAID: Final = "streamer.said"
_LOGGING_ITSELF: Final = ("exc_info", "stack_info", "stacklevel", "extra")
# What needs no quotes in the text form, besides letters and digits.
_PLAIN: Final = frozenset("_-.:/+@%,")


_writer: LogWriter | None = None


class Log(_Adapter):
    """A logger whose keywords become fields of the line."""

    def __init__(self, name: str) -> None:
        super().__init__(logging.getLogger(name), {})

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Puts the keywords that logging does not know aside as fields."""
        fields = {name: kwargs.pop(name) for name in list(kwargs) if name not in _LOGGING_ITSELF}
        kwargs["extra"] = {"fields": fields}
        return msg, kwargs


def say(sentence: object, level: int = logging.INFO) -> None:
    """A sentence for whoever started the program, at every log level; in JSON it is a line like the others."""
    logging.getLogger(_SAID).log(level, "%s", sentence)


def configure(form: str, level: str) -> None:
    """Sends what this program logs to standard error in that form; of libraries only what is wrong."""
    global _writer
    handler = _writer = LogWriter(STANDARD_ERROR)
    handler.setFormatter(Json() if form == "json" else Text())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    # Libraries would tell at lower levels what goes over their sockets: audio, transcripts and keys.
    logging.getLogger("streamer").setLevel(level.upper())
    logging.getLogger(_SAID).setLevel(logging.INFO)
    # Python would write these to standard error itself, and wait there.
    logging.captureWarnings(True)
    sys.unraisablehook = _log_unraisable
    threading.excepthook = _log_of_thread


def dropped() -> int:
    """How many lines nobody took."""
    return _writer.dropped if _writer else 0


class Text(logging.Formatter):
    """`2026-01-31T08:00:00.000Z info ended session=9f… reason=done`, and a traceback in lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever is in the fields."""
        if record.name == _SAID:
            return f"streamer: {record.getMessage()}"
        fields = dict(_fields(record))
        trace = fields.pop("exception", "")
        head = (fields.pop("time"), fields.pop("level"), json.dumps(fields.pop("event"), ensure_ascii=False)[1:-1])
        line = " ".join((*head, *(f"{name}={_word(value)}" for name, value in fields.items())))
        return f"{line}\n{trace}" if trace else line


class Json(logging.Formatter):
    """The same fields as one JSON object a line, a traceback among them."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        return json.dumps(dict(_fields(record)), ensure_ascii=False, default=str)


def _fields(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    """Name and value of everything in a line; time, level and event come first."""
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    yield "time", f"{seconds}.{int(record.msecs):03d}Z"
    yield "level", record.levelname.lower()
    yield "event", record.getMessage()
    if number := session.get():
        yield "session", number
    if not record.name.startswith("streamer"):
        yield "logger", record.name
    yield from getattr(record, "fields", {}).items()
    if record.exc_info and record.exc_info[0] is not None:
        yield "exception", logging.Formatter().formatException(record.exc_info)


def _word(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    plain = text and all(letter.isalnum() or letter in _PLAIN for letter in text)
    return text if plain else json.dumps(text, ensure_ascii=False)


def _log_unraisable(failure: sys.UnraisableHookArgs) -> None:
    Log("streamer.bridge").error("an error that nobody could handle", exc_info=failure.exc_value)


def _log_of_thread(failure: threading.ExceptHookArgs) -> None:
    Log("streamer.bridge").error("a thread failed", exc_info=failure.exc_value)
