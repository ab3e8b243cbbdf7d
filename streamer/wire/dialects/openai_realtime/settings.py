"""The settings of a realtime session: what an update changes, how they are shown, and the options that they mean here.

There are two shapes of an update. The newer one has its settings below `audio.input`, the older one has them flat.
Settings that mean nothing here are accepted and shown again, because clients send many of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from streamer.limits import AFTER_TEXT_BOUNDS_MS, AFTER_TEXT_MS, DEFAULT_MODEL, MOST_HOTWORDS
from streamer.wire.dialects.openai_realtime.mistakes import Mistake
from streamer.wire.errors import WireError, kind_of, shown
from streamer.wire.options import SAMPLE_BYTES, SAMPLE_RATES, hotword

PCM: Final = "audio/pcm"
# By OpenAI's names: our encodings, and the rates that are fixed.
_ENCODINGS: Final = {PCM: "pcm_s16le", "audio/pcmu": "mulaw", "audio/pcma": "alaw"}
_FLAT_FORMATS: Final = {"pcm16": PCM, "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}
_PCM_RATE: Final = 24_000
_TELEPHONE_RATE: Final = 8_000
# How long a pause must be. OpenAI decides it from the words; here it only depends on the eagerness.
_PAUSES_MS: Final = {"low": 2000, "medium": AFTER_TEXT_MS, "auto": AFTER_TEXT_MS, "high": 500}
# The flat names of the settings below `audio.input`.
_FLAT_NAMES: Final = {
    "input_audio_format": "format",
    "input_audio_transcription": "transcription",
    "input_audio_noise_reduction": "noise_reduction",
    "turn_detection": "turn_detection",
}
_SHOWN_OF_TRANSCRIPTION: Final = ("model", "language", "languages", "prompt", "keywords", "delay")
# A prompt with longer parts is a text about the audio, and not a list of names.
_MOST_WORDS_IN_LIST: Final = 3


@dataclass(frozen=True)
class AudioFormat:
    """How the client's audio is encoded."""

    type: str = PCM
    rate: int = _PCM_RATE

    @property
    def encoding(self) -> str:
        """Our name of the encoding."""
        return _ENCODINGS[self.type]

    @property
    def sample_bytes(self) -> int:
        """The bytes of one sample."""
        return SAMPLE_BYTES[self.encoding]

    @property
    def flat(self) -> str:
        """The name in the older shape."""
        return next(name for name, kind in _FLAT_FORMATS.items() if kind == self.type)

    def shown(self) -> dict[str, Any]:
        """Return the setting as a client sees it."""
        return {"type": self.type, "rate": self.rate} if self.type == PCM else {"type": self.type}


@dataclass(frozen=True)
class ServerVad:
    """A turn ends after a silence of this length."""

    threshold: float = 0.5
    prefix_padding_ms: int = 300
    silence_duration_ms: int = 500

    @property
    def pause_ms(self) -> int:
        """The silence that ends a turn, within what the recogniser can do."""
        shortest, longest = AFTER_TEXT_BOUNDS_MS
        return min(max(self.silence_duration_ms, shortest), longest)

    def shown(self) -> dict[str, Any]:
        """Return the setting as a client sees it, with the silence that really ends a turn."""
        return {
            "type": "server_vad",
            "threshold": self.threshold,
            "prefix_padding_ms": self.prefix_padding_ms,
            "silence_duration_ms": self.pause_ms,
        }


@dataclass(frozen=True)
class SemanticVad:
    """A turn ends after a silence that depends on the eagerness."""

    eagerness: str = "auto"
    prefix_padding_ms: ClassVar[int] = 300

    @property
    def pause_ms(self) -> int:
        """The silence that ends a turn."""
        return _PAUSES_MS[self.eagerness]

    def shown(self) -> dict[str, Any]:
        """Return the setting as a client sees it."""
        return {"type": "semantic_vad", "eagerness": self.eagerness}


TurnDetection = ServerVad | SemanticVad | None


