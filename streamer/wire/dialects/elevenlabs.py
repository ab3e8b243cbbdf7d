"""ElevenLabs' realtime format, the websocket `/v1/speech-to-text/realtime`: a client or a pause commits text.

With `commit_strategy=manual` all text since the last commit waits for the next one. With `vad` each segment is
committed when it ends, and the client may commit too. Every commit is answered, also if nothing was said. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

from streamer.base.codes import ErrorCode
from streamer.base.events import Done, Error, Flushed, Partial, ServerMessage, Word
from streamer.base.events import Final as FinalMessage
from streamer.base.json_types import JsonObject
from streamer.base.limits import AFTER_TEXT_BOUNDS_MS, LANGUAGE, LARGEST_MESSAGE, SAMPLE_RATES
from streamer.base.text import separator
from streamer.wire.dialects import client_values
from streamer.wire.dialects.audio_first import AudioFirst
from streamer.wire.dialects.dialect import FLUSH, Hangup, Opening, Reply, Step, session_language
from streamer.wire.errors import CloseCode, WireError, bad, quote
from streamer.wire.native import close_reason, encode
from streamer.wire.options import hints

PATH: Final = "/v1/speech-to-text/realtime"
CHUNK: Final = "input_audio_chunk"
MANUAL: Final = "manual"
VAD: Final = "vad"
SILENCE: Final = "vad_silence_threshold_secs"
# What the service does with the options of the query: a page shows this, and a test compares both.
OPTIONS: Final = {
    "model_id": "the public name of a model; any other name means `default`",
    "audio_format": "`pcm_` and a rate from 8000 to 192000, or `ulaw_8000`; `pcm_16000` without it",
    "commit_strategy": "`manual`, which is the usual one, or `vad`",
    SILENCE: "with `vad`, the silence that ends a segment: 0.4 to 10, otherwise the nearest of these; 1.5 without it",
    "language_code": "what is spoken; what the model lacks is refused",
    "secondary_languages": "the first of them that the model has, without a `language_code`; otherwise ignored",
    "keyterms": "a hotword",
    "include_timestamps": "each commit comes a second time, with the times of its words",
    "include_language_detection": "the same. The language is the one of the session, if it is certain",
    "entity_redaction": "refused: nothing is redacted, and a client that asks for it relies on it",
}
_REFUSED: Final = {"entity_redaction": OPTIONS["entity_redaction"].removeprefix("refused: ")}
_USUAL_SILENCE_S: Final = 1.5
# Text that waits for longer is committed by itself, as by the original: it comes again with each change.
MOST_WAITING: Final = 5000  # characters
_ERRORS: Final = {
    ErrorCode.FULL: "resource_exhausted",
    ErrorCode.BUSY: "resource_exhausted",
    ErrorCode.TOO_MANY_SESSIONS: "rate_limited",
    ErrorCode.AUDIO_USED_UP: "quota_exceeded",
    ErrorCode.HOTWORDS_USED_UP: "quota_exceeded",
    ErrorCode.TOO_FAST: "queue_overflow",
    ErrorCode.SESSION_EXPIRED: "session_time_limit_exceeded",
    ErrorCode.ENDED_BY_OPERATOR: "session_time_limit_exceeded",
    ErrorCode.IDLE: "insufficient_audio_activity",
    ErrorCode.BAD_OPTION: "invalid_request",
}
_OTHER_ERROR: Final = "transcriber_error"
_LEAST: Final = 1e-6  # a confidence of 0 has no logarithm


class ElevenLabs(AudioFirst):
    """One websocket of a client of ElevenLabs."""

    protocol = "elevenlabs"
    path = PATH
    largest_message = LARGEST_MESSAGE * 4 // 3 + 64 * 1024  # that much audio in base64
    written = True

    def __init__(self, opening: Opening) -> None:
        query = {name: value for name, value in opening.query if value}
        client_values.refuse(query, _REFUSED)
        self._id = opening.request_id
        self._model = query.get("model_id", "")
        self._format = query.get("audio_format", "pcm_16000")
        self.encoding, self.sample_rate = _samples(self._format)
        self._strategy = query.get("commit_strategy", MANUAL)
        if self._strategy not in (MANUAL, VAD):
            why = f"'commit_strategy' must be {MANUAL} or {VAD}, not {quote(self._strategy)}."
            raise bad(ErrorCode.BAD_OPTION, why)
        silence_s = client_values.number(SILENCE, query.get(SILENCE, _USUAL_SILENCE_S), (0, 1e6))
        low, high = AFTER_TEXT_BOUNDS_MS
        self._silence_ms = round(min(max(1000 * silence_s, low), high))
        twice = [
            client_values.flag(name, query.get(name)) for name in ("include_timestamps", "include_language_detection")
        ]
        self._twice = any(twice)
        self._terms = [value for name, value in opening.query if name.removesuffix("[]") == "keyterms"]
        languages = client_values.languages_of(self._model, opening.models)
        second = [value for name, value in opening.query if name.removesuffix("[]") == "secondary_languages"]
        self._language = session_language("language_code", [query.get("language_code", "")], languages)
        if self._language == LANGUAGE and languages and not query.get("language_code"):
            known = [name for name in second if name in languages]
            self._language = session_language("secondary_languages", known, languages)
        # What the client is told about the language: the one that it named, or the only one.
        self._told = "en" if languages is not None and not languages else self._language
        self._text = ""  # of finals that wait for a commit
        self._words: list[Word] = []  # of these finals
        self._commits = 0  # of the client, without an answer
        self._answered = False  # a segment was the answer to the first of them
        super().__init__(opening)

    @staticmethod
    def refusal(code: ErrorCode, message: str, status: int, request_id: str) -> tuple[int, str]:
        """Return the status and the JSON of a refused request."""
        return status, encode({"detail": {"status": code, "message": message}}) + "\n"

    def options(self) -> JsonObject:
        """Return the options of the next session."""
        endpoint = {"after_text_ms": self._silence_ms} if self._strategy == VAD else {}
        return {
            "model": self._model,
            "language": self._language,
            "hotwords": hints(self._terms),
            "speech": False,
            "endpoint": endpoint,
        }

    # What the client sends

    def greet(self) -> Iterator[Step]:
        """Say that the session has begun, and with which options."""
        config = {
            "sample_rate": self.sample_rate,
            "audio_format": self._format,
            "commit_strategy": self._strategy,
            SILENCE: self._silence_ms / 1000,
            "model_id": self._model or "default",
            "include_timestamps": self._twice,
            **({} if self._told == LANGUAGE else {"language_code": self._told}),
        }
        yield Reply(_write("session_started", session_id=self._id, config=config))

    def receive(self, message: str | bytes) -> Iterator[Step]:
        """Take audio, and perhaps a commit. Anything else gets a warning."""
        command = client_values.command_of(message, self.largest_message) if isinstance(message, str) else None
        if command is None or command.get("message_type") != CHUNK:
            why = f"A message must be a JSON object whose 'message_type' is {CHUNK}, with 'audio_base_64'."
            yield Reply(_write("warning", warning=why))
            return
        try:
            audio = client_values.samples("audio_base_64", command.get("audio_base_64") or "")
        except WireError as wrong:
            yield Reply(_write("input_error", error=wrong.message))
            yield Hangup(CloseCode.REFUSED, close_reason(wrong.message))
            return
        yield from self.hear(audio)
        if command.get("commit") is not True:
            yield from () if audio else self.keep()
        elif self.running:
            self._commits += 1
            yield FLUSH
        else:
            yield from map(Reply, self._commit())

    # What the client gets

    def tell(self, message: ServerMessage) -> Iterator[str]:
        """Yield text that may change, and what is committed."""
        if isinstance(message, Partial):
            if message.text:
                yield self._partial(self._joined(message.text))
        elif isinstance(message, FinalMessage):
            self._text = self._joined(message.text)
            self._words += map(self.moved, message.words or ())
            if self._strategy == VAD or len(self._text) > MOST_WAITING:
                self._answered = self._commits > 0
                yield from self._commit()
        elif isinstance(message, Flushed):
            yield from self._flushed()
        elif isinstance(message, Done):
            # The client has only paused. What it did not commit waits for the next session.
            while self._commits:
                yield from self._flushed()
        elif isinstance(message, Error) and message.fatal:
            # The client may have sent a commit, perhaps one that is not read yet. It would take text that is committed
            # now for all that it said before, and stop listening.
            if self._text:
                yield self._partial(self._text)
            yield self._error(message.code, message.message)

    def fail(self, code: ErrorCode, message: str) -> Iterable[str]:
        """Yield what waits for a commit, and the reason for a close."""
        if self._text:
            yield from self._commit()
        yield self._error(code, message)

    # Inside

    @staticmethod
    def _error(code: ErrorCode, message: str) -> str:
        return _write(_ERRORS.get(code, _OTHER_ERROR), error=message)

    @staticmethod
    def _partial(text: str) -> str:
        """Return the message with text that is not committed."""
        return _write("partial_transcript", text=text)

    def _joined(self, text: str) -> str:
        return self._text + separator(self._text, text) + text

    def _flushed(self) -> Iterator[str]:
        """Yield the answer to a commit of the client, unless a segment was it."""
        if self._commits and (self._text or not self._answered):
            yield from self._commit()
        self._commits, self._answered = max(0, self._commits - 1), False

    def _commit(self) -> Iterator[str]:
        """Yield the answer to a commit, perhaps twice."""
        text, words = self._text, self._words
        self._text, self._words = "", []
        yield _write("committed_transcript", text=text)
        if self._twice:
            language = {} if self._told == LANGUAGE else {"language_code": self._told}
            yield _write("committed_transcript_with_timestamps", text=text, **language, words=list(self._timed(words)))

    def _timed(self, words: Iterable[Word]) -> Iterator[JsonObject]:
        """Yield words, and the spaces between them."""
        before, end_ms = "", 0
        for word in words:
            start_ms = word.start_ms
            if space := separator(before, word.word):
                yield {"text": space, "start": end_ms / 1000, "end": start_ms / 1000, "type": "spacing", "logprob": 0.0}
            before, end_ms = word.word, word.end_ms
            yield {
                "text": word.word,
                "start": start_ms / 1000,
                "end": word.end_ms / 1000,
                "type": "word",
                "logprob": round(math.log(max(_LEAST, word.confidence or 0.0)), 4),
                **({} if word.speaker is None else {"speaker_id": f"speaker_{word.speaker}"}),
            }


def _samples(format: str) -> tuple[str, int]:
    """Return the encoding and the rate that a client means."""
    if format == "ulaw_8000":
        return "mulaw", 8000
    kind, _, rate = format.partition("_")
    low, high = SAMPLE_RATES
    if kind == "pcm" and rate.isdecimal() and len(rate) < 7 and low <= int(rate) <= high:
        return "pcm_s16le", int(rate)
    right = f"pcm_ and a rate from {low} to {high}, such as pcm_16000, or ulaw_8000"
    raise bad(ErrorCode.UNSUPPORTED_AUDIO, f"'audio_format' must be {right}, not {quote(format)}.")


def _write(message_type: str, **content: object) -> str:
    return encode({"message_type": message_type, **content})
