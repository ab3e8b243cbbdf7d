"""Updates of a realtime session in both shapes: the newer has its settings in `audio.input`, the older is flat.

Settings without a meaning here are ignored, because clients send many of them.
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
from streamer.wire.errors import WireError, kind_of, quote
from streamer.wire.options import SAMPLE_RATES

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
        raise Mistake(f"'{param}' must be {' or '.join(FLAT_FORMATS)}, or an object with a 'type'.", param=param)
    kind = value.get("type") or now.type
    if not isinstance(kind, str) or kind not in ENCODINGS:
        raise Mistake(f"'{param}.type' must be {' or '.join(ENCODINGS)}, not {quote(kind)}.", param=f"{param}.type")
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
            what = f"'{param}.eagerness' must be {' or '.join(EAGERNESS_NAMES)}, not {quote(eagerness)}."
            raise Mistake(what, param=f"{param}.eagerness")
        return SemanticVad(eagerness)
    what = f"'{param}.type' must be server_vad or semantic_vad, not {quote(kind)}; null switches it off."
    raise Mistake(what, param=f"{param}.type")


def _transcription(param: str, value: Any, now: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if value is None:
        return None
    setting = _object(param, value)
    changes: dict[str, Any] = {
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


def _object(param: str, value: Any) -> dict[str, Any]:
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
