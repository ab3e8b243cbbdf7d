"""The format of WhisperLive: a list of the last segments after each change, of which the last may still change. Pure.

The client says that it has sent everything only when it leaves. Until then it waits for the last words without sending
anything, so a short silence of the client ends a session.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from streamer.base.codes import ErrorCode
from streamer.base.events import Error, Partial, ServerMessage, Word
from streamer.base.events import Final as FinalMessage
from streamer.base.json_types import JsonObject
from streamer.base.text import is_unicode
from streamer.wire.dialects.audio_first import AudioFirst
from streamer.wire.dialects.dialect import Hangup, Opening, Reply, Step
from streamer.wire.errors import CloseCode, WireError, bad, quote
from streamer.wire.native import close_reason, encode
from streamer.wire.options import hints
from streamer.wire.upload import Problem

PATH: Final = "/whisperlive"
END: Final = b"END_OF_AUDIO"
# Clients keep segments that are completed only from this kind of server.
BACKEND: Final = "faster_whisper"
# The encodings by their names in the first message. Bytes become samples of 16 bits.
FORMATS: Final = {"float32": "pcm_f32le", "int16": "pcm_s16le", "uint8": "pcm_s16le"}
# What the service does with the options of the first message: a page shows this, and a test compares both.
OPTIONS: Final = {
    "uid": "comes back in every message; needed, at most 200 characters",
    "language": "what is spoken; null: the model decides. What the model lacks is refused",
    "task": "`transcribe`; `translate` is refused",
    "model": "the public name of a model; any other name means `default`",
    "hotwords": "words to listen for, with commas in between",
    "send_last_n_segments": "how many finals come again with each message, 1 to 100; 10 without it",
    "word_timestamps": "`words` in completed segments",
    "audio_format": "`float32`, `int16` or `uint8`, at 16 kHz; any other is refused",
    "enable_translation": "a warning: there is no translation",
    "enable_diarization": "a warning: the service does not tell speakers apart",
}
_LONGEST_UID: Final = 200
_MOST_SEGMENTS: Final = 100
_USUAL_SEGMENTS: Final = 10
_WARNINGS: Final = {
    "enable_translation": "Nothing is translated here: the words come as they are spoken.",
    "enable_diarization": "Speakers are not told apart here.",
}
_WAIT: Final = (ErrorCode.FULL, ErrorCode.BUSY, ErrorCode.TOO_MANY_SESSIONS)
_FIRST_SERVICE_FAULT: Final = 500


class WhisperLive(AudioFirst):
    """One websocket of a client of WhisperLive."""

    protocol = "whisperlive"
    path = PATH
    subprotocols = ("bearer",)
    rest_after_s = 5.0  # the client leaves after 15 s without new text
    encoding = "pcm_f32le"
    written = True

    def __init__(self, opening: Opening) -> None:
        self._config: dict[str, object] = {}  # options of all sessions
        self._uid: str | None = None  # None before the first message
        self._words = False
        self._segments: deque[JsonObject] = deque(maxlen=_USUAL_SEGMENTS)
        self._ended = False
        super().__init__(opening)

    def options(self) -> JsonObject:
        """Return the options of the next session."""
        return self._config

    # What the client sends

    def receive(self, message: str | bytes) -> Iterator[Step]:
        """Take the options, then audio and its end. Other texts are ignored."""
        if self._ended:
            return
        if self._uid is None:
            yield from self._greet(message)
        elif message == END:
            self._ended = True
            yield from self.end()
            yield Hangup(CloseCode.DONE)
        elif isinstance(message, bytes):
            yield from self.hear(message)

    # What the client gets

    def tell(self, message: ServerMessage) -> Iterable[str]:
        """Yield the last segments after each change."""
        if isinstance(message, Partial):
            if message.text:
                end_ms = max(message.start_ms, message.audio_ms)
                yield self._list([self._segment(message.text, message.start_ms, end_ms, completed=False)])
        elif isinstance(message, FinalMessage):
            segment = self._segment(message.text, message.start_ms, message.end_ms, completed=True)
            if self._words:
                segment["words"] = [self._word(word) for word in message.words or ()]
            self._segments.append(segment)
            yield self._list([])
        elif isinstance(message, Error) and message.fatal:
            yield from self.fail(message.code, message.message)

    def fail(self, code: ErrorCode, message: str) -> Iterable[str]:
        """Yield the reason for a close. None, if the client should just connect again."""
        problem = Problem(code, message)
        if code in _WAIT:
            yield self._write(status="WAIT", message=(problem.retry_s or 0) / 60)
        elif code in (ErrorCode.SESSION_EXPIRED, ErrorCode.ENDED_BY_OPERATOR):
            yield self._write(message="DISCONNECT")
        elif problem.status < _FIRST_SERVICE_FAULT:
            yield self._write(status="ERROR", message=message)

    # Inside

    def _greet(self, message: str | bytes) -> Iterator[Step]:
        """Take the first message, and answer that the service is ready."""
        try:
            asked = _first(message)
            self._uid = str(asked["uid"])
        except WireError as wrong:
            yield Hangup(CloseCode.REFUSED, close_reason(wrong.message))
            return
        try:
            self._take(asked)
        except WireError as wrong:
            yield Reply(self._write(status="ERROR", message=wrong.message))
            yield Hangup(CloseCode.REFUSED, close_reason(wrong.message))
            return
        yield from (Reply(self._write(status="WARNING", message=_WARNINGS[n])) for n in _WARNINGS if asked.get(n))
        yield Reply(self._write(message="SERVER_READY", backend=BACKEND))

    def _take(self, asked: JsonObject) -> None:
        if asked.get("task") == "translate":
            raise bad(ErrorCode.UNSUPPORTED, "'task' must be transcribe: this service does not translate.")
        format = asked.get("audio_format") or "float32"
        if not isinstance(format, str) or format not in FORMATS:
            names = ", ".join(FORMATS)
            raise bad(ErrorCode.UNSUPPORTED_AUDIO, f"'audio_format' must be one of {names}, not {quote(format)}.")
        self.encoding, self.width = FORMATS[format], 1 if format == "uint8" else None
        self._words = bool(asked.get("word_timestamps"))
        most = asked.get("send_last_n_segments")
        if type(most) is int:
            self._segments = deque(maxlen=min(max(1, most), _MOST_SEGMENTS))
        for name in ("language", "model"):
            if isinstance(value := asked.get(name), str) and value and (name != "model" or value in self._models):
                self._config[name] = value
        if isinstance(hotwords := asked.get("hotwords"), str):
            self._config["hotwords"] = hints(part.strip() for part in hotwords.split(","))
        self.check()

    def _segment(self, text: str, start_ms: int, end_ms: int, *, completed: bool) -> JsonObject:
        return {"start": self._time(start_ms), "end": self._time(end_ms), "text": f" {text}", "completed": completed}

    def _word(self, word: Word) -> JsonObject:
        times = {"start": self._time(word.start_ms), "end": self._time(word.end_ms)}
        return {"word": f" {word.word}", **times, "probability": word.confidence or 0.0}

    def _time(self, at_ms: int) -> str:
        return f"{(self.base_ms + at_ms) / 1000:.3f}"

    def _list(self, unfinished: list[JsonObject]) -> str:
        return self._write(segments=[*self._segments, *unfinished])

    def _write(self, **content: object) -> str:
        return encode({"uid": self._uid, **content})


def _first(message: str | bytes) -> JsonObject:
    """Read the first message of a client. Raise WireError if it has no `uid`."""
    try:
        content = json.loads(message) if isinstance(message, str) else None
    except (ValueError, RecursionError):
        content = None
    uid = content.get("uid") if isinstance(content, dict) else None
    named = isinstance(uid, str) and len(uid) <= _LONGEST_UID and is_unicode(uid)
    if not isinstance(content, dict) or not named:
        raise bad(ErrorCode.BAD_MESSAGE, "The first message must be a JSON object with a 'uid' of 1 to 200 characters.")
    return content
