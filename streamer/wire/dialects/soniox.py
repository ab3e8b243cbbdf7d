"""Soniox's realtime format, the websocket `/transcribe-websocket`: tokens, and marks at the ends of turns. Pure.

Each word is a token, with the space before it. A message has words that are new and final, and then all words that may
change. With `enable_endpoint_detection` the recogniser ends turns. Otherwise only the client does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from streamer.base.codes import ErrorCode
from streamer.base.events import Done, Flushed, ServerMessage, Word
from streamer.base.json_types import JsonObject
from streamer.base.limits import LANGUAGE, LONGEST_PAUSE_BOUNDS_MS, MOST_CHANNELS, SAMPLE_RATES
from streamer.base.text import separator
from streamer.wire.dialects import client_values
from streamer.wire.dialects.dialect import Hangup, Opening, Reply, Step, session_language
from streamer.wire.dialects.turn_by_turn import Cause, SpokenTurn, TurnByTurn, within
from streamer.wire.errors import CloseCode, WireError, bad, quote
from streamer.wire.native import LONGEST_START, close_reason, encode
from streamer.wire.options import hints
from streamer.wire.upload import Problem

PATH: Final = "/transcribe-websocket"
SAMPLES: Final = ("pcm_s16le", "pcm_f32le", "mulaw", "alaw")
CONTAINERS: Final = ("auto", "aac", "aiff", "amr", "asf", "flac", "mp3", "ogg", "wav", "webm")
# What the service does with the fields of the first message: a page shows this, and a test compares both.
CONFIG: Final = {
    "model": "the public name of a model; any other name means `default`",
    "audio_format": "`pcm_s16le`, `pcm_f32le`, `mulaw`, `alaw`; `auto` (as without it), or the name of a container",
    "sample_rate": "8000 to 192000; needed with samples",
    "num_channels": "1 to 8 with samples, which are mixed; 1 without it",
    "language_hints": "the first of them that the model has; none of them is no reason for a refusal",
    "context": "the `terms` of it are hotwords",
    "enable_endpoint_detection": "the recogniser ends turns, each with `<end>`",
    "max_endpoint_delay_ms": "the longest pause within a turn: 400 to 10000, other values mean the nearest of these",
    "enable_speaker_diarization": "each final token has a `speaker` (`1`, `2` …)",
    "enable_language_identification": "each token has the `language` of the session, if it is certain",
    "translation": "refused: nothing is translated, and a client that asks for it relies on it",
}
_REFUSED: Final = {"translation": CONFIG["translation"].removeprefix("refused: ")}
_USED_UP: Final = 402
_TIMED_OUT: Final = 408
_STATUSES: Final = {
    ErrorCode.AUDIO_USED_UP: _USED_UP,
    ErrorCode.IDLE: _TIMED_OUT,
    ErrorCode.NO_START: _TIMED_OUT,
    ErrorCode.SESSION_EXPIRED: _TIMED_OUT,
}


class Soniox(TurnByTurn):
    """One websocket of a client of Soniox."""

    protocol = "soniox"
    path = PATH
    subprotocols = ("soniox-api-key",)

    def __init__(self, opening: Opening) -> None:
        self._config: JsonObject | None = None  # None before the first message
        self._session: JsonObject = {}  # the options that it asks for
        self._told = 0  # words of the turn that the client has as final ones
        self._text = ""  # the last final token
        self._final_ms = 0  # its end
        self._ended = False
        super().__init__(opening)

    @staticmethod
    def refusal(code: ErrorCode, message: str, status: int, request_id: str) -> tuple[int, str]:
        """Return the status and the JSON of a refused request."""
        return status, encode({"tokens": [], "error_code": status, "error_message": message}) + "\n"

    def options(self) -> JsonObject:
        """Return the options of the next session."""
        turns = super().options()
        if not self._on("enable_endpoint_detection"):
            turns |= {"turns": False, "endpoint": {}}
        return {**self._session, **turns}

    # What the client sends

    def receive(self, message: str | bytes) -> Iterator[Step]:
        """Take the first message, then audio, commands and the end. A mistake ends the session."""
        if self._ended:
            return
        try:
            if self._config is None:
                yield from self._begin_session(message)
            elif not message:
                yield from self._finish()
            elif isinstance(message, bytes):
                yield from self.hear(message)
            else:
                yield from self._command(message)
        except WireError as wrong:
            self._ended = True
            yield from map(Reply, self.fail(wrong.code, wrong.message))
            yield Hangup(CloseCode.REFUSED, close_reason(wrong.message))

    def undecodable(self, problem: Problem) -> Iterator[Step]:
        """End the session."""
        for step in super().undecodable(problem):
            if self.undecoded:
                yield from map(Reply, self.fail(problem.code, problem.message))
            yield step

    # What the client gets

    def tell(self, message: ServerMessage) -> Iterator[str]:
        """Yield the messages for a message of the session."""
        again = self.again
        yield from super().tell(message)
        if isinstance(message, Flushed) and not again:
            yield self._write([self._mark("<fin>")])
        elif isinstance(message, Done) and self._ended and not self.undecoded:
            yield self._write([], finished=True)

    def begun(self, turn: SpokenTurn) -> Iterator[str]:
        """Yield the first words of a turn."""
        self._told = 0
        yield from self.grown(turn)

    def grown(self, turn: SpokenTurn) -> Iterator[str]:
        """Yield what is new, and what may change."""
        yield self._write([*self._settled(turn), *self._tokens(turn.guesses, final=False)])

    def ended(self, turn: SpokenTurn, cause: Cause, probability: float) -> Iterator[str]:
        """Yield the rest of a turn, and perhaps that it is over."""
        over = cause is not Cause.CLIENT and bool(self._on("enable_endpoint_detection"))
        yield self._write([*self._settled(turn), *([self._mark("<end>")] if over else [])])
        self._told = 0

    def fail(self, code: ErrorCode, message: str) -> Iterable[str]:
        """Yield the reason for a close."""
        status = _STATUSES.get(code, Problem(code, message).status)
        yield encode({"tokens": [], "error_code": status, "error_message": message})

    def close(self, code: int, reason: str) -> tuple[int, str]:
        """Return the close code and the reason that replace those of the native protocol."""
        return (CloseCode.REFUSED, "The audio cannot be decoded.") if self.undecoded else super().close(code, reason)

    # Inside

    def _on(self, name: str) -> bool:
        return client_values.flag(name, (self._config or {}).get(name))

    def _begin_session(self, message: str | bytes) -> Iterator[Step]:
        config = client_values.command_of(message, LONGEST_START) if isinstance(message, str) else None
        if config is None:
            raise bad(ErrorCode.BAD_MESSAGE, "The first message must be a JSON object with 'model' and 'audio_format'.")
        client_values.refuse(config, _REFUSED)
        self._config = config
        container = self._take_audio(config)
        model = str(config.get("model") or "")
        if model in self._models:
            self._session["model"] = model
        language = _language(config, client_values.languages_of(model, self._models))
        if language != LANGUAGE:
            self._session["language"] = language
        if terms := hints(_terms(config.get("context"))):
            self._session["hotwords"] = terms
        if self._on("enable_speaker_diarization"):
            self._session["speakers"] = True
        if (delay := config.get("max_endpoint_delay_ms")) is not None:
            self.longest_pause_ms = within(client_values.number("max_endpoint_delay_ms", delay, (0, 1e6)))
        elif not self._on("enable_endpoint_detection"):
            self.longest_pause_ms = LONGEST_PAUSE_BOUNDS_MS[1]
        self._on("enable_language_identification")
        self.check()
        if container:
            yield from self.begin_container()

    def _take_audio(self, config: JsonObject) -> bool:
        """Take the form of the audio. Return whether it is in a container."""
        format = config.get("audio_format") or "auto"
        if format in CONTAINERS:
            return True
        if format not in SAMPLES:
            right = ", ".join((*SAMPLES, *CONTAINERS))
            raise bad(ErrorCode.UNSUPPORTED_AUDIO, f"'audio_format' must be one of {right}, not {quote(format)}.")
        self.encoding = str(format)
        self.sample_rate = client_values.whole("sample_rate", config.get("sample_rate"), SAMPLE_RATES)
        self.channels = client_values.whole("num_channels", config.get("num_channels") or 1, (1, MOST_CHANNELS))
        if self.channels > 1:
            self._session["channels"] = self.channels
        return False

    def _command(self, text: str) -> Iterator[Step]:
        kind = (client_values.command_of(text) or {}).get("type")
        if kind == "finalize" and self.running:
            yield from self.end_turn()
        elif kind == "finalize":
            yield Reply(self._write([self._mark("<fin>")]))
        elif kind == "keepalive":
            yield from self.keep()
        else:
            why = "A text message must be a JSON object whose 'type' is finalize or keepalive."
            raise bad(ErrorCode.BAD_MESSAGE, why)

    def _finish(self) -> Iterator[Step]:
        self._ended = True
        if not self.running:
            yield Reply(self._write([], finished=True))
        yield from self.end()
        if not self.container:
            yield Hangup(CloseCode.DONE)

    def _settled(self, turn: SpokenTurn) -> Iterator[JsonObject]:
        """Yield the tokens that have become final."""
        new, self._told = turn.words[self._told :], len(turn.words)
        yield from self._tokens(new, final=True)
        if new:
            self._text, self._final_ms = new[-1].word, new[-1].end_ms

    def _tokens(self, words: Iterable[Word], *, final: bool) -> Iterator[JsonObject]:
        language = self._session.get("language")
        before = self._text
        for word in words:
            yield {
                "text": separator(before, word.word) + word.word,
                "start_ms": word.start_ms,
                "end_ms": word.end_ms,
                "confidence": word.confidence or 0.0,
                "is_final": final,
                **({} if word.speaker is None else {"speaker": str(word.speaker + 1)}),
                **({"language": language} if language and self._on("enable_language_identification") else {}),
            }
            before = word.word

    def _mark(self, text: str) -> JsonObject:
        return {"text": text, "is_final": True, "start_ms": self._final_ms, "end_ms": self._final_ms, "confidence": 1.0}

    def _write(self, tokens: list[JsonObject], **more: object) -> str:
        final_ms = self.heard_ms if self.turn is None else self._final_ms
        times = {"final_audio_proc_ms": final_ms, "total_audio_proc_ms": self.heard_ms}
        return encode({"tokens": tokens, **times, **more})


def _language(config: JsonObject, languages: tuple[str, ...] | None) -> str:
    for hint in client_values.texts("language_hints", config.get("language_hints")):
        try:
            return session_language("language_hints", [hint], languages)
        except WireError:
            continue
    return LANGUAGE


def _terms(context: object) -> list[object]:
    terms = context.get("terms") if isinstance(context, dict) else None
    return list(terms) if isinstance(terms, list) else []
