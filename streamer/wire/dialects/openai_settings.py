"""The settings of a realtime session in both shapes, the native options that they become, and mistakes in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from streamer.base.json_types import JsonObject
from streamer.base.limits import AFTER_TEXT_BOUNDS_MS, DEFAULT_MODEL, EAGERNESS, READER, SAMPLE_RATES
from streamer.base.options import SAMPLE_BYTES
from streamer.base.text import either, is_unicode
from streamer.wire.dialects.dialect import Languages, session_language
from streamer.wire.errors import WireError, kind_of, quote
from streamer.wire.options import hints

PCM: Final = "audio/pcm"
# Our encodings by OpenAI's names.
ENCODINGS: Final = {PCM: "pcm_s16le", "audio/pcmu": "mulaw", "audio/pcma": "alaw"}
FLAT_FORMATS: Final = {"pcm16": PCM, "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}
PCM_RATE: Final = 24_000
TELEPHONE_RATE: Final = 8_000
# The pause that ends a turn in any case, for each eagerness. OpenAI waits for 8, 4 and 2 s.
PAUSES_MS: Final = {"low": 4000, "medium": 2000, "high": 1200}
AUTO: Final = "auto"
LOGPROBS: Final = "item.input_audio_transcription.logprobs"  # a word of `include`
EAGERNESS_NAMES: Final = (*PAUSES_MS, AUTO)
# A prompt with longer parts is a text about the audio, not a list of names.
_MOST_WORDS_IN_LIST: Final = 3


@dataclass(frozen=True)
class AudioFormat:
    """The format of the client's audio."""

    type: str = PCM
    rate: int = PCM_RATE

    @property
    def encoding(self) -> str:
        """Our name of the encoding."""
        return ENCODINGS[self.type]

    @property
    def sample_bytes(self) -> int:
        """The bytes of one sample."""
        return SAMPLE_BYTES[self.encoding]

    @property
    def flat(self) -> str:
        """The name of the encoding in the older shape."""
        return next(name for name, kind in FLAT_FORMATS.items() if kind == self.type)

    def view(self) -> JsonObject:
        """Return the setting as a client sees it."""
        return {"type": self.type, "rate": self.rate} if self.type == PCM else {"type": self.type}


@dataclass(frozen=True)
class ServerVad:
    """Turn detection that ends a turn after a silence of a fixed length."""

    threshold: float = 0.5
    prefix_padding_ms: int = 300
    silence_duration_ms: int = 500

    @property
    def pause_ms(self) -> int:
        """The silence that ends a turn, within the bounds of the recogniser."""
        shortest, longest = AFTER_TEXT_BOUNDS_MS
        return min(max(self.silence_duration_ms, shortest), longest)

    @property
    def endpoint(self) -> JsonObject:
        """The option `endpoint` of a native session."""
        return {"after_text_ms": self.pause_ms}

    def view(self) -> JsonObject:
        """Return the setting as a client sees it, with the silence that really ends a turn."""
        return {
            "type": "server_vad",
            "threshold": self.threshold,
            "prefix_padding_ms": self.prefix_padding_ms,
            "silence_duration_ms": self.pause_ms,
        }


@dataclass(frozen=True)
class SemanticVad:
    """Turn detection that ends a turn after a silence which depends on the words and on the eagerness."""

    eagerness: str = "auto"
    prefix_padding_ms: ClassVar[int] = 300

    @property
    def pause_ms(self) -> int:
        """The longest silence within a turn."""
        return PAUSES_MS[self._native_eagerness]

    @property
    def endpoint(self) -> JsonObject:
        """The option `endpoint` of a native session."""
        return {"turn": True, "eagerness": self._native_eagerness, "longest_pause_ms": self.pause_ms}

    @property
    def _native_eagerness(self) -> str:
        return EAGERNESS if self.eagerness == AUTO else self.eagerness

    def view(self) -> JsonObject:
        """Return the setting as a client sees it."""
        return {"type": "semantic_vad", "eagerness": self.eagerness}


TurnDetection = ServerVad | SemanticVad | None


