"""Updates of a realtime session in both shapes: the newer one has its settings below `audio.input`, the older one flat.

Settings that mean nothing here are ignored, because clients send many of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from streamer.limits import DEFAULT_MODEL
from streamer.wire.dialects.openai_realtime.mistakes import Mistake, is_unicode
from streamer.wire.dialects.openai_realtime.settings import (
    EAGERNESS_NAMES,
    ENCODINGS,
    FLAT_FORMATS,
    PCM,
    PCM_RATE,
    TELEPHONE_RATE,
    AudioFormat,
    SemanticVad,
    ServerVad,
    Settings,
    TurnDetection,
)
from streamer.wire.dialects.spoken_language import Languages
from streamer.wire.errors import WireError, kind_of, shown
from streamer.wire.options import SAMPLE_RATES

# The flat names of the settings below `audio.input`.
_FLAT_NAMES: Final = {
    "input_audio_format": "format",
    "input_audio_transcription": "transcription",
    "input_audio_noise_reduction": "noise_reduction",
    "turn_detection": "turn_detection",
}
_OF_TRANSCRIPTION: Final = ("model", "language", "languages", "prompt", "keywords", "delay")


def updated(now: Settings, session: Any, models: Mapping[str, Languages], model: str = DEFAULT_MODEL) -> Settings:
    """Return the settings after an update in either shape. Only what it names changes. Mistake if it is wrong.

    `models`: the service's models by public name. `model`: the one that counts if the settings name none of them.
    """
    given = _object("session", session)
    found: dict[str, tuple[str, Any]] = {}
    for flat, name in _FLAT_NAMES.items():
        if flat in given:
            found[name] = (f"session.{flat}", given[flat])
    audio = _object("session.audio", given.get("audio") or {})
    for name, value in _object("session.audio.input", audio.get("input") or {}).items():
        found[name] = (f"session.audio.input.{name}", value)
    result = now
    if "format" in found:
        result = replace(result, format=_format(*found["format"], now.format))
    if "turn_detection" in found:
        result = replace(result, turn_detection=_turn_detection(*found["turn_detection"], now.turn_detection))
    if "transcription" in found:
        param, value = found["transcription"]
        result = replace(result, transcription=_transcription(param, value, now.transcription))
        param += ".languages" if "languages" in (value or {}) else ".language"
        try:
            result.language(models, model, param)
        except WireError as error:
            raise Mistake(error.message, param=param) from None
    if "noise_reduction" in found:
        param, value = found["noise_reduction"]
        kind = None if value is None else {"type": _plain(f"{param}.type", _object(param, value).get("type"))}
        result = replace(result, noise_reduction=kind)
    if "include" in given:
        result = replace(result, include=_plain("session.include", given["include"]))
    return result


def _format(param: str, value: Any, now: AudioFormat) -> AudioFormat:
    if value is None:
        return now
    if isinstance(value, str) and value in FLAT_FORMATS:
        value = {"type": FLAT_FORMATS[value]}
    elif not isinstance(value, dict):
        raise Mistake(f"'{param}' must be {' or '.join(FLAT_FORMATS)}, or an object with a 'type'.", param=param)
    kind = value.get("type") or now.type
    if not isinstance(kind, str) or kind not in ENCODINGS:
        raise Mistake(f"'{param}.type' must be {' or '.join(ENCODINGS)}, not {shown(kind)}.", param=f"{param}.type")
    if kind != PCM:
        return AudioFormat(kind, TELEPHONE_RATE)
    rate = value.get("rate") or (now.rate if now.type == PCM else PCM_RATE)
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
        if not isinstance(eagerness, str) or eagerness not in EAGERNESS_NAMES:
            what = f"'{param}.eagerness' must be {' or '.join(EAGERNESS_NAMES)}, not {shown(eagerness)}."
            raise Mistake(what, param=f"{param}.eagerness")
        return SemanticVad(eagerness)
    what = f"'{param}.type' must be server_vad or semantic_vad, not {shown(kind)}; null switches it off."
    raise Mistake(what, param=f"{param}.type")


def _transcription(param: str, value: Any, now: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if value is None:
        return None
    given = _object(param, value)
    changed: dict[str, Any] = {
        name: _plain(f"{param}.{name}", given[name]) for name in _OF_TRANSCRIPTION if name in given
    }
    return {**(now or {}), **changed}


def _plain(param: str, value: Any) -> Any:
    """Return a setting that is only shown again, or read as text."""
    parts = value if isinstance(value, list) else [value]
    if value is not None and not all(isinstance(part, str) for part in parts):
        raise Mistake(f"'{param}' must be a string or a list of strings, not {kind_of(value)}.", param=param)
    if value is not None and not all(map(is_unicode, parts)):
        raise Mistake(f"'{param}' has characters that do not exist in Unicode.", param=param)
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
