"""The options of Deepgram's clients: which of them have a meaning here, and the options of a session that they become.

`docs/reference/compatibility.md` shows `OPTIONS` and `ENCODINGS`, and a test compares them. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from streamer.base.codes import ErrorCode
from streamer.base.json_types import JsonObject
from streamer.base.limits import (
    AFTER_TEXT_BOUNDS_MS,
    DEFAULT_MODEL,
    HEAVIEST_HOTWORD,
    HOTWORD_WEIGHT,
    LANGUAGE,
)
from streamer.base.option_kinds import Service
from streamer.base.options import foreign_options
from streamer.wire.dialects.dialect import Languages, session_language
from streamer.wire.errors import bad, quote
from streamer.wire.options import hints

SHORTEST_UTTERANCE_END_MS: Final = 1000
ENDPOINTING_MS: Final = 10
UTTERANCE_SPLIT_S: Final = 0.8
ENGLISH: Final = "en"  # a model without a choice of languages counts as English
_OFF: Final = ("", "false", "0", "none", "null", "undefined")
_ON: Final = ("true", "1")


class Treatment(Enum):
    """What the service does with an option."""

    USED = "used"
    IGNORED = "ignored"  # whatever value it has
    REFUSED = "refused"  # with status 400, unless it is switched off


@dataclass(frozen=True)
class Option:
    """One option of the query, with its treatment and its meaning for the documentation."""

    name: str
    treatment: Treatment
    meaning: str


def _used(name: str, meaning: str) -> Option:
    return Option(name, Treatment.USED, meaning)


def _ignored(name: str, meaning: str) -> Option:
    return Option(name, Treatment.IGNORED, meaning)


def _refused(name: str, meaning: str) -> Option:
    return Option(name, Treatment.REFUSED, meaning)


# The options of a session that Deepgram's clients know, and then what only the format itself uses.
_CARRIED: Final = foreign_options(Service.DEEPGRAM)
OPTIONS: Final = (
    *(_used(foreign.name, foreign.meaning) for _, foreign in _CARRIED),
    _used("encoding", "see below"),
    _used("sample_rate", "8000 to 192000; needed with samples that have no container"),
    _used("channels", "1 to 8; a container says it itself"),
    _used("interim_results", "live: text that may still change is sent"),
    _used(
        "endpointing",
        "live: the silence that ends a segment; below 400 ms means 400 ms. With `false`, `speech_final` is never true",
    ),
    _used("utterance_end_ms", "live: `UtteranceEnd` after such a gap; needs `interim_results`. Below 1000 means 1000"),
    _used("vad_events", "live: `SpeechStarted`"),
    _used("utterances", "recorded: `utterances` in the answer"),
    _used("utt_split", "recorded: the silence between utterances in seconds, at least 0.4"),
    _used("paragraphs", "recorded: `paragraphs` in the answer, also with `smart_format`; in the written form"),
    _used("diarize", "each word has `speaker`; 0 if the service cannot tell speakers apart"),
    _used("detect_language", "recorded: `detected_language`, unless a model of several languages found it out itself"),
    _refused("redact", "nothing is redacted, and a client that asks for it relies on it"),
    _refused("callback", "the service calls no other one"),
    _ignored("callback_method", "there is no callback"),
    _ignored("diarize_model", "see `diarize`"),
    _ignored("diarize_version", "see `diarize`"),
    _ignored("filler_words", "the recogniser decides which of them it writes"),
    _ignored("detect_entities", "nothing is added to the words"),
    _ignored("search", "nothing is searched"),
    _ignored("replace", "nothing is replaced"),
    _ignored("alternatives", "there is one alternative"),
    _ignored("measurements", "the written form decides"),
    _ignored("sentiment", "only words are recognised"),
    _ignored("summarize", "only words are recognised"),
    _ignored("topics", "only words are recognised"),
    _ignored("intents", "only words are recognised"),
    _ignored("no_delay", "text is never held back"),
    _ignored("version", "a model has one version"),
    _ignored("tier", "a model has one tier"),
    _ignored("mip_opt_out", "nothing is kept in any case"),
    _ignored("tag", "it only labels a request"),
    _ignored("extra", "it only labels a request"),
)

# Encodings of samples without a container, by their names in the native protocol.
ENCODINGS: Final = {"linear16": "pcm_s16le", "linear32": "pcm_f32le", "mulaw": "mulaw", "alaw": "alaw"}
# The decoder finds these in the data itself, as if the client named no encoding. It reads them only in a container.
CONTAINED: Final = ("flac", "mp3", "opus", "ogg-opus")
REFUSED_ENCODINGS: Final = ("amr-nb", "amr-wb", "speex", "g729")


@dataclass(frozen=True)
class Samples:
    """The format of samples without a container. Encoding and rate are those of the native protocol."""

    encoding: str
    sample_rate: int
    channels: int


class DeepgramOptions:
    """The options of one request. Raises WireError if the service cannot serve it."""

    def __init__(self, query: Iterable[tuple[str, str]], models: Mapping[str, Languages]) -> None:
        self._query: dict[str, list[str]] = {}  # all values by name
        for name, value in query:
            self._query.setdefault(name.removesuffix("[]"), []).append(value.strip())
        self._refuse()
        model = self._text("model")
        self.model = model if model in models else DEFAULT_MODEL
        languages = models.get(self.model, ())
        self.language = session_language("language", self._switched_on("language"), languages)
        self.detected_language = self._detected(languages) if self._switched_on("detect_language") else None
        self.multichannel = self._flag("multichannel")
        self.samples = self._samples()
        self.interim_results = self._flag("interim_results")
        self.vad_events = self._flag("vad_events")
        smart = self._flag("smart_format")
        self.paragraphs = self._flag("paragraphs") or smart
        self.punctuated = any([self._flag("punctuate"), self._flag("dictation"), self.paragraphs])
        self.written = self.punctuated or self._flag("numerals")
        self.utterances = self._flag("utterances")
        self.diarize = bool(self._switched_on("diarize"))  # also with the name of a version instead of true
        # Options whose flag has a single meaning here. One with its default is left out: the session has it anyway.
        flags = [
            (option, foreign.values[self._flag(foreign.name)])
            for option, foreign in _CARRIED
            if foreign.values is not None
        ]
        self._flags = {option.name: value for option, value in flags if value != option.default}
        self.keyterms = tuple(self._switched_on("keyterm"))
        self.hotwords = self._hotwords()
        self.speech_final, self.after_text_ms = self._endpointing()
        self.utterance_end_ms = self._utterance_end_ms()

    @property
    def split_ms(self) -> int:
        """The silence between two utterances of a recording."""
        seconds = self._number("utt_split", float)
        return _bounded_pause(round(1000 * (UTTERANCE_SPLIT_S if seconds is None else seconds)))

    def session(self) -> JsonObject:
        """Return the options of the session that do not depend on the form of the audio."""
        return {
            "model": self.model,
            "language": self.language,
            "written": self.written,
            "hotwords": list(self.hotwords),
            **({"speakers": True} if self.diarize else {}),
            **self._flags,
        }

    def _refuse(self) -> None:
        for option in OPTIONS:
            if option.treatment is Treatment.REFUSED and self._switched_on(option.name):
                raise bad(ErrorCode.BAD_OPTION, f"'{option.name}' is not supported: {option.meaning}. Leave it out.")

    def _detected(self, languages: Languages) -> str | None:
        """Return the language of the recording; None if only the model knows it, which does not say it."""
        if self.language != LANGUAGE:
            return self.language
        if languages is None:
            return None
        if not languages:
            return ENGLISH
        return languages[0] if len(languages) == 1 else None

    def _samples(self) -> Samples | None:
        encoding = self._text("encoding").lower()
        if encoding in (*_OFF, *CONTAINED):
            return None
        if encoding not in ENCODINGS:
            names = ", ".join((*ENCODINGS, *CONTAINED))
            why = f"'encoding' must be one of {names}, not {quote(encoding)}; without it, a container is expected."
            raise bad(ErrorCode.UNSUPPORTED_AUDIO, why)
        rate = self._number("sample_rate", int)
        if rate is None:
            raise bad(ErrorCode.BAD_OPTION, f"'sample_rate' is needed with 'encoding' {quote(encoding)}.")
        return Samples(ENCODINGS[encoding], rate, self._number("channels", int) or 1)

    def _endpointing(self) -> tuple[bool, int | None]:
        """Return whether pauses end an utterance, and their length; None: the default length."""
        text = self._text("endpointing").lower()
        if text in ("false", "none", "null"):
            return False, None
        pause_ms = None if text in _ON[:1] else self._number("endpointing", int)
        return True, _bounded_pause(ENDPOINTING_MS if pause_ms is None else pause_ms)

    def _utterance_end_ms(self) -> int | None:
        text = self._text("utterance_end_ms").lower()
        if text in _OFF or not self.interim_results:
            return None
        return max(SHORTEST_UTTERANCE_END_MS, self._number("utterance_end_ms", int) or 0)

    def _hotwords(self) -> tuple[Mapping[str, object], ...]:
        hotwords: list[dict[str, object]] = [{"text": term, "weight": HOTWORD_WEIGHT} for term in self.keyterms]
        for value in self._switched_on("keywords"):
            text, colon, boost = value.rpartition(":")
            weight = _float(boost) if colon else None
            if weight is None:
                hotwords.append({"text": value, "weight": HOTWORD_WEIGHT})
            elif weight > 0:
                hotwords.append({"text": text, "weight": min(HEAVIEST_HOTWORD, weight)})
        return tuple(hints(hotwords))

    def _switched_on(self, name: str) -> list[str]:
        return [value for value in self._query.get(name, ()) if value.lower() not in _OFF]

    def _text(self, name: str) -> str:
        return self._query.get(name, [""])[-1]

    def _flag(self, name: str) -> bool:
        value = self._text(name).lower()
        if value not in (*_ON, *_OFF):
            raise bad(ErrorCode.BAD_OPTION, f"'{name}' must be true or false, not {quote(value)}.")
        return value in _ON

    def _number(self, name: str, kind: type[int] | type[float]) -> Any:
        text = self._text(name)
        if text.lower() in (*_OFF[:2], *_OFF[3:]):
            return None
        value = _float(text)
        if value is None or value < 0 or (kind is int and not value.is_integer()):
            what = "a whole number" if kind is int else "a number"
            raise bad(ErrorCode.BAD_OPTION, f"'{name}' must be {what}, not {quote(text)}.")
        return kind(value)


def _bounded_pause(pause_ms: int) -> int:
    shortest, longest = AFTER_TEXT_BOUNDS_MS
    return min(max(pause_ms, shortest), longest)


def _float(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < 1e9 else None  # this also excludes infinity and NaN
