"""What the first message of Speechmatics' clients asks for, and what another one may change. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streamer.base.codes import ErrorCode
from streamer.base.json_types import JsonObject
from streamer.base.limits import LANGUAGE, LONGEST_LANGUAGE, MOST_CHANNELS, SAMPLE_RATES
from streamer.base.names import is_english
from streamer.base.text import is_unicode
from streamer.wire.dialects import client_values
from streamer.wire.dialects.audio_first import SAMPLE_RATE
from streamer.wire.dialects.client_values import part
from streamer.wire.dialects.dialect import Languages, session_language
from streamer.wire.errors import CloseCode, WireError, bad, quote
from streamer.wire.options import hints

ENCODINGS: Final = ("pcm_s16le", "pcm_f32le", "mulaw")
SPEAKER: Final = "speaker"
DIARIZATIONS: Final = ("none", SPEAKER, "channel", "channel_and_speaker")
# What the service does with the fields of `transcription_config`: a page shows this, and a test compares both.
CONFIG: Final = {
    "language": "what is spoken. With `auto` or `multi` the model finds out. What it lacks is refused, but not `en`, "
    "which clients send unasked",
    "language_hints": "with `auto` or `multi`: the first of them that the model has",
    "model": "the public name of a model; any other name means `default`",
    "operating_point": "the same",
    "enable_partials": "with `AddPartialTranscript`",
    "max_delay": "below 4: each word is final at the latest so many seconds after its end, at least 0.5, and not read "
    "again. 4, nothing, or speakers: words are final when their segment ends",
    "additional_vocab": "hotwords; how they sound is ignored",
    "diarization": "`speaker`: each word has a speaker (`S1`, `S2` …, or `UU`). `channel`: the audio of each channel "
    "comes in messages of its own. `channel_and_speaker`: both",
    "speaker_diarization_config": "ignored: the service finds out how many speak. For `speakers` there is a warning",
    "channel_diarization_labels": "the names of channels, at most 8; needed with `channel`",
    "conversation_config": "`end_of_utterance_silence_trigger`: `EndOfUtterance` after so many seconds of silence, of "
    "which at least 0.4 must pass before the last words are final. 0: never",
    "punctuation_overrides": "`permitted_marks`: others are left out. `sensitivity` is ignored",
    "transcript_filtering_config": "`replacements` are refused: no words are replaced, and a client that asks for it "
    "relies on it. `remove_disfluencies` is ignored",
}
# What `SetRecognitionConfig` may change.
CHANGEABLE: Final = ("max_delay", "max_delay_mode", "audio_filtering_config", "enable_partials", "conversation_config")
_USUAL_DELAY_S: Final = 4.0
_WIDE: Final = (0.0, 1e6)
_LONGEST_LABEL: Final = 100  # characters: each message of a channel has its label
_ANY_MARK: Final = "all"


@dataclass(frozen=True)
class Recognition:
    """What a client asks for."""

    start: JsonObject  # its first message
    container: bool
    encoding: str
    sample_rate: int
    model: str  # empty: the usual one
    language: str
    told_language: str  # as the client has named it; empty if the model finds out
    partials: bool
    speakers: bool
    labels: tuple[str, ...]  # of channels that come apart
    delay_ms: int  # how long after its end a word may still change; 0: until its segment ends
    silence_ms: int  # how long a silence is that ends an utterance; 0: none does
    marks: frozenset[str] | None  # that may be written; None: all
    hotwords: Sequence[object]
    warnings: tuple[tuple[str, str], ...]  # each with its type and its sentence

    def options(self) -> JsonObject:
        """Return the options of a session that do not depend on when words are final."""
        asked: JsonObject = {"model": self.model} if self.model else {}
        if self.language != LANGUAGE:
            asked["language"] = self.language
        if self.hotwords:
            asked["hotwords"] = self.hotwords
        if self.speakers:
            asked["speakers"] = True
        return asked


def read(start: JsonObject, models: Mapping[str, Languages]) -> Recognition:
    """Read the first message. Raise WireError if it is not valid."""
    config = part(start, "transcription_config")
    container, encoding, sample_rate = _audio(part(start, "audio_format"))
    diarization = config.get("diarization") or "none"
    if diarization not in DIARIZATIONS:
        why = f"'diarization' must be one of {', '.join(DIARIZATIONS)}, not {quote(diarization)}."
        raise bad(ErrorCode.BAD_OPTION, why)
    labels = _labels(config) if "channel" in str(diarization) else ()
    if labels and container:
        raise bad(ErrorCode.UNSUPPORTED_AUDIO, "The audio of channels must be raw, not a file.")
    if part(config, "transcript_filtering_config").get("replacements"):
        raise bad(ErrorCode.UNSUPPORTED, "'replacements' are not supported: no words are replaced. Leave them out.")
    model = str(config.get("model") or config.get("operating_point") or "")
    language, told = _language(config, client_values.languages_of(model, models))
    speakers = SPEAKER in str(diarization)
    delay_s = client_values.number("max_delay", config.get("max_delay") or _USUAL_DELAY_S, _WIDE)
    trigger = part(config, "conversation_config").get("end_of_utterance_silence_trigger") or 0
    return Recognition(
        start,
        container,
        encoding,
        sample_rate,
        model if model in models else "",
        language,
        told,
        client_values.flag("enable_partials", config.get("enable_partials")),
        speakers,
        labels,
        0 if speakers or delay_s >= _USUAL_DELAY_S else round(1000 * delay_s),
        round(1000 * client_values.number("end_of_utterance_silence_trigger", trigger, _WIDE)),
        _marks(part(config, "punctuation_overrides")),
        hints(_vocabulary(config.get("additional_vocab"))),
        tuple(_warnings(start, config)),
    )


def changed(before: Recognition, command: JsonObject, models: Mapping[str, Languages]) -> Recognition:
    """Return what counts after a message that changes the config. Raise WireError if it changes what must stay."""
    config = {"language": before.told_language, **part(before.start, "transcription_config")}
    others = {name: value for name, value in part(command, "transcription_config").items() if value is not None}
    for name, value in others.items():
        if name not in CHANGEABLE and value != config.get(name):
            raise bad(ErrorCode.BAD_OPTION, f"{quote(name)} cannot change; only {', '.join(CHANGEABLE)} can.")
    return read({**before.start, "transcription_config": {**config, **others}}, models)


def _audio(format: JsonObject) -> tuple[bool, str, int]:
    """Return whether the audio is a recording in any format, and otherwise its encoding and rate."""
    kind = format.get("type") or "file"
    if kind == "file":
        return True, "pcm_s16le", SAMPLE_RATE
    if kind != "raw":
        raise bad(ErrorCode.UNSUPPORTED_AUDIO, f"'type' of 'audio_format' must be raw or file, not {quote(kind)}.")
    encoding = format.get("encoding")
    if encoding not in ENCODINGS:
        names = ", ".join(ENCODINGS)
        raise bad(ErrorCode.UNSUPPORTED_AUDIO, f"'encoding' must be one of {names}, not {quote(encoding)}.")
    try:
        rate = client_values.whole("sample_rate", format.get("sample_rate"), SAMPLE_RATES)
    except WireError as wrong:
        raise bad(ErrorCode.UNSUPPORTED_AUDIO, wrong.message) from None
    return False, str(encoding), rate


def _language(config: JsonObject, languages: Languages) -> tuple[str, str]:
    """Return the language for the session, and as the client has named it."""
    name = config.get("language") or "en"
    if not isinstance(name, str) or len(name) > LONGEST_LANGUAGE or not is_unicode(name):
        raise bad(ErrorCode.BAD_OPTION, f"'language' must be the name of a language such as en, not {quote(name)}.")
    try:
        language = session_language("language", [name], languages)
    except WireError as wrong:
        if is_english(name):  # clients name it if they are not told a language
            return LANGUAGE, ""
        raise WireError(ErrorCode.UNKNOWN_MODEL, CloseCode.BAD_MESSAGE, wrong.message) from None
    if language != LANGUAGE or not languages:
        return language, "" if name.lower() in (LANGUAGE, "multi") else name
    for hint in client_values.texts("language_hints", config.get("language_hints")):
        if hint in languages:
            return hint, hint
    return LANGUAGE, ""


def _labels(config: JsonObject) -> tuple[str, ...]:
    labels = client_values.texts("channel_diarization_labels", config.get("channel_diarization_labels"))
    short = all(len(label) <= _LONGEST_LABEL and is_unicode(label) for label in labels)
    if not 0 < len(labels) == len(set(labels)) <= MOST_CHANNELS or not short:
        right = f"a list of 1 to {MOST_CHANNELS} different names of at most {_LONGEST_LABEL} characters"
        raise bad(ErrorCode.BAD_OPTION, f"With channels, 'channel_diarization_labels' must be {right}.")
    return tuple(labels)


def _marks(overrides: JsonObject) -> frozenset[str] | None:
    if overrides.get("permitted_marks") is None:
        return None
    marks = client_values.texts("permitted_marks", overrides["permitted_marks"])
    return None if _ANY_MARK in marks else frozenset(marks)


def _vocabulary(entries: object) -> list[object]:
    """Return the words of a list, whose entries are words or have a word as their content."""
    if entries is not None and not isinstance(entries, list):
        raise bad(ErrorCode.BAD_OPTION, f"'additional_vocab' must be a list, not {quote(entries)}.")
    return [entry.get("content") if isinstance(entry, dict) else entry for entry in entries or ()]


def _warnings(start: JsonObject, config: JsonObject) -> list[tuple[str, str]]:
    warnings = []
    if part(start, "translation_config").get("target_languages"):
        why = "Nothing is translated here: the words come as they are spoken."
        warnings.append(("empty_translation_target_list", why))
    if part(config, "speaker_diarization_config").get("speakers"):
        warnings.append(("speaker_id", "The service knows no identifiers of speakers: it finds out who speaks."))
    return warnings
