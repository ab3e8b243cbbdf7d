"""OpenAI's format of uploaded recordings: `POST /v1/audio/transcriptions`, and its models. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from streamer.base.codes import ErrorCode
from streamer.base.events import Final as FinalMessage
from streamer.base.events import Partial, ServerMessage, content
from streamer.base.json_types import JsonObject
from streamer.base.limits import DEFAULT_MODEL, LANGUAGE, LONGEST_PROMPT
from streamer.base.speakers import Segment, parts_of
from streamer.base.text import either, is_spaceless, json_text, printable_lines, separator
from streamer.base.transcript import TranscriptSegment
from streamer.wire.dialects.dialect import Languages, session_language
from streamer.wire.errors import WireError, bad, quote
from streamer.wire.json_body import JsonReader
from streamer.wire.upload import JSON, SESSION_OPTIONS, TEXT, BodyReader, Problem, UploadFormat, flag

PATH: Final = "/v1/audio/transcriptions"
TRANSLATIONS: Final = "/v1/audio/translations"
MODELS: Final = "/v1/models"
_BASE: Final = "/v1"
_OTHER_BASES: Final = ("", "/openai/v1", "/openai")  # of clients that leave it out, and of Azure's
AZURE_DEPLOYMENT: Final = "/openai/deployments/{model}"  # the model of a request is in its path there
VERBOSE: Final = "verbose_json"
DIARIZED: Final = "diarized_json"
FORMATS: Final = ("json", "text", "srt", "vtt", VERBOSE, DIARIZED)
LOGPROBS: Final = "logprobs"  # a word of `include`
_SPEAKERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"  # as OpenAI names them; A also if nobody knows who speaks
GRANULARITIES: Final = ("word", "segment")
_LEAST_CONFIDENCE: Final = 1e-4
# OpenAI answers 400 to a bad recording as well as to a bad request.
_BAD_REQUESTS: Final = (415, 422)


class OpenAIUpload(UploadFormat):
    """An upload with OpenAI's options. Options without a meaning here are ignored: clients send many of them."""

    protocol = "openai"

    def __init__(self, models: Mapping[str, Languages] = {}, *, translates: bool = False) -> None:
        """`models`: the service's models by public name. Any other name means the default model.

        `translates`: whether the text is wanted in English, whatever is spoken.
        """
        super().__init__()
        self._translates = translates
        if translates:
            self.take("translate", "true")
        self.take("written", "true")  # OpenAI's clients expect marks and capitals
        self._models = models
        self._requested_languages: list[str] = []
        self._file_begun = False  # from then on, the language of the session is fixed
        self._format = "json"
        self._stream: bool | None = None
        self._granularities: set[str] = set()
        self._logprobs = False
        self._segments = 0  # that were sent as events
        self._sent = ""  # all deltas so far
        self._segment = ""  # the deltas of the running segment

    def query(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Take options of a session by our own names. OpenAI has no options in the query."""
        for name, value in pairs:
            if name in SESSION_OPTIONS and name != "multichannel":
                self.take(name, value)

    def reader(self, content_type: str, beginning: bytes) -> BodyReader | None:
        """Return the reader of a form, or of JSON with the recording in base64."""
        if self.is_json(content_type, beginning):
            return JsonReader()
        return super().reader(content_type, beginning)

    def field(self, name: str, value: str, *, late: bool) -> None:
        """Take a field of the form. Most clients send the file first, so nearly all fields may follow it."""
        name = name.removesuffix("[]")
        if name == "response_format":
            if value not in FORMATS:
                raise bad(ErrorCode.BAD_OPTION, f"'response_format' must be {either(FORMATS)}, not {quote(value)}.")
            self._format = value
            if value == DIARIZED and not late:
                self.take("speakers", "true")
        elif name == "stream":
            self._stream = flag(name, value)
        elif name == "timestamp_granularities":
            if value not in GRANULARITIES:
                raise bad(ErrorCode.BAD_OPTION, f"'{name}[]' must be word or segment, not {quote(value)}.")
            self._granularities.add(value)
        elif name == "include":
            self._logprobs = self._logprobs or value == LOGPROBS
        elif name in ("language", "languages"):
            self._requested_languages.append(value)
            if late:
                self._language()
        elif name == "model" and value in self._models and not late:
            self.take("model", value)
        elif name == "prompt" and not late:
            self.take("prompt", value[-LONGEST_PROMPT:])  # the end is what was said last
        elif name == "keywords" and not late:
            self._listen_for(value)
        elif name == "hotwords" and not late:  # of speaches' clients: one text with all of them
            for phrase in value.split(","):
                self._listen_for(phrase.strip())

    def _listen_for(self, phrase: str) -> None:
        with suppress(WireError):  # a hotword is only a hint: an invalid one is no reason to refuse the recording
            self.take("hotwords", json.dumps([phrase]))

    def look(self, data: bytes) -> None:
        """Fix the language of the session: all fields that precede the file have come."""
        if self._requested_languages and not self._file_begun:
            self.take("language", self._language())
        self._file_begun = True

    def settle(self) -> None:
        """Note that no more fields can come."""
        self._stream = bool(self._stream)

    @property
    def streams(self) -> bool | None:
        """Whether the answer is a stream of events."""
        return self._stream

    def event(self, message: ServerMessage) -> bytes:
        """Return an event with the new text that will not change any more."""
        if isinstance(message, Partial):
            return self._delta(message.text[: message.stable])
        if isinstance(message, FinalMessage):
            delta = self._delta(message.text)
            self._segment = ""
            return delta + self._segment_event(message)
        return b""

    def document(self) -> tuple[str, str]:
        """Return the type and the text of the whole answer."""
        transcript = self.transcript
        if self._format == "text":
            return TEXT, printable_lines(transcript.text) + "\n"
        if self._format in ("srt", "vtt"):
            return TEXT, transcript.render(self._format)
        usage = {"type": "duration", "seconds": math.ceil(transcript.duration_ms / 1000)}
        if self._format == "json":
            return JSON, _json({"text": transcript.text, **self._probabilities(), "usage": usage})
        if self._format == DIARIZED:
            parts = [part for segment in transcript.segments for part in parts_of(segment)]
            segments = [_diarized(number, part) for number, part in enumerate(parts)]
            diarized = {"task": "transcribe", "duration": transcript.duration_ms / 1000, "text": transcript.text}
            return JSON, _json({**diarized, "segments": segments, "usage": usage})
        verbose: JsonObject = {
            "task": "translate" if self._translates else "transcribe",
            "language": "english"
            if self._languages == () or self._translates
            else self._session_options.get("language", LANGUAGE),
            "duration": transcript.duration_ms / 1000,
            "text": transcript.text,
        }
        if self._granularities != {"word"}:
            verbose["segments"] = [_segment(number, each) for number, each in enumerate(transcript.segments)]
        if "word" in self._granularities:
            verbose["words"] = [
                {"word": word["word"], "start": word["start_ms"] / 1000, "end": word["end_ms"] / 1000}
                for word in transcript.words
            ]
        return JSON, _json({**verbose, "usage": usage})

    def refusal(self, problem: Problem) -> tuple[int, str]:
        """Return the status and the JSON of an answer without a transcript."""
        status = 400 if problem.status in _BAD_REQUESTS else problem.status
        return status, _json(_error(problem))

    def last_event(self, problem: Problem | None) -> bytes:
        """Return the last event."""
        if problem is not None:
            return b"event: error\n" + _data(_error(problem))
        done = {"type": "transcript.text.done", "text": self._sent, **self._probabilities()}
        return _data(done) + b"data: [DONE]\n\n"

    @property
    def _languages(self) -> Languages:
        return self._models.get(self._session_options.get("model", DEFAULT_MODEL), ())

    def _language(self) -> str:
        """Return the language of the session. Raise WireError if the model lacks it."""
        return session_language("language", self._requested_languages, self._languages)

    def _probabilities(self) -> JsonObject:
        """Return the probabilities of the words, if the client wants them."""
        words = self.transcript.words if self._logprobs else []
        probabilities = logprobs((word["word"], word["confidence"]) for word in words)
        return {"logprobs": probabilities} if self._logprobs else {}

    def _segment_event(self, final: FinalMessage) -> bytes:
        if self._format != DIARIZED:
            return b""
        events = b""
        for part in parts_of(content(final)):
            events += _data(_diarized(self._segments, part))
            self._segments += 1
        return events

    def _delta(self, text: str) -> bytes:
        """Return an event with what this text of the running segment has more than the deltas so far."""
        if len(text) <= len(self._segment):
            return b""
        new = text[len(self._segment) :]
        delta = new if self._segment else separator(self._sent, new) + new
        self._sent += delta
        self._segment = text
        return _data({"type": "transcript.text.delta", "delta": delta})


def with_bases(path: str) -> tuple[str, ...]:
    """Return one of OpenAI's paths, and what it is with the other bases that clients use."""
    return path, *(f"{base}{path.removeprefix(_BASE)}" for base in _OTHER_BASES)


def deployed(path: str) -> str:
    """Return the pattern of one of OpenAI's paths for a deployment of Azure."""
    return f"{AZURE_DEPLOYMENT}{path.removeprefix(_BASE)}"


def models(names: Iterable[str]) -> JsonObject:
    """Return the list of models in OpenAI's form."""
    return {"object": "list", "data": [model(name) for name in names]}


def model(name: str) -> JsonObject:
    """Return one model in OpenAI's form. Requests may name any: an unknown name means the default model."""
    return {"id": name, "object": "model", "created": 0, "owned_by": "streamer"}


def no_translations() -> Problem:
    """Return the problem of a request for a translation where no model has several languages."""
    return Problem(
        ErrorCode.UNSUPPORTED, f"There is no model for translations here: POST the recording to {PATH} instead."
    )


def _segment(number: int, segment: TranscriptSegment) -> JsonObject:
    """Return a segment with all fields that OpenAI's clients require, also those without a meaning here."""
    text = segment["text"]
    return {
        "id": number,
        "seek": 0,
        "start": segment["start_ms"] / 1000,
        "end": segment["end_ms"] / 1000,
        "text": text if is_spaceless(text[:1]) else f" {text}",  # Whisper's words begin with a space
        "tokens": [],
        "temperature": 0.0,
        "avg_logprob": _logarithm(segment["confidence"]),
        "compression_ratio": 1.0,
        "no_speech_prob": 0.0,
    }


def _diarized(number: int, part: Segment) -> JsonObject:
    """Return a segment, or a part of one, with its speaker."""
    times = {"start": part["start_ms"] / 1000, "end": part["end_ms"] / 1000}
    name = {"type": "transcript.text.segment", "id": f"seg_{number}"}
    speaker = part.get("speaker") or 0
    label = _SPEAKERS[speaker] if speaker < len(_SPEAKERS) else str(speaker + 1)
    return {**name, **times, "text": part["text"], "speaker": label}


def logprobs(words: Iterable[tuple[str, float]]) -> list[JsonObject]:
    """Return words with the logarithms of their confidences, as OpenAI writes those of its tokens."""
    entries: list[JsonObject] = []
    last = ""
    for word, confidence in words:
        token = separator(last, word) + word
        entries.append({"token": token, "logprob": _logarithm(confidence), "bytes": list(token.encode())})
        last = word
    return entries


def _logarithm(confidence: float) -> float:
    return round(math.log(max(_LEAST_CONFIDENCE, confidence)), 4)


def error_of(code: ErrorCode, message: str, status: int) -> JsonObject:
    """Return the content of an error in OpenAI's form. The HTTP status decides the kind of the error."""
    kind, word = "server_error" if status >= 500 else "invalid_request_error", str(code)
    if code is ErrorCode.UNAUTHORIZED:
        word = "invalid_api_key"
    elif status == 429:
        kind, word = "rate_limit_error", "rate_limit_exceeded"
    return {"message": message, "type": kind, "param": None, "code": word}


def _error(problem: Problem) -> JsonObject:
    return {"error": error_of(problem.code, problem.message, problem.status)}


def _data(content: JsonObject) -> bytes:
    text = json_text(content, separators=(",", ":"))
    return f"data: {text}\n\n".encode("utf-8", "replace")


def _json(content: JsonObject) -> str:
    return json_text(content) + "\n"
