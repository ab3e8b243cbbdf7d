"""The service's own format of uploaded recordings: `POST /v1/transcribe`. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from streamer.base.codes import ErrorCode
from streamer.base.events import (
    Acknowledgement,
    Done,
    HeadEvent,
    Ready,
    ServerMessage,
    SpeakerMerge,
    Speakers,
    Speech,
    content,
)
from streamer.base.events import Error as ErrorMessage
from streamer.base.events import Final as FinalMessage
from streamer.base.text import either, json_text
from streamer.base.transcript import event_line, json_content
from streamer.wire.errors import bad, quote
from streamer.wire.upload import JSON, SESSION_OPTIONS, TEXT, Problem, UploadFormat, flag

PATH: Final = "/v1/transcribe"
FORMATS: Final = {
    "json": JSON,
    "text": TEXT,
    "srt": "application/x-subrip; charset=utf-8",
    "vtt": "text/vtt; charset=utf-8",
    "jsonl": "application/jsonl; charset=utf-8",
}
OPTIONS: Final = ("format", "stream", *SESSION_OPTIONS)


class NativeUpload(UploadFormat):
    """An upload in the service's own format. Options, finals and words are those of the native protocol."""

    protocol = "http"

    def __init__(self) -> None:
        super().__init__()
        self._format: str | None = None
        self._stream: bool | None = None
        self._lines: list[str] = []

    def query(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Take the options of the query. Raise WireError if one is not valid."""
        for name, value in pairs:
            if name != "key":  # the service has already checked it
                self._take(name, value)

    def field(self, name: str, value: str, *, late: bool) -> None:
        """Take a field of the form. Raise WireError if it is not valid, or comes too late."""
        if late and name != "format":
            raise bad(
                ErrorCode.LATE_OPTION, f"The field {quote(name)} came after the file: send it before, or in the query."
            )
        self._take(name, value)

    def settle(self) -> None:
        """Note that no more options can come. Nothing depends on that here."""

    @property
    def streams(self) -> bool | None:
        """Whether the answer is a stream of events. This is certain before the file comes."""
        return bool(self._stream)

    def add(self, message: ServerMessage) -> None:
        """Add a message to the transcript and to the lines of jsonl."""
        super().add(message)
        if isinstance(message, (FinalMessage, Speech, HeadEvent, SpeakerMerge, Speakers, Done)):
            self._lines.append(event_line({"type": message.type, **content(message)}))

    def event(self, message: ServerMessage) -> bytes:
        """Write a message as an event with its type and its JSON."""
        if isinstance(message, Acknowledgement):
            return b": heard\n\n"  # keeps the connection alive
        if isinstance(message, (ErrorMessage, Done)):
            return b""
        values = content(message)
        if isinstance(message, Ready):  # over HTTP a session cannot be resumed
            values = {name: values[name] for name in ("session", "model", "triton_model")}
        return _event(message.type, values)

    def document(self) -> tuple[str, str]:
        """Return the type and the text of the whole answer."""
        format = self._format or "json"
        if format == "jsonl":
            return FORMATS[format], "".join(self._lines)
        if format != "json":
            return FORMATS[format], self.transcript.render(format)
        # A recording that came over HTTP has no name.
        answer = {name: value for name, value in json_content(self.transcript).items() if name != "file"}
        return JSON, json_text(answer) + "\n"

    def refusal(self, problem: Problem) -> tuple[int, str]:
        """Return the status and the JSON of an answer without a transcript."""
        message = problem.message
        if problem.code is ErrorCode.DAMAGED_AUDIO and self.transcript.text:
            message += " With ?stream=true the words up to there are sent."
        return problem.status, json.dumps({"error": {"code": problem.code, "message": message}}) + "\n"

    def last_event(self, problem: Problem | None) -> bytes:
        """Return the last event."""
        if problem is None:
            return _event("done", {"audio_ms": self.transcript.duration_ms})
        return _event("error", {"code": problem.code, "message": problem.message})

    def _take(self, name: str, value: str) -> None:
        if name == "format":
            if value not in FORMATS:
                raise bad(ErrorCode.BAD_OPTION, f"'format' must be {either(FORMATS)}, not {quote(value)}.")
            self._format = value
        elif name == "stream":
            self._stream = flag(name, value)
        elif name in SESSION_OPTIONS:
            self.take(name, value)
        else:
            raise bad(
                ErrorCode.UNKNOWN_OPTION, f"There is no option {quote(name)}; the options are {', '.join(OPTIONS)}."
            )
        if self._stream and self._format not in (None, "json"):
            raise bad(ErrorCode.BAD_OPTION, "Events are always JSON: leave out 'format', or 'stream'.")


def _event(kind: str, values: dict[str, object]) -> bytes:
    text = json_text({"type": kind, **values}, separators=(",", ":"))
    return f"event: {kind}\ndata: {text}\n\n".encode("utf-8", "replace")