@dataclass(frozen=True)
class Settings:
    """All settings of a session. Without turn detection, the client must commit each item."""

    format: AudioFormat = AudioFormat()
    turn_detection: TurnDetection = ServerVad()
    transcription: Mapping[str, Any] | None = field(default_factory=dict)
    noise_reduction: Any = None
    include: Any = None

    @property
    def logprobs(self) -> bool:
        """Whether the client wants the probabilities of words."""
        return LOGPROBS in ([self.include] if isinstance(self.include, str) else self.include or ())

    def view(self, session: str) -> JsonObject:
        """Return the session as a client sees it."""
        return {
            "id": session,
            "object": "realtime.transcription_session",
            "type": "transcription",
            "audio": {
                "input": {
                    "format": self.format.view(),
                    "transcription": self._transcription_view(),
                    "noise_reduction": self.noise_reduction,
                    "turn_detection": self._turn_detection_view(),
                }
            },
            "include": self.include,
        }

    def flat_view(self, session: str) -> JsonObject:
        """Return the session as a client sees it in the older shape."""
        return {
            "id": session,
            "object": "realtime.transcription_session",
            "input_audio_format": self.format.flat,
            "input_audio_transcription": self._transcription_view(),
            "input_audio_noise_reduction": self.noise_reduction,
            "turn_detection": self._turn_detection_view(),
            "include": self.include,
        }

    def language(self, models: Mapping[str, Languages], model: str, option: str = "language") -> str:
        """Return the language of a native session. Raise WireError, which names the option, if the model lacks it."""
        transcription = self.transcription or {}
        values = transcription.get("language"), transcription.get("languages")
        names = [name for value in values for name in (value if isinstance(value, list) else [value or ""])]
        return session_language(option, names, models.get(self._model(models, model), ()))

    def start(self, models: Mapping[str, Languages], model: str = DEFAULT_MODEL) -> JsonObject:
        """Return the options of a native session. `model`: the model if the settings name none of `models`."""
        detection = self.turn_detection
        return {
            "encoding": self.format.encoding,
            "sample_rate": self.format.rate,
            "model": self._model(models, model),
            "language": self.language(models, model),
            "written": True,  # OpenAI's clients expect marks and capitals
            "words": self.logprobs,
            "stability": "medium",  # a delta cannot be taken back, so it is no mere guess
            "second_pass": READER,
            "speech": detection is not None,
            "endpoint": {} if detection is None else detection.endpoint,
            "hotwords": _hotwords(self.transcription or {}),
        }

    def _model(self, models: Mapping[str, Languages], default: str) -> str:
        name = (self.transcription or {}).get("model")
        return name if isinstance(name, str) and name in models else default

    def _transcription_view(self) -> JsonObject | None:
        return None if self.transcription is None else dict(self.transcription)

    def _turn_detection_view(self) -> JsonObject | None:
        return None if self.turn_detection is None else self.turn_detection.view()


def _hotwords(transcription: Mapping[str, Any]) -> list[str]:
    """Return the phrases to listen for. Invalid ones are left out, because they are only hints."""
    keywords, prompt = transcription.get("keywords"), transcription.get("prompt")
    phrases = list(keywords) if isinstance(keywords, list) else []
    if isinstance(prompt, str):
        phrases += _names_in(prompt)
    return hints(phrase for phrase in phrases if isinstance(phrase, str))


def _names_in(prompt: str) -> list[str]:
    """Return the names in a prompt that is a list of names, such as `Keywords: Ada, Grace Hopper`."""
    _label, colon, rest = prompt.partition(":")
    text = (rest if colon else prompt).strip().rstrip(".")
    parts = [part.strip() for part in text.replace("\n", ",").replace(";", ",").split(",")]
    parts = [part for part in parts if part]
    return parts if len(parts) > 1 and all(len(part.split()) <= _MOST_WORDS_IN_LIST for part in parts) else []


# Updates of a realtime session in both shapes: the newer has its settings in `audio.input`, the older is flat.

# The flat names of the settings in `audio.input`.
_FLAT_NAMES: Final = {
    "input_audio_format": "format",
    "input_audio_transcription": "transcription",
    "input_audio_noise_reduction": "noise_reduction",
    "turn_detection": "turn_detection",
}
_TRANSCRIPTION_NAMES: Final = ("model", "language", "languages", "prompt", "keywords", "delay")


def update_settings(
    settings: Settings, session: Any, models: Mapping[str, Languages], model: str = DEFAULT_MODEL
) -> Settings:
    """Return the settings after an update in either shape. Raise Mistake if the update is not valid.

    `models`: the service's models by public name. `model`: the model of a session that names none of them.
    """
    update = _object("session", session)
    changes: dict[str, tuple[str, Any]] = {}
    for flat, name in _FLAT_NAMES.items():
        if flat in update:
            changes[name] = (f"session.{flat}", update[flat])
    audio = _object("session.audio", update.get("audio") or {})
    for name, value in _object("session.audio.input", audio.get("input") or {}).items():
        changes[name] = (f"session.audio.input.{name}", value)
    if "format" in changes:
        settings = replace(settings, format=_format(*changes["format"], settings.format))
    if "turn_detection" in changes:
        detection = _turn_detection(*changes["turn_detection"], settings.turn_detection)
        settings = replace(settings, turn_detection=detection)
    if "transcription" in changes:
        param, value = changes["transcription"]
        settings = replace(settings, transcription=_transcription(param, value, settings.transcription))
        param += ".languages" if "languages" in (value or {}) else ".language"
        try:
            settings.language(models, model, param)
        except WireError as error:
            raise Mistake(error.message, param=param) from None
    if "noise_reduction" in changes:
        param, value = changes["noise_reduction"]
        kind = None if value is None else {"type": _plain(f"{param}.type", _object(param, value).get("type"))}
        settings = replace(settings, noise_reduction=kind)
    if "include" in update:
        settings = replace(settings, include=_plain("session.include", update["include"]))
    return settings


