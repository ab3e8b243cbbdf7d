"""The settings of a realtime session: how a client sees them, and the options of a session of ours that they mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from streamer.limits import AFTER_TEXT_BOUNDS_MS, DEFAULT_MODEL, EAGERNESS, MOST_HOTWORDS
from streamer.wire.dialects.spoken_language import Languages, session_language
from streamer.wire.errors import WireError
from streamer.wire.options import SAMPLE_BYTES, hotword

PCM: Final = "audio/pcm"
# By OpenAI's names: our encodings, and the rates that are fixed.
ENCODINGS: Final = {PCM: "pcm_s16le", "audio/pcmu": "mulaw", "audio/pcma": "alaw"}
FLAT_FORMATS: Final = {"pcm16": PCM, "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}
PCM_RATE: Final = 24_000
TELEPHONE_RATE: Final = 8_000
# The pause that ends a turn in any case, by the eagerness. OpenAI waits for 8, 4 and 2 s.
PAUSES_MS: Final = {"low": 4000, "medium": 2000, "high": 1200}
AUTO: Final = "auto"
EAGERNESS_NAMES: Final = (*PAUSES_MS, AUTO)
# A prompt with longer parts is a text about the audio, and not a list of names.
_MOST_WORDS_IN_LIST: Final = 3


@dataclass(frozen=True)
class AudioFormat:
    """How the client's audio is encoded."""

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
        """The name in the older shape."""
        return next(name for name, kind in FLAT_FORMATS.items() if kind == self.type)

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

    @property
    def endpoint(self) -> dict[str, Any]:
        """The same for a session of ours."""
        return {"after_text_ms": self.pause_ms}

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
    """A turn ends after a silence that depends on the words and on the eagerness."""

    eagerness: str = "auto"
    prefix_padding_ms: ClassVar[int] = 300

    @property
    def pause_ms(self) -> int:
        """The longest silence within a turn."""
        return PAUSES_MS[self._ours]

    @property
    def endpoint(self) -> dict[str, Any]:
        """The same for a session of ours."""
        return {"turn": True, "eagerness": self._ours, "longest_pause_ms": self.pause_ms}

    @property
    def _ours(self) -> str:
        return EAGERNESS if self.eagerness == AUTO else self.eagerness

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

    def language(self, models: Mapping[str, Languages], model: str, option: str = "language") -> str:
        """Return the language of a session of ours. WireError names the option if its model lacks the language."""
        transcription = self.transcription or {}
        asked = transcription.get("language"), transcription.get("languages")
        listed = [part for each in asked for part in (each if isinstance(each, list) else [each or ""])]
        return session_language(option, listed, models.get(self._model(models, model), ()))

    def start(self, models: Mapping[str, Languages], model: str = DEFAULT_MODEL) -> dict[str, Any]:
        """Return the `start` of a session of ours. A model that is none of `models` means `model`."""
        detection = self.turn_detection
        return {
            "encoding": self.format.encoding,
            "sample_rate": self.format.rate,
            "model": self._model(models, model),
            "language": self.language(models, model),
            "written": True,  # clients of OpenAI expect marks and capitals
            "words": False,
            "stability": "high",  # a delta cannot be taken back
            "speech": detection is not None,
            "endpoint": {} if detection is None else detection.endpoint,
            "hotwords": _hotwords(self.transcription or {}),
        }

    def _model(self, models: Mapping[str, Languages], otherwise: str) -> str:
        asked = (self.transcription or {}).get("model")
        return asked if isinstance(asked, str) and asked in models else otherwise

    def _shown_transcription(self) -> dict[str, Any] | None:
        return None if self.transcription is None else dict(self.transcription)

    def _shown_turn_detection(self) -> dict[str, Any] | None:
        return None if self.turn_detection is None else self.turn_detection.shown()


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
