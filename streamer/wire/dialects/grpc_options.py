"""What clients of NVIDIA Riva and Google's Speech-to-Text may ask for: a configuration, as the options of a session.

A configuration is a plain object with the names of the vendor's fields, so nothing here knows gRPC. `FIELDS` is what
`docs/reference/compatibility.md` shows, and a test compares both. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from streamer.base.codes import ErrorCode
from streamer.base.json_types import JsonObject
from streamer.base.limits import (
    AFTER_TEXT_BOUNDS_MS,
    DEFAULT_MODEL,
    HEAVIEST_HOTWORD,
    HOTWORD_WEIGHT,
    MOST_ALTERNATIVES,
    READER,
)
from streamer.wire.dialects.client_values import any_part
from streamer.wire.dialects.dialect import Languages, session_language, start
from streamer.wire.errors import bad, quote
from streamer.wire.options import hints

# The boost that counts as the usual weight: the default of Riva's programs.
USUAL_BOOST: Final = 4.0
# Samples without a container, by the vendors' names.
ENCODINGS: Final = {"LINEAR_PCM": "pcm_s16le", "LINEAR16": "pcm_s16le", "MULAW": "mulaw", "ALAW": "alaw"}
# The decoder finds these in the data itself.
CONTAINED: Final = ("FLAC", "OGGOPUS", "OGG_OPUS", "MP3", "WEBM_OPUS", "MP4_AAC", "M4A_AAC", "MOV_AAC")
_UNSPECIFIED: Final = ("", "ENCODING_UNSPECIFIED", "AUDIO_ENCODING_UNSPECIFIED")
# How recordings begin: WAV, FLAC, Ogg, WebM, MP3 with a tag. Bare samples of speech do not.
_HEADERS: Final = (b"RIFF", b"fLaC", b"OggS", b"\x1aE\xdf\xa3", b"ID3")
_PAUSES_MS: Final = {"ENDPOINTING_SENSITIVITY_SUPERSHORT": 400, "ENDPOINTING_SENSITIVITY_SHORT": 600}
NO_FIELD: Final = ""


class Field(NamedTuple):
    """What may be asked for: the fields of the three formats, and what becomes of them."""

    riva: str
    v1: str
    v2: str
    meaning: str


FIELDS: Final = (
    Field(
        "encoding",
        "encoding",
        "explicit_decoding_config",
        "see below. Without one (v2: `auto_decoding_config`), the beginning of the audio says it",
    ),
    Field("sample_rate_hertz", "sample_rate_hertz", "sample_rate_hertz", "8000 to 192000; needed for bare samples"),
    Field("audio_channel_count", "audio_channel_count", "audio_channel_count", "1 to 8; a container says it itself"),
    Field(
        "enable_separate_recognition_per_channel",
        "enable_separate_recognition_per_channel",
        "multi_channel_mode",
        "each channel is recognised separately, with `channel_tag` from 1; otherwise they are mixed",
    ),
    Field("model", "model", "model", "the public name of a model of the service; any other name means `default`"),
    Field(
        "language_code",
        "language_code",
        "language_codes",
        "the first language that the model has; `multi`, `auto` or nothing: it finds out",
    ),
    Field(NO_FIELD, "alternative_language_codes", NO_FIELD, "further languages, after `language_code`"),
    Field("interim_results", "interim_results", "interim_results", "text that may still change, with `stability`"),
    Field("max_alternatives", "max_alternatives", "max_alternatives", "so many texts of a final, at most 10"),
    Field("profanity_filter", "profanity_filter", "profanity_filter", "swear words have only their first letter"),
    Field("speech_contexts", "speech_contexts", NO_FIELD, "phrases are hotwords. A boost of 4 is the usual weight"),
    Field(NO_FIELD, "adaptation", "adaptation", "phrases of `phrase_sets` are hotwords; references are ignored"),
    Field(
        "enable_word_time_offsets",
        "enable_word_time_offsets",
        "enable_word_time_offsets",
        "finals have words with their times",
    ),
    Field(NO_FIELD, "enable_word_confidence", "enable_word_confidence", "finals have words with their confidence"),
    Field(
        "enable_automatic_punctuation",
        "enable_automatic_punctuation",
        "enable_automatic_punctuation",
        "the written form: marks, capitals, digits. It has one form only",
    ),
    Field(NO_FIELD, "enable_spoken_punctuation", "enable_spoken_punctuation", "spoken marks are written, in that form"),
    Field(
        "diarization_config",
        "diarization_config",
        "diarization_config",
        "each word has its speaker, if the service can tell speakers apart",
    ),
    Field("endpointing_config", NO_FIELD, "endpointing_sensitivity", "the pause that ends a segment, at least 400 ms"),
    Field(NO_FIELD, "single_utterance", NO_FIELD, "the first final is the last, after `END_OF_SINGLE_UTTERANCE`"),
    Field(
        NO_FIELD,
        "enable_voice_activity_events",
        "enable_voice_activity_events",
        "`SPEECH_ACTIVITY_BEGIN` and `SPEECH_ACTIVITY_END`",
    ),
    Field(
        NO_FIELD,
        "voice_activity_timeout",
        "voice_activity_timeout",
        "the session ends if nobody begins to speak for so long, or after speech (v1: with `SPEECH_ACTIVITY_TIMEOUT`)",
    ),
)


@dataclass
class Wishes:
    """What one request asks for, whatever its format calls it."""

    encoding: str = ""  # the vendor's name; "" if it says none
    sample_rate: int = 0
    channels: int = 1
    separate: bool = False
    model: str = ""
    languages: tuple[str, ...] = ()
    interim: bool = False
    alternatives: int = 1
    masked: bool = False
    phrases: tuple[tuple[str, float], ...] = ()  # with their boosts
    word_times: bool = False
    word_confidence: bool = False
    written: bool = False
    dictation: bool = False
    speakers: bool | int = False
    pause_ms: int = 0  # 0: the usual one
    single_utterance: bool = False
    activity: bool = False
    # How long nobody may speak before the session ends, at its start and after speech; 0: for ever.
    first_silence_ms: int = 0
    last_silence_ms: int = 0

    @property
    def words(self) -> bool:
        """Whether finals have words."""
        return self.word_times or self.word_confidence or bool(self.speakers)

    def samples(self, beginning: bytes) -> str | None:
        """Return the encoding of bare samples; None if audio with this beginning is in a container.

        Raise WireError if it is in an encoding that nothing here can decode, or a field is missing.
        """
        if self.encoding in CONTAINED or beginning.startswith(_HEADERS):
            return None
        if self.encoding in _UNSPECIFIED:
            return "pcm_s16le" if self.sample_rate else None
        if self.encoding not in ENCODINGS:
            names = ", ".join((*ENCODINGS, *CONTAINED))
            raise bad(ErrorCode.UNSUPPORTED_AUDIO, f"'encoding' must be one of {names}, not {quote(self.encoding)}.")
        if not self.sample_rate:
            raise bad(ErrorCode.BAD_OPTION, f"'sample_rate_hertz' is needed with 'encoding' {quote(self.encoding)}.")
        return ENCODINGS[self.encoding]

    def start(self, models: Mapping[str, Languages], samples: str | None, channels: int, *, recorded: bool) -> str:
        """Return the `start` of the session. `channels`: of the audio, as it is or decoded.

        Raise WireError if an option is not valid.
        """
        model = self.model if self.model in models else DEFAULT_MODEL
        audio: JsonObject = {} if samples is None else {"encoding": samples, "sample_rate": self.sample_rate}
        return start(
            **audio,
            channels=channels,
            multichannel=self.separate,
            model=model,
            language=session_language("language_code", self.languages, models.get(model, ())),
            partials=self.interim and not recorded,
            alternatives=min(self.alternatives, MOST_ALTERNATIVES) if self.alternatives > 1 else 0,
            profanity="mask" if self.masked else "keep",
            hotwords=hints(_hotwords(self.phrases)),
            written=self.written,
            dictation=self.dictation,
            speakers=self.speakers,
            speech=self.activity or bool(self.first_silence_ms or self.last_silence_ms),
            second_pass=READER,
            endpoint={"after_text_ms": self.pause_ms} if self.pause_ms else {},
        )


def riva_wishes(config: JsonObject, interim: bool) -> Wishes:
    """Read the configuration of a client of Riva."""
    endpoint = any_part(config, "endpointing_config")
    diarization = any_part(config, "diarization_config")
    return Wishes(
        encoding=str(config.get("encoding", "")),
        sample_rate=_whole(config, "sample_rate_hertz"),
        channels=_whole(config, "audio_channel_count") or 1,
        separate=bool(config.get("enable_separate_recognition_per_channel")),
        model=str(config.get("model", "")),
        languages=_texts([config.get("language_code")]),
        interim=interim,
        alternatives=_whole(config, "max_alternatives"),
        masked=bool(config.get("profanity_filter")),
        phrases=tuple(_contexts(config)),
        word_times=bool(config.get("enable_word_time_offsets")),
        word_confidence=bool(config.get("enable_word_time_offsets")),
        written=bool(config.get("enable_automatic_punctuation")),
        speakers=bool(diarization.get("enable_speaker_diarization")),
        pause_ms=_pause_ms(_whole(endpoint, "stop_history_eou") or _whole(endpoint, "stop_history")),
    )


def google_v1_wishes(config: JsonObject, streaming: JsonObject) -> Wishes:
    """Read the configuration of a client of v1. `streaming`: what it asks for besides in a live session."""
    diarization = any_part(config, "diarization_config")
    others = config.get("alternative_language_codes")
    written = bool(config.get("enable_automatic_punctuation"))
    return Wishes(
        encoding=str(config.get("encoding", "")),
        sample_rate=_whole(config, "sample_rate_hertz"),
        channels=_whole(config, "audio_channel_count") or 1,
        separate=bool(config.get("enable_separate_recognition_per_channel")),
        model=str(config.get("model", "")),
        languages=_texts([config.get("language_code"), *_list(others)]),
        interim=bool(streaming.get("interim_results")),
        alternatives=_whole(config, "max_alternatives"),
        masked=bool(config.get("profanity_filter")),
        phrases=(*_contexts(config), *_phrase_sets(_list(any_part(config, "adaptation").get("phrase_sets")))),
        word_times=bool(config.get("enable_word_time_offsets")),
        word_confidence=bool(config.get("enable_word_confidence")),
        written=written,
        dictation=written and bool(config.get("enable_spoken_punctuation")),
        speakers=_voices(diarization) if diarization.get("enable_speaker_diarization") else False,
        single_utterance=bool(streaming.get("single_utterance")),
        activity=bool(streaming.get("enable_voice_activity_events")),
        first_silence_ms=_silence_ms(streaming, "speech_start_timeout"),
        last_silence_ms=_silence_ms(streaming, "speech_end_timeout"),
    )


def google_v2_wishes(config: JsonObject, streaming: JsonObject) -> Wishes:
    """Read the configuration of a client of v2. `streaming`: what it asks for besides in a live session."""
    features = any_part(config, "features")
    decoding = any_part(config, "explicit_decoding_config")
    sets = [any_part(entry, "inline_phrase_set") for entry in _list(any_part(config, "adaptation").get("phrase_sets"))]
    written = bool(features.get("enable_automatic_punctuation"))
    return Wishes(
        encoding=str(decoding.get("encoding", "")),
        sample_rate=_whole(decoding, "sample_rate_hertz"),
        channels=_whole(decoding, "audio_channel_count") or 1,
        separate=features.get("multi_channel_mode") == "SEPARATE_RECOGNITION_PER_CHANNEL",
        model=str(config.get("model", "")),
        languages=_texts(_list(config.get("language_codes"))),
        interim=bool(streaming.get("interim_results")),
        alternatives=_whole(features, "max_alternatives"),
        masked=bool(features.get("profanity_filter")),
        phrases=tuple(_phrase_sets(sets)),
        word_times=bool(features.get("enable_word_time_offsets")),
        word_confidence=bool(features.get("enable_word_confidence")),
        written=written,
        dictation=written and bool(features.get("enable_spoken_punctuation")),
        speakers=_voices(any_part(features, "diarization_config")) if "diarization_config" in features else False,
        pause_ms=_PAUSES_MS.get(str(streaming.get("endpointing_sensitivity", "")), 0),
        activity=bool(streaming.get("enable_voice_activity_events")),
        first_silence_ms=_silence_ms(streaming, "speech_start_timeout"),
        last_silence_ms=_silence_ms(streaming, "speech_end_timeout"),
    )


def _voices(diarization: JsonObject) -> bool | int:
    """Return how many speakers there are, if the client knows it: then its fewest and its most are the same."""
    fewest, most = _whole(diarization, "min_speaker_count"), _whole(diarization, "max_speaker_count")
    return most if fewest == most > 1 else True


def _pause_ms(milliseconds: int) -> int:
    shortest, longest = AFTER_TEXT_BOUNDS_MS
    return min(max(milliseconds, shortest), longest) if milliseconds > 0 else 0


def _silence_ms(streaming: JsonObject, name: str) -> int:
    """Return a duration, which is text such as 1.5s, in milliseconds; 0 if there is none."""
    value = any_part(streaming, "voice_activity_timeout").get(name)
    return max(0, round(1000 * float(value.removesuffix("s")))) if isinstance(value, str) else 0


def _contexts(config: JsonObject) -> Iterator[tuple[str, float]]:
    for context in _list(config.get("speech_contexts")):
        boost = _boost(context)
        for phrase in _list(context.get("phrases") if isinstance(context, dict) else None):
            yield str(phrase), boost


def _phrase_sets(sets: Iterable[object]) -> Iterator[tuple[str, float]]:
    for each in sets:
        usual = _boost(each)
        for phrase in _list(each.get("phrases") if isinstance(each, dict) else None):
            if isinstance(phrase, dict):
                yield str(phrase.get("value", "")), _boost(phrase) or usual


def _boost(part: object) -> float:
    """Return the boost of phrases; 0 if there is none."""
    boost = part.get("boost", 0.0) if isinstance(part, dict) else 0.0
    return float(boost) if isinstance(boost, (int, float)) and math.isfinite(boost) else 0.0


def _hotwords(phrases: Iterable[tuple[str, float]]) -> Iterator[JsonObject]:
    for phrase, boost in phrases:
        if boost >= 0:  # a negative one asks for a word to be avoided, which nothing here can do
            yield {"text": phrase, "weight": min(HEAVIEST_HOTWORD, boost / USUAL_BOOST) if boost else HOTWORD_WEIGHT}


def _texts(values: Iterable[object]) -> tuple[str, ...]:
    return tuple(value for value in values if isinstance(value, str) and value)


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _whole(part: JsonObject, name: str) -> int:
    value = part.get(name, 0)
    return value if isinstance(value, int) else 0
