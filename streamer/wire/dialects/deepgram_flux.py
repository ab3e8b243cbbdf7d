"""Deepgram's Flux, the websocket `/v2/listen` of voice agents: turns instead of results. Pure.

The thresholds of Flux are probabilities of its own model. Here they choose how eager the recogniser is to end a turn.
They may change while somebody speaks: the next turn has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from streamer.base.codes import ErrorCode
from streamer.base.events import Word
from streamer.base.json_types import JsonObject
from streamer.base.limits import LANGUAGE, LONGEST_PAUSE_MS
from streamer.wire.dialects.client_values import command_of, number, part, texts
from streamer.wire.dialects.deepgram import NO_CONFIDENCE, UNDECODABLE, DeepgramLive, seconds
from streamer.wire.dialects.deepgram_options import DeepgramOptions
from streamer.wire.dialects.dialect import Hangup, Languages, Opening, Reply, Step, session_language
from streamer.wire.dialects.turn_by_turn import Cause, SpokenTurn, TurnByTurn, whole_words, within
from streamer.wire.errors import CloseCode, WireError, bad
from streamer.wire.native import encode
from streamer.wire.options import hints
from streamer.wire.upload import Problem

PATH: Final = "/v2/listen"
EOT: Final = "eot_threshold"
EAGER: Final = "eager_eot_threshold"
TIMEOUT: Final = "eot_timeout_ms"
MESSAGES: Final = ("ForceEndTurn", "Configure", "CloseStream")
# What the service does with the options of the query: a page shows this, and a test compares both.
OPTIONS: Final = {
    "model": "the public name of a model of the service; any other name means `default`",
    "encoding": "`linear16`, `linear32`, `mulaw`, `alaw`; none, `opus` or `ogg-opus`: a container",
    "sample_rate": "8000 to 192000; needed with samples that have no container",
    EOT: "how soon a turn ends: up to 0.6 means the eagerness `high`, from 0.8 on `low`, anything else `medium`",
    EAGER: "`EagerEndOfTurn` from this probability on, at least 0.5; without it there are no such events",
    TIMEOUT: "the longest pause within a turn: 400 to 10000, other values mean the nearest of these; 2000 without it",
    "keyterm": "a hotword",
    "language_hint": "the first of them that the model has; none of them is no reason for a refusal",
    "profanity_filter": "English swear words have only their first letter, and asterisks",
    "numerals": "ignored: text always has figures, marks and capitals",
    "redact": "refused: nothing is redacted, and a client that asks for it relies on it",
    "tag": "ignored: it only labels a request",
    "mip_opt_out": "ignored: nothing is kept in any case",
}
_BOUNDS: Final = {EOT: (0.0, 1.0), EAGER: (0.0, 1.0), TIMEOUT: (0.0, 1e6)}
_HIGH_UNTIL: Final = 0.6
_LOW_FROM: Final = 0.8
_USUAL_EOT: Final = 0.7
_UNPARSABLE: Final = "UNPARSABLE_CLIENT_MESSAGE"
_TRIGGERS: Final = {Cause.WORDS: "model", Cause.PAUSE: "timeout", Cause.CLIENT: "manual"}
# From this status on, the service is at fault, and another connection may help.
_FIRST_SERVICE_FAULT: Final = 500
_Thresholds = dict[str, float]


class DeepgramFlux(TurnByTurn):
    """One websocket of a client of Flux. With audio in a container it has one session, whose options cannot change."""

    protocol = "deepgram_flux"
    path = PATH
    subprotocols = DeepgramLive.subprotocols

    def __init__(self, opening: Opening) -> None:
        query = dict(opening.query)
        options = self._deepgram = DeepgramOptions(opening.query, opening.models)
        self._request_id = opening.request_id
        self.headers = {"dg-request-id": opening.request_id}
        self._sequence = 0
        self._thresholds = _read({name: query[name] for name in _BOUNDS if query.get(name)})
        self._keyterms: list[str] = list(options.keyterms)
        named = [value for name, value in opening.query if name == "language_hint"]
        self._hints = named
        self._language = _hinted(named, opening.models, options)
        self._stopped = False
        if options.samples is not None:
            if options.samples.channels != 1:
                raise bad(ErrorCode.UNSUPPORTED_AUDIO, "Flux takes one channel; leave 'channels' out.")
            self.encoding, self.sample_rate = options.samples.encoding, options.samples.sample_rate
        super().__init__(Opening(models=opening.models), container=options.samples is None)
        self._apply()

    @staticmethod
    def refusal(code: ErrorCode, message: str, status: int, request_id: str) -> tuple[int, str]:
        """Return the status and the JSON of a refused request."""
        return DeepgramLive.refusal(code, message, status, request_id)

    def options(self) -> JsonObject:
        """Return the options of the next session."""
        asked = {**self._deepgram.session(), "language": self._language, "written": self.written}
        return {**asked, "hotwords": hints(self._keyterms), **super().options()}

    # What the client sends

    def greet(self) -> Iterator[Step]:
        """Say at once that the client may send audio: it waits for that."""
        yield Reply(self._write("Connected"))
        yield from super().greet()

    def receive(self, message: str | bytes) -> Iterator[Step]:
        """Take audio or a message of the client. Ignore everything after `CloseStream`."""
        if self._stopped:
            return
        if isinstance(message, str):
            yield from self._command(message)
        else:
            yield from self.hear(message)

    # What the client gets

    def begun(self, turn: SpokenTurn) -> Iterator[str]:
        """Yield that a turn has begun."""
        yield self._info("StartOfTurn", turn, 0.0)

    def grown(self, turn: SpokenTurn) -> Iterator[str]:
        """Yield the text of the turn so far."""
        yield self._info("Update", turn, 0.0)

    def paused(self, turn: SpokenTurn, probability: float) -> bool:
        """Return whether the client wants to know that the turn is over with this probability."""
        return EAGER in self._thresholds and probability >= self._thresholds[EAGER]

    def eager(self, turn: SpokenTurn, probability: float) -> Iterator[str]:
        """Yield that the turn is probably over."""
        yield self._info("EagerEndOfTurn", turn, probability)

    def resumed(self, turn: SpokenTurn, probability: float) -> Iterator[str]:
        """Yield that the turn goes on after all."""
        yield self._info("TurnResumed", turn, probability)

    def ended(self, turn: SpokenTurn, cause: Cause, probability: float) -> Iterator[str]:
        """Yield that a turn is over, and why."""
        yield self._info("EndOfTurn", turn, probability, trigger=_TRIGGERS[cause])

    def fail(self, code: ErrorCode, message: str) -> Iterable[str]:
        """Yield the reason for a close. None, if the client should just connect again."""
        if Problem(code, message).status < _FIRST_SERVICE_FAULT:
            yield self._write("Error", code=code.upper(), description=message)

    def close(self, code: int, reason: str) -> tuple[int, str]:
        """Return the close code and the reason that replace those of the native protocol."""
        return UNDECODABLE if self.undecoded else super().close(code, reason)

    # Inside

    def _command(self, text: str) -> Iterator[Step]:
        command = command_of(text) or {}
        kind = command.get("type")
        if kind == "CloseStream":
            self._stopped = True
            yield from self.end()
            if not self.container:
                yield Hangup(CloseCode.DONE)
        elif kind == "ForceEndTurn":
            yield from self.end_turn()
        elif kind == "Configure":
            yield Reply(self._configure(command))
        elif kind == "KeepAlive":  # which only the older format has
            yield from self.keep()
        else:
            why = f"A text message must be a JSON object whose 'type' is one of {', '.join(MESSAGES)}."
            yield Reply(self._write("Warning", code=_UNPARSABLE, description=why))

    def _configure(self, command: JsonObject) -> str:
        """Take other options, and return the answer."""
        try:
            thresholds = {**self._thresholds, **_read(part(command, "thresholds"))}
            keyterms, languages = self._keyterms, self._hints  # null changes nothing
            if command.get("keyterms") is not None:
                keyterms = texts("keyterms", command["keyterms"])
            if command.get("language_hints") is not None:
                languages = texts("language_hints", command["language_hints"])
            language = self._language
            if languages != self._hints:
                language = _hinted(languages, self._models, self._deepgram)
            changed = (thresholds, keyterms, language) != (self._thresholds, self._keyterms, self._language)
            if self.container and changed:
                raise bad(ErrorCode.UNSUPPORTED, "With a container, options stay; send samples with an 'encoding'.")
        except WireError as wrong:
            return self._write("ConfigureFailure", code=wrong.code.upper(), description=wrong.message)
        self._hints = languages
        if changed:
            self._thresholds, self._keyterms, self._language = thresholds, keyterms, language
            self._apply()
            self.change()
        options = {"thresholds": thresholds, "keyterms": keyterms}
        return self._write("ConfigureSuccess", **options, **({"language_hints": languages} if languages else {}))

    def _apply(self) -> None:
        """Turn thresholds into what the recogniser knows."""
        threshold = self._thresholds.get(EOT, _USUAL_EOT)
        self.eagerness = "high" if threshold <= _HIGH_UNTIL else "low" if threshold >= _LOW_FROM else "medium"
        self.longest_pause_ms = within(self._thresholds.get(TIMEOUT, LONGEST_PAUSE_MS))

    def _info(self, event: str, turn: SpokenTurn, confidence: float, **more: object) -> str:
        return self._write(
            "TurnInfo",
            event=event,
            turn_index=turn.number,
            audio_window_start=seconds(turn.start_ms),
            audio_window_end=seconds(max(self.heard_ms, turn.end_ms)),
            transcript=turn.whole,
            words=[_word(word) for word in whole_words(turn)],
            end_of_turn_confidence=confidence,
            **more,
        )

    def _write(self, type: str, **content: object) -> str:
        place, self._sequence = self._sequence, self._sequence + 1
        return encode({"type": type, "request_id": self._request_id, "sequence_id": place, **content})


def _word(word: Word) -> JsonObject:
    confidence = NO_CONFIDENCE if word.confidence is None else word.confidence
    return {"word": word.word, "confidence": confidence, "start": seconds(word.start_ms), "end": seconds(word.end_ms)}


def _hinted(named: list[str], models: Mapping[str, Languages], options: DeepgramOptions) -> str:
    if not named:
        return options.language
    try:
        return session_language("language_hint", named, models.get(options.model, ()))
    except WireError:
        return LANGUAGE


def _read(thresholds: JsonObject) -> _Thresholds:
    """Read thresholds. Raise WireError if one is not valid; null leaves it as it was."""
    given = {name: value for name, value in thresholds.items() if name in _BOUNDS and value is not None}
    return {name: number(name, value, _BOUNDS[name]) for name, value in given.items()}
