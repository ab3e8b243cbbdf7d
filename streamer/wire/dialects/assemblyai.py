"""AssemblyAI's streaming format, version 3: the websocket `/v3/ws` of voice agents, with turns. Pure.

With `format_turns` a turn of the older models ends twice: as it was spoken, and then with marks and capitals. The newer
ones end it once, with marks. `max_turn_silence` is the longest pause within a turn; the threshold and the mode choose
how eager the recogniser is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from streamer.base.codes import ErrorCode
from streamer.base.events import Done, ServerMessage, Word
from streamer.base.json_types import JsonObject
from streamer.base.limits import EAGERNESS, LANGUAGE, SAMPLE_RATES
from streamer.base.speakers import main_speaker
from streamer.base.text import joined
from streamer.wire.dialects import client_values
from streamer.wire.dialects.dialect import Hangup, Opening, Reply, Step, session_language
from streamer.wire.dialects.turn_by_turn import Cause, SpokenTurn, TurnByTurn, whole_words, within
from streamer.wire.errors import CloseCode, WireError, bad, quote
from streamer.wire.native import close_reason, encode
from streamer.wire.options import hints
from streamer.wire.upload import Problem

PATH: Final = "/v3/ws"
THRESHOLD: Final = "end_of_turn_confidence_threshold"
LONGEST: Final = "max_turn_silence"
FORMAT: Final = "format_turns"
TERMS: Final = "keyterms_prompt"
MESSAGES: Final = ("Terminate", "ForceEndpoint", "KeepAlive", "UpdateConfiguration")
# What the service does with the options of the query: a page shows this, and a test compares both.
OPTIONS: Final = {
    "sample_rate": "8000 to 192000; needed with samples",
    "encoding": "`pcm_s16le`, `pcm_mulaw`; `ogg_opus` and `aac` are containers; single packets (`opus`) are refused",
    "speech_model": "the public name of a model; any other name means `default`. Universal 3 always has marks",
    FORMAT: "with marks and capitals; turns of older models then end twice, as those of the original do",
    THRESHOLD: "how soon a turn ends: up to 0.3 means the eagerness `high`, from 0.7 on `low`, anything else `medium`",
    "mode": "without a threshold: `min_latency` means `high`, `max_accuracy` means `low`",
    LONGEST: "the longest pause within a turn: 400 to 10000, other values mean the nearest of these; 2000 without it",
    TERMS: "hotwords, a list as JSON",
    "language_codes": "a list as JSON: the first of them that the model has; none of them is refused",
    "language_code": "the same, for one",
    "filter_profanity": "English swear words have only their first letter, and asterisks",
    "speaker_labels": "each word has a `speaker` (`A`, `B` …), and so has the turn: the one of most of its words",
    "max_speakers": "ignored: the service finds out how many speak",
    "include_partial_turns": "`false`: only the ends of turns come",
    "inactivity_timeout": "the websocket is closed after so many seconds without a message",
    "redact_pii": "refused: nothing is redacted, and a client that asks for it relies on it",
    "llm_gateway": "refused: the service asks no language model",
    "webhook_url": "refused: the service calls no other one",
}
ENCODINGS: Final = {"pcm_s16le": "pcm_s16le", "pcm_mulaw": "mulaw"}  # by our names
CONTAINED: Final = ("ogg_opus", "aac")
_REFUSED: Final = {name: why.removeprefix("refused: ") for name, why in OPTIONS.items() if why.startswith("refused: ")}
_NEWER: Final = ("u3", "universal-3")
_HIGH_UNTIL: Final = 0.3
_LOW_FROM: Final = 0.7
_MODES: Final = {"min_latency": "high", "max_accuracy": "low"}
_NEVER: Final = "2099-12-31T23:59:59Z"  # the original says when a session must end; here it need not
_IDLE_BOUNDS_S: Final = (5, 3600)
_MISTAKE: Final = 3006
# Closes that the client knows, by what happened and otherwise by the code of the native protocol.
_CLOSES: Final = {
    ErrorCode.IDLE: 4031,
    ErrorCode.NO_START: 4031,
    ErrorCode.SESSION_EXPIRED: 4031,
    ErrorCode.TOO_FAST: 4029,
    ErrorCode.TOO_MANY_SESSIONS: 3009,
    ErrorCode.ENDED_BY_OPERATOR: 3005,
}
_FIRST_SERVICE_FAULT: Final = 500


class AssemblyAI(TurnByTurn):
    """One websocket of a client of AssemblyAI."""

    protocol = "assemblyai"
    path = PATH

    def __init__(self, opening: Opening) -> None:
        query = {name: value for name, value in opening.query if value}
        client_values.refuse(query, _REFUSED)
        self._id = opening.request_id
        self._models = opening.models
        self._model = query.get("speech_model", "")
        self._newer = self._model.lower().startswith(_NEWER)
        self._speakers = client_values.flag("speaker_labels", query.get("speaker_labels", False))
        self._partial_turns = client_values.flag("include_partial_turns", query.get("include_partial_turns", True))
        self._settings: JsonObject = {}
        self._terms: list[str] = []
        self._failure: ErrorCode | None = None
        self._ended = False
        encoding = query.get("encoding", "pcm_s16le")
        if encoding not in (*ENCODINGS, *CONTAINED):
            names = ", ".join((*ENCODINGS, *CONTAINED))
            raise bad(ErrorCode.UNSUPPORTED_AUDIO, f"'encoding' must be one of {names}, not {quote(encoding)}.")
        if encoding in ENCODINGS:
            self.encoding = ENCODINGS[encoding]
            if "sample_rate" not in query:
                raise bad(ErrorCode.BAD_OPTION, f"'sample_rate' is needed with 'encoding' {quote(encoding)}.")
            self.sample_rate = client_values.whole("sample_rate", query["sample_rate"], SAMPLE_RATES)
        if "inactivity_timeout" in query:
            idle_s = client_values.whole("inactivity_timeout", query["inactivity_timeout"], _IDLE_BOUNDS_S)
            # The session of a container has no rest, so its limit is the whole one.
            self.rest_after_s, self.idle_s = idle_s / 2, idle_s if encoding in CONTAINED else idle_s / 2
        super().__init__(Opening(models=opening.models), container=encoding in CONTAINED)
        self._take(query)

    @staticmethod
    def refusal(code: ErrorCode, message: str, status: int, request_id: str) -> tuple[int, str]:
        """Return the status and the JSON of a refused request."""
        return status, encode({"error": message}) + "\n"

    def options(self) -> JsonObject:
        """Return the options of the next session."""
        return {
            "model": self._model,
            "written": self._formatted,
            "profanity": "mask" if self._settings.get("filter_profanity") else "keep",
            "hotwords": hints(self._terms),
            "speakers": self._speakers,
            **({"language": self._settings["language"]} if "language" in self._settings else {}),
            **super().options(),
            "partials": self._partial_turns,
        }

    # What the client sends

    def greet(self) -> Iterator[Step]:
        """Say that the session has begun."""
        yield Reply(self._write("Begin", id=self._id, expires_at=_NEVER))
        yield from super().greet()

    def receive(self, message: str | bytes) -> Iterator[Step]:
        """Take audio or a message of the client. Ignore everything after `Terminate`."""
        if self._ended:
            return
        if isinstance(message, bytes):
            yield from self.hear(message)
            return
        command = client_values.command_of(message) or {}
        kind = command.get("type")
        if kind == "Terminate":
            self._ended = True
            if self.running:
                yield from self.end()
            else:
                yield Reply(self._termination())
            if not self.container:
                yield Hangup(CloseCode.DONE)
        elif kind == "ForceEndpoint":
            yield from self.end_turn()
        elif kind == "UpdateConfiguration":
            yield from self._update(command)
        elif kind == "KeepAlive":
            yield from self.keep()
        else:
            why = f"A text message must be a JSON object whose 'type' is one of {', '.join(MESSAGES)}."
            yield Reply(self._write("Warning", warning_code=_MISTAKE, warning=why))

    # What the client gets

    def tell(self, message: ServerMessage) -> Iterator[str]:
        """Yield the messages for a message of the session."""
        yield from super().tell(message)
        if isinstance(message, Done) and self._ended:
            yield self._termination()

    def begun(self, turn: SpokenTurn) -> Iterator[str]:
        """Yield that somebody speaks, and the first words."""
        yield self._write("SpeechStarted", timestamp=turn.start_ms)
        yield from self.grown(turn)

    def grown(self, turn: SpokenTurn, confidence: float = 0.0) -> Iterator[str]:
        """Yield the text of the turn so far."""
        if self._partial_turns:
            yield self._turn_message(turn, confidence, over=False, formatted=False)

    def paused(self, turn: SpokenTurn, probability: float) -> bool:
        """Return True: the confidence of a turn that is held open says it."""
        return True

    def eager(self, turn: SpokenTurn, probability: float) -> Iterator[str]:
        """Yield how probably the turn is over."""
        yield from self.grown(turn, probability)

    def resumed(self, turn: SpokenTurn, probability: float) -> Iterator[str]:
        """Yield that the turn goes on."""
        yield from self.grown(turn)

    def ended(self, turn: SpokenTurn, cause: Cause, probability: float) -> Iterator[str]:
        """Yield that a turn is over, perhaps twice."""
        if self._formatted and not self._newer:
            yield self._turn_message(turn, probability, over=True, formatted=False, spoken=True)
        yield self._turn_message(turn, probability, over=True, formatted=self._formatted)

    def fail(self, code: ErrorCode, message: str) -> Iterable[str]:
        """Yield the reason for a close. None, if the client should just connect again."""
        self._failure = code
        if Problem(code, message).status < _FIRST_SERVICE_FAULT and code is not ErrorCode.SESSION_EXPIRED:
            yield self._write("Error", error_code=_CLOSES.get(code, _MISTAKE), error=message)

    def close(self, code: int, reason: str) -> tuple[int, str]:
        """Return the close code and the reason that replace those of the native protocol."""
        if self.undecoded:
            return _MISTAKE, close_reason("The audio cannot be decoded.")
        if self._failure in _CLOSES:
            return _CLOSES[self._failure], reason
        if code in (CloseCode.DONE, CloseCode.TOO_LARGE, CloseCode.TRY_LATER):
            return code, reason
        return (3005 if code == CloseCode.FAILED else _MISTAKE), reason

    # Inside

    @property
    def _formatted(self) -> bool:
        return bool(self._settings.get(FORMAT, self._newer))

    def _update(self, command: JsonObject) -> Iterator[Step]:
        before = self.options()
        try:
            if self.container:
                raise bad(ErrorCode.UNSUPPORTED, "With a container, options stay; send samples.")
            self._take({name: value for name, value in command.items() if value is not None})
            self.check()
        except WireError as wrong:
            yield Reply(self._write("Warning", warning_code=_MISTAKE, warning=wrong.message))
            return
        if self.options() != before:
            self.change()

    def _take(self, values: Mapping[str, object]) -> None:
        """Take options, which the query or a message has. Raise WireError if one is not valid; then none counts."""
        settings = dict(self._settings)
        for name in (FORMAT, "filter_profanity"):
            if name in values:
                settings[name] = client_values.flag(name, values[name])
        for name, bounds in ((THRESHOLD, (0.0, 1.0)), (LONGEST, (0.0, 1e6))):
            if name in values:
                settings[name] = client_values.number(name, values[name], bounds)
        if isinstance(mode := values.get("mode"), str):
            settings["mode"] = mode
        codes = [
            code for name in ("language_codes", "language_code") for code in client_values.texts(name, values.get(name))
        ]
        if codes:
            languages = client_values.languages_of(self._model, self._models)
            settings["language"] = session_language("language_codes", codes, languages)
        terms = client_values.texts(TERMS, values[TERMS]) if TERMS in values else self._terms
        self._settings, self._terms = settings, terms
        self.eagerness = _MODES.get(str(settings.get("mode")), EAGERNESS)
        if isinstance(threshold := settings.get(THRESHOLD), float):
            self.eagerness = "high" if threshold <= _HIGH_UNTIL else "low" if threshold >= _LOW_FROM else EAGERNESS
        if isinstance(longest := settings.get(LONGEST), float):
            self.longest_pause_ms = within(longest)

    def _turn_message(
        self, turn: SpokenTurn, confidence: float, *, over: bool, formatted: bool, spoken: bool = False
    ) -> str:
        final = len(turn.words)
        words = [self._word(word, spoken=spoken, final=at < final) for at, word in enumerate(whole_words(turn))]
        language = str(self._settings.get("language", LANGUAGE))
        speaker = main_speaker(word.speaker for word in turn.words)
        return self._write(
            "Turn",
            turn_order=turn.number,
            turn_is_formatted=formatted,
            end_of_turn=over,
            transcript=joined(str(word["text"]) for word in words) if spoken else turn.whole,
            end_of_turn_confidence=confidence,
            words=words,
            **({} if language == LANGUAGE else {"language_code": language}),
            **({"speaker_label": _letter(speaker)} if self._speakers and over else {}),
        )

    def _word(self, word: Word, *, spoken: bool, final: bool) -> JsonObject:
        return {
            "start": word.start_ms,
            "end": word.end_ms,
            "text": (word.spoken or word.word) if spoken else word.word,
            "confidence": word.confidence or 0.0,
            "word_is_final": final,
            **({"speaker": _letter(word.speaker)} if self._speakers and final else {}),
        }

    def _termination(self) -> str:
        heard_s = (max(self.heard_ms, self.sent_ms) + 500) // 1000
        return self._write("Termination", audio_duration_seconds=heard_s, session_duration_seconds=heard_s)

    def _write(self, type: str, **content: object) -> str:
        return encode({"type": type, **content})


def _letter(speaker: int | None) -> str:
    return "UNKNOWN" if speaker is None else chr(ord("A") + speaker)