@dataclass(frozen=True)
class Settings:
    """All settings of a session. Without turn detection, the client commits each item itself."""

    format: AudioFormat = AudioFormat()
    turn_detection: TurnDetection = ServerVad()
    transcription: Mapping[str, Any] | None = field(default_factory=dict)
    noise_reduction: Any = None
    include: Any = None

    def updated(self, session: Any) -> Settings:
        """Return the settings after an update in either shape. Only what it names changes. Mistake if it is wrong."""
        given = _object("session", session)
        found: dict[str, tuple[str, Any]] = {}
        for flat, name in _FLAT_NAMES.items():
            if flat in given:
                found[name] = (f"session.{flat}", given[flat])
        audio = _object("session.audio", given.get("audio") or {})
        for name, value in _object("session.audio.input", audio.get("input") or {}).items():
            found[name] = (f"session.audio.input.{name}", value)
        result = self
        if "format" in found:
            result = replace(result, format=_format(*found["format"], self.format))
        if "turn_detection" in found:
            result = replace(result, turn_detection=_turn_detection(*found["turn_detection"], self.turn_detection))
        if "transcription" in found:
            result = replace(result, transcription=_transcription(*found["transcription"], self.transcription))
        if "noise_reduction" in found:
            param, value = found["noise_reduction"]
            kind = None if value is None else {"type": _plain(f"{param}.type", _object(param, value).get("type"))}
            result = replace(result, noise_reduction=kind)
        if "include" in given:
            result = replace(result, include=_plain("session.include", given["include"]))
        return result

    def shown(self, session: str) -> dict[str, Any]:
        """Return the session as a client sees it."""
        return {
            "id": session,
            "object": "realtime.transcription_session",
            "type": "transcription",
            "audio": {
                "input": {
                    "format": self.format.shown(),
                    "transcription": self._shown_transcription(),
                    "noise_reduction": self.noise_reduction,
                    "turn_detection": self._shown_turn_detection(),
                }
            },
            "include": self.include,
        }

    def shown_flat(self, session: str) -> dict[str, Any]:
        """Return the session in the older shape."""
        return {
            "id": session,
            "object": "realtime.transcription_session",
            "input_audio_format": self.format.flat,
            "input_audio_transcription": self._shown_transcription(),
            "input_audio_noise_reduction": self.noise_reduction,
            "turn_detection": self._shown_turn_detection(),
            "include": self.include,
        }

    def start(self, models: Collection[str], model: str = DEFAULT_MODEL) -> dict[str, Any]:
        """Return the `start` of a session of ours. A model that is none of `models` means `model`."""
        detection, asked = self.turn_detection, (self.transcription or {}).get("model")
        return {
            "encoding": self.format.encoding,
            "sample_rate": self.format.rate,
            "model": asked if asked in models else model,
            "written": True,  # clients of OpenAI expect marks and capitals
            "words": False,
            "stability": "high",  # a delta cannot be taken back
            "speech": detection is not None,
            "endpoint": {} if detection is None else {"after_text_ms": detection.pause_ms},
            "hotwords": _hotwords(self.transcription or {}),
        }

    def _shown_transcription(self) -> dict[str, Any] | None:
        return None if self.transcription is None else dict(self.transcription)

    def _shown_turn_detection(self) -> dict[str, Any] | None:
        return None if self.turn_detection is None else self.turn_detection.shown()


def _format(param: str, value: Any, now: AudioFormat) -> AudioFormat:
    if isinstance(value, str) and value in _FLAT_FORMATS:
        value = {"type": _FLAT_FORMATS[value]}
    elif not isinstance(value, dict):
        raise Mistake(f"'{param}' must be {' or '.join(_FLAT_FORMATS)}, or an object with a 'type'.", param=param)
    kind = value.get("type") or now.type
    if not isinstance(kind, str) or kind not in _ENCODINGS:
        raise Mistake(f"'{param}.type' must be {' or '.join(_ENCODINGS)}, not {shown(kind)}.", param=f"{param}.type")
    if kind != PCM:
        return AudioFormat(kind, _TELEPHONE_RATE)
    rate = value.get("rate") or _PCM_RATE
    low, high = SAMPLE_RATES
    if type(rate) is not int or not low <= rate <= high:
        what = f"'{param}.rate' must be a whole number from {low} to {high}, not {shown(rate)}."
        raise Mistake(what, param=f"{param}.rate")
    return AudioFormat(kind, rate)


