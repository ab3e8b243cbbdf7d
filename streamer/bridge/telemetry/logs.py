"""Structured logs: one line for each event, with its session, as text or as JSON; and unexpected failures.

    log = Log("streamer.bridge")
    log.info("ended", reason="done", audio_ms=3140)

An event is a few fixed words; everything that varies is in fields. The session's id comes from the context in which a
line is logged, so a call cannot forget it. Never log transcripts, audio, hotwords, keys or tokens.
"""

from __future__ import annotations

import json
import logging
import os
import select
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, MutableMapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from streamer.base.text import as_sentence, json_text, printable_lines

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
_worker = 0


class Log(_Adapter):
    """A logger that turns keyword arguments into fields of the line."""

    def __init__(self, name: str) -> None:
        super().__init__(logging.getLogger(name), {})

    def process(self, msg: Any, kwargs: MutableMapping[str, object]) -> tuple[Any, MutableMapping[str, object]]:
        """Turn the keyword arguments into fields, except those of logging itself, and `key` if there are no keys."""
        fields = {name: kwargs.pop(name) for name in list(kwargs) if name not in _LOGGING_ARGUMENTS}
        if fields.get("key") == "":
            del fields["key"]
        kwargs["extra"] = {"fields": fields}
        return msg, kwargs


def say(sentence: object, level: int = logging.INFO) -> None:
    """Log a sentence for the user who started the program, at every log level. In JSON it is a normal line."""
    logging.getLogger(_SENTENCES).log(level, "%s", sentence)


def fail(reason: object) -> int:
    """Say why the program ends, and return its exit status."""
    say(as_sentence(reason), logging.ERROR)
    return 1


def configure(form: str, level: str, worker: int = 0) -> None:
    """Send this program's log to standard error in this form; libraries log only warnings and errors.

    `worker`: the number of this process, if several of them write to the same place.
    """
    global _worker, _writer
    _worker = worker
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
        head = (fields.pop("time"), fields.pop("level"), json_text(fields.pop("event"))[1:-1])
        line = " ".join((*head, *(f"{name}={_word(value)}" for name, value in fields.items())))
        return f"{line}\n{trace}" if trace else line


class Json(logging.Formatter):
    """The JSON form: an object on each line with the same fields, and a traceback as a field."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line."""
        return json_text(dict(_fields(record)), default=str)