def _format(param: str, value: Any, now: AudioFormat) -> AudioFormat:
    if value is None:
        return now
    if isinstance(value, str) and value in FLAT_FORMATS:
        value = {"type": FLAT_FORMATS[value]}
    elif not isinstance(value, dict):
        right = either([*FLAT_FORMATS, "an object with a 'type'"])
        raise Mistake(f"'{param}' must be {right}.", param=param)
    kind = value.get("type") or now.type
    if not isinstance(kind, str) or kind not in ENCODINGS:
        raise Mistake(f"'{param}.type' must be {either(ENCODINGS)}, not {quote(kind)}.", param=f"{param}.type")
    if kind != PCM:
        return AudioFormat(kind, TELEPHONE_RATE)
    rate = value.get("rate") or (now.rate if now.type == PCM else PCM_RATE)
    low, high = SAMPLE_RATES
    if type(rate) is not int or not low <= rate <= high:
        what = f"'{param}.rate' must be a whole number from {low} to {high}, not {quote(rate)}."
        raise Mistake(what, param=f"{param}.rate")
    return AudioFormat(kind, rate)


def _turn_detection(param: str, value: Any, now: TurnDetection) -> TurnDetection:
    if value is None:
        return None
    setting = _object(param, value)
    kind = setting.get("type") or ("semantic_vad" if isinstance(now, SemanticVad) else "server_vad")
    if kind == "server_vad":
        base = now if isinstance(now, ServerVad) else ServerVad()
        return ServerVad(
            _number(param, setting, "threshold", base.threshold),
            round(_number(param, setting, "prefix_padding_ms", base.prefix_padding_ms)),
            round(_number(param, setting, "silence_duration_ms", base.silence_duration_ms)),
        )
    if kind == "semantic_vad":
        eagerness = setting.get("eagerness") or (now.eagerness if isinstance(now, SemanticVad) else "auto")
        if not isinstance(eagerness, str) or eagerness not in EAGERNESS_NAMES:
            what = f"'{param}.eagerness' must be {either(EAGERNESS_NAMES)}, not {quote(eagerness)}."
            raise Mistake(what, param=f"{param}.eagerness")
        return SemanticVad(eagerness)
    what = f"'{param}.type' must be server_vad or semantic_vad, not {quote(kind)}; null switches it off."
    raise Mistake(what, param=f"{param}.type")


def _transcription(param: str, value: Any, now: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if value is None:
        return None
    setting = _object(param, value)
    changes: JsonObject = {
        name: _plain(f"{param}.{name}", setting[name]) for name in _TRANSCRIPTION_NAMES if name in setting
    }
    return {**(now or {}), **changes}


def _plain(param: str, value: Any) -> Any:
    """Return a setting that is a string or a list of strings. Raise Mistake if it is not."""
    parts = value if isinstance(value, list) else [value]
    if value is not None and not all(isinstance(part, str) for part in parts):
        raise Mistake(f"'{param}' must be a string or a list of strings, not {kind_of(value)}.", param=param)
    if value is not None and not all(map(is_unicode, parts)):
        raise Mistake(f"'{param}' has characters that do not exist in Unicode.", param=param)
    return value


def _object(param: str, value: Any) -> JsonObject:
    if not isinstance(value, dict):
        raise Mistake(f"'{param}' must be an object, not {kind_of(value)}.", param=param)
    return value


def _number(param: str, setting: Mapping[str, Any], name: str, default: float) -> float:
    value = setting.get(name)
    if value is None:
        return default
    if type(value) not in (int, float) or not 0 <= value <= 3_600_000:
        raise Mistake(f"'{param}.{name}' must be a number, at least 0, not {quote(value)}.", param=f"{param}.{name}")
    return float(value)


# The mistakes in events of the client. The client receives each as an error, and the session stays open.

INVALID: Final = "invalid_value"
COMMIT_EMPTY: Final = "input_audio_buffer_commit_empty"


class Mistake(Exception):
    """A mistake in an event of the client: a sentence, a code word, and the name of the wrong setting."""

    def __init__(self, message: str, *, code: str = INVALID, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.param = param

    def content(self, event_id: str | None) -> JsonObject:
        """Return the content of the error. `event_id`: the client's name of its event."""
        return {
            "type": "invalid_request_error",
            "code": self.code,
            "message": self.message,
            "param": self.param,
            "event_id": event_id,
        }