def _turn_detection(param: str, value: Any, now: TurnDetection) -> TurnDetection:
    if value is None:
        return None
    given = _object(param, value)
    kind = given.get("type") or ("semantic_vad" if isinstance(now, SemanticVad) else "server_vad")
    if kind == "server_vad":
        base = now if isinstance(now, ServerVad) else ServerVad()
        return ServerVad(
            _number(param, given, "threshold", base.threshold),
            round(_number(param, given, "prefix_padding_ms", base.prefix_padding_ms)),
            round(_number(param, given, "silence_duration_ms", base.silence_duration_ms)),
        )
    if kind == "semantic_vad":
        eagerness = given.get("eagerness") or (now.eagerness if isinstance(now, SemanticVad) else "auto")
        if not isinstance(eagerness, str) or eagerness not in _PAUSES_MS:
            what = f"'{param}.eagerness' must be {' or '.join(_PAUSES_MS)}, not {shown(eagerness)}."
            raise Mistake(what, param=f"{param}.eagerness")
        return SemanticVad(eagerness)
    what = f"'{param}.type' must be server_vad or semantic_vad, not {shown(kind)}; null switches it off."
    raise Mistake(what, param=f"{param}.type")


def _transcription(param: str, value: Any, now: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if value is None:
        return None
    given = _object(param, value)
    for name in ("language", "languages"):
        asked = given.get(name)
        listed = asked if isinstance(asked, list) else [asked]
        known = [each for each in listed if each]
        if known and not any(_is_english(each) for each in known):
            what = f"'{param}.{name}' must be en: the recogniser knows only English, not {shown(asked)}."
            raise Mistake(what, param=f"{param}.{name}")
    changed = {name: _plain(f"{param}.{name}", given[name]) for name in _SHOWN_OF_TRANSCRIPTION if name in given}
    return {**(now or {}), **changed}


def _is_english(language: Any) -> bool:
    return isinstance(language, str) and (language.lower() in ("auto", "english") or language.lower().startswith("en"))


def _hotwords(transcription: Mapping[str, Any]) -> list[str]:
    """Return the phrases to listen for. What cannot be heard is left out: it was only a hint."""
    keywords, prompt = transcription.get("keywords"), transcription.get("prompt")
    phrases = list(keywords) if isinstance(keywords, list) else []
    if isinstance(prompt, str):
        phrases += _listed(prompt)
    return list(dict.fromkeys(filter(_can_be_heard, phrases)))[:MOST_HOTWORDS]


def _listed(prompt: str) -> list[str]:
    """Return the names in a prompt that is a list of names, such as `Keywords: Ada, Grace Hopper`."""
    _label, colon, rest = prompt.partition(":")
    text = (rest if colon else prompt).strip().rstrip(".")
    parts = [part.strip() for part in text.replace("\n", ",").replace(";", ",").split(",")]
    parts = [part for part in parts if part]
    return parts if len(parts) > 1 and all(len(part.split()) <= _MOST_WORDS_IN_LIST for part in parts) else []


def _can_be_heard(phrase: Any) -> bool:
    try:
        hotword(phrase)
    except WireError:
        return False
    return isinstance(phrase, str)


def _plain(param: str, value: Any) -> Any:
    """Return a setting that is only shown again, or read as text."""
    parts = value if isinstance(value, list) else [value]
    if value is not None and not all(isinstance(part, str) for part in parts):
        raise Mistake(f"'{param}' must be a string or a list of strings, not {kind_of(value)}.", param=param)
    return value


def _object(param: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Mistake(f"'{param}' must be an object, not {kind_of(value)}.", param=param)
    return value


def _number(param: str, given: Mapping[str, Any], name: str, default: float) -> float:
    value = given.get(name)
    if value is None:
        return default
    if type(value) not in (int, float) or not 0 <= value <= 3_600_000:
        raise Mistake(f"'{param}.{name}' must be a number, at least 0, not {shown(value)}.", param=f"{param}.{name}")
    return float(value)
