"""Structured logs: one line for each event, with its session, as text or as JSON.

    log = Log("streamer.bridge")
    log.info("ended", reason="done", audio_ms=3140)

An event is a few fixed words; everything that varies is in fields. The session's id comes from the context in which a
line is logged, so a call cannot forget it. Never log transcripts, audio, hotwords, keys or tokens.
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
# The session that is served in this context. A task inherits it from the task that started it.
session: Final[ContextVar[str]] = ContextVar("session", default="")

STANDARD_ERROR: Final = 2
_SENTENCES: Final = "streamer.sentences"  # the logger of say()
_LOGGING_ARGUMENTS: Final = ("exc_info", "stack_info", "stacklevel", "extra")
# The characters that need no quotes in the text form, besides letters and digits.
_PLAIN: Final = frozenset("_-.:/+@%,")


_writer: LogWriter | None = None


class Log(_Adapter):
    """A logger that turns keyword arguments into fields of the line."""

    def __init__(self, name: str) -> None:
        super().__init__(logging.getLogger(name), {})

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Turn the keyword arguments into fields, except those of logging itself."""
        fields = {name: kwargs.pop(name) for name in list(kwargs) if name not in _LOGGING_ARGUMENTS}
        kwargs["extra"] = {"fields": fields}
        return msg, kwargs


def say(sentence: object, level: int = logging.INFO) -> None:
    """Log a sentence for the user who started the program, at every log level. In JSON it is a normal line."""
    logging.getLogger(_SENTENCES).log(level, "%s", sentence)


def configure(form: str, level: str) -> None:
    """Send this program's log to standard error in this form; libraries log only warnings and errors."""
    global _writer
    handler = _writer = LogWriter(STANDARD_ERROR)
    handler.setFormatter(Json() if form == "json" else Text())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    # At lower levels, libraries would log what goes over their sockets: audio, transcripts and keys.
    logging.getLogger("streamer").setLevel(level.upper())
    logging.getLogger(_SENTENCES).setLevel(logging.INFO)
    # Otherwise Python would write warnings and unhandled errors to standard error itself, and wait for its reader.
    logging.captureWarnings(True)
    sys.unraisablehook = _log_unraisable
    threading.excepthook = _log_thread_failure


def dropped() -> int:
    """Return the number of log lines that were dropped."""
    return _writer.dropped if _writer else 0


class Text(logging.Formatter):
    """The text form: `2026-01-31T08:00:00.000Z info ended session=9f… reason=done`; a traceback follows it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line, whatever its fields contain."""
        if record.name == _SENTENCES:
            return f"streamer: {record.getMessage()}"
        fields = dict(_fields(record))
        trace = fields.pop("exception", "")
        head = (fields.pop("time"), fields.pop("level"), json.dumps(fields.pop("event"), ensure_ascii=False)[1:-1])
        line = " ".join((*head, *(f"{name}={_word(value)}" for name, value in fields.items())))
        return f"{line}\n{trace}" if trace else line


class Json(logging.Formatter):
    """The JSON form: an object on each line with the same fields, and a traceback as a field."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line."""
        return json.dumps(dict(_fields(record)), ensure_ascii=False, default=str)


def _fields(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    """Yield names and values of all fields of a line: first time, level and event."""
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
    Log("streamer.bridge").error("an error could not be handled", exc_info=failure.exc_value)


def _log_thread_failure(failure: threading.ExceptHookArgs) -> None:
    Log("streamer.bridge").error("a thread failed", exc_info=failure.exc_value)