def _fields(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    """Yield names and values of all fields of a line: first time, level and event."""
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    yield "time", f"{seconds}.{int(record.msecs):03d}Z"
    yield "level", record.levelname.lower()
    yield "event", record.getMessage()
    if number := session.get():
        yield "session", number
    if _worker:
        yield "worker", _worker
    if not record.name.startswith("streamer"):
        yield "logger", record.name
    yield from getattr(record, "fields", {}).items()
    if record.exc_info and record.exc_info[0] is not None:
        yield "exception", logging.Formatter().formatException(record.exc_info)


def _word(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    plain = text and all(letter.isalnum() or letter in _PLAIN for letter in text)
    return text if plain else json_text(text)


def _log_unraisable(failure: sys.UnraisableHookArgs) -> None:
    Log("streamer.bridge").error("an error could not be handled", exc_info=failure.exc_value)


def _log_thread_failure(failure: threading.ExceptHookArgs) -> None:
    Log("streamer.bridge").error("a thread failed", exc_info=failure.exc_value)


# Writes log lines to a descriptor in a thread, so that logging never waits for the reader of the log.

MOST_WAITING: Final = 1 << 20  # bytes
# The longest wait of flush(), which is called at the end of the program.
FLUSH_LIMIT_S: Final = 1.0
_TRY_AGAIN_MS: Final = 1000


class LogWriter(logging.Handler):
    """Writes to a descriptor, and never closes it."""

    def __init__(self, descriptor: int, most: int = MOST_WAITING) -> None:
        """`most`: how many bytes may wait at a time."""
        super().__init__()
        self.dropped = 0
        self._descriptor = descriptor
        self._most = most
        self._lines: deque[tuple[bytes, int]] = deque()  # each with the number of dropped lines that it reports
        self._waiting = 0  # bytes, including the line that is being written
        self._missing = 0  # lines that were dropped since the last report
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a line. This waits at most for another thread that queues one."""
        try:
            line = self._line(record)
        except Exception:
            self.handleError(record)
            return
        with self._changed:
            if self._waiting + len(line) > self._most:
                self._drop()
                return
            self._report_missing()
            self._add(line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait until all lines are written, but at most FLUSH_LIMIT_S."""
        deadline = time.monotonic() + FLUSH_LIMIT_S
        with self._changed:
            while self._waiting and (remaining := deadline - time.monotonic()) > 0:
                self._changed.wait(remaining)

    def _line(self, record: logging.LogRecord) -> bytes:
        # A name in a sentence, or the text of an error, may be of a stranger.
        return f"{printable_lines(self.format(record))}\n".encode(errors="backslashreplace")

    def _add(self, line: bytes, reports: int = 0) -> None:
        self._lines.append((line, reports))
        self._waiting += len(line)

    def _drop(self, reports: int = 0) -> None:
        self.dropped += not reports
        self._missing += reports or 1

    def _report_missing(self) -> None:
        """Queue a line that reports the dropped lines, if there are any."""
        if self._missing:
            missing, self._missing = self._missing, 0
            fields = {"lines": missing}
            name, event = "streamer.bridge", "log lines dropped: they could not be written in time"
            record = logging.makeLogRecord(
                {"name": name, "levelno": logging.WARNING, "levelname": "WARNING", "msg": event, "fields": fields}
            )
            self._add(self._line(record), missing)

    def _write_all(self) -> None:
        works = True
        while True:
            with self._changed:
                while not self._lines:
                    if self._missing and works:  # otherwise the next line tries again
                        self._report_missing()
                    else:
                        self._changed.wait()
                line, reports = self._lines.popleft()
            works = self._write(line)
            with self._changed:
                self._waiting -= len(line)
                if not works:
                    self._drop(reports)
                self._changed.notify_all()

    def _write(self, line: bytes) -> bool:
        while line:
            try:
                line = line[os.write(self._descriptor, line) :]
            except BlockingIOError:  # another process that shares the descriptor has made it non-blocking
                poll = select.poll()
                poll.register(self._descriptor, select.POLLOUT)
                poll.poll(_TRY_AGAIN_MS)
            except OSError:  # the reader has gone, or the disk is full
                return False
        return True


# Unexpected failures inside the service: they are counted, and logged with their traceback.

log = Log("streamer.bridge")

# The same failure is logged at most once in this time, because a client may cause it a thousand times.
AGAIN_S = 60.0
_MOST_KINDS = 256


class Failures:
    """The failures of one part of the service. Two are the same if they were raised at the same line."""

    def __init__(self, count: Callable[[], None]) -> None:
        self._count = count
        self._kinds: dict[tuple[str, str, int | None], tuple[float, int]] = {}  # when logged, and how often since then

    def report(self, event: str, error: BaseException, **fields: Any) -> None:
        """Count a failure, and log it with this `event` and these `fields`."""
        self._count()
        frames = traceback.extract_tb(error.__traceback__)
        last = frames[-1] if frames else None
        kind = (type(error).__name__, last.filename if last else event, last.lineno if last else None)
        now = time.monotonic()
        logged_at, repeats = self._kinds.get(kind, (None, 0))
        if logged_at is not None and now - logged_at < AGAIN_S:
            self._kinds[kind] = logged_at, repeats + 1
            return
        if len(self._kinds) >= _MOST_KINDS:
            self._kinds.clear()
        self._kinds[kind] = now, 0
        if repeats:
            fields["unsaid"] = repeats
        log.error(event, exc_info=error, **fields)
