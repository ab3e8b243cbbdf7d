"""The formats of NVIDIA Riva and Google's Speech-to-Text (v1, v2), which are spoken over gRPC: one call, one session.

Requests and responses are plain objects with the names of the vendor's fields, so nothing here knows gRPC. Pure.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import ClassVar, Final

from streamer.base.codes import ErrorCode
from streamer.base.events import Done, Error, Partial, ServerMessage, Speakers, Speech, SpeechState, Word
from streamer.base.events import Final as FinalMessage
from streamer.base.json_types import JsonObject
from streamer.base.speakers import TimedTurn, with_speakers
from streamer.wire.dialects.client_values import any_part
from streamer.wire.dialects.dialect import FLUSH, KEEPALIVE, STOP, Dialect, Hangup, Languages, Opening, Step
from streamer.wire.dialects.grpc_options import Wishes, google_v1_wishes, google_v2_wishes, riva_wishes
from streamer.wire.errors import CloseCode, bad
from streamer.wire.native import encode
from streamer.wire.upload import Problem

# The client has sent all of its audio.
END: Final = ""
RECORDING: Final = b"RIFF"  # how one in a container may begin
# How certain it is that text stays: what will not change any more, and what may.
STABLE: Final = 0.9
UNSTABLE: Final = 0.1


class Status(IntEnum):
    """The numbers with which a call may end."""

    OK = 0
    CANCELLED = 1
    INVALID_ARGUMENT = 3
    NOT_FOUND = 5
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    ABORTED = 10
    OUT_OF_RANGE = 11
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


# Any other code is a mistake in the request.
_STATUSES: Final[Mapping[ErrorCode, Status]] = {
    ErrorCode.UNAUTHORIZED: Status.UNAUTHENTICATED,
    ErrorCode.BAD_ORIGIN: Status.PERMISSION_DENIED,
    ErrorCode.ENDED_BY_OPERATOR: Status.ABORTED,
    ErrorCode.FULL: Status.RESOURCE_EXHAUSTED,
    ErrorCode.BUSY: Status.RESOURCE_EXHAUSTED,
    ErrorCode.TOO_MANY_SESSIONS: Status.RESOURCE_EXHAUSTED,
    ErrorCode.AUDIO_USED_UP: Status.RESOURCE_EXHAUSTED,
    ErrorCode.HOTWORDS_USED_UP: Status.RESOURCE_EXHAUSTED,
    ErrorCode.TOO_FAST: Status.RESOURCE_EXHAUSTED,
    ErrorCode.NOT_FOUND: Status.NOT_FOUND,
    ErrorCode.IDLE: Status.OUT_OF_RANGE,
    ErrorCode.NO_START: Status.OUT_OF_RANGE,
    ErrorCode.NOT_READY: Status.UNAVAILABLE,
    ErrorCode.SHUTTING_DOWN: Status.UNAVAILABLE,
    ErrorCode.FAILED: Status.UNAVAILABLE,
    ErrorCode.INTERNAL: Status.INTERNAL,
}


def status_of(code: ErrorCode) -> Status:
    """Return the status of a call that ends with this code."""
    return _STATUSES.get(code, Status.INVALID_ARGUMENT)


class SpeechCall(Dialect):
    """One call, with one session. `settings` of its opening are the fields of the first request, as JSON."""

    numbers_of_speakers: ClassVar[int]  # the number of the first one
    timeout_event: ClassVar[str] = ""  # when nobody has spoken for too long

    def __init__(self, opening: Opening, beginning: bytes = b"", *, recorded: bool = False) -> None:
        """`beginning`: the first audio. `recorded`: all of the audio is there, and the answer is one response."""
        self.request: JsonObject = json.loads(opening.settings)
        if "uri" in self.request or "uri" in any_part(self.request, "audio"):
            raise bad(ErrorCode.UNSUPPORTED, "The service fetches no recording: send it as 'content'.")
        self.wishes = self.read()
        self._models = opening.models
        self._recorded = recorded
        self._samples = self.wishes.samples(beginning)
        self.container = self._samples is None
        self.separate = self.wishes.separate
        # The header of a container says how many channels it has, so a session for each channel waits for it.
        self._started = not (self.container and self.separate)
        self._start = self._begin(1 if self.container else self.wishes.channels)
        self.slots = self.wishes.channels if self.separate and not self.container else 1
        self._stopped = False
        self._uttered = False  # the only final of a single utterance was sent
        self._silent = False  # nobody has spoken for as long as the client allows
        self._speaking: set[int | None] = set()  # channels
        self._spoken_ms: int | None = None  # when somebody has spoken last
        self._channels_with_text: set[int] = set()
        self._finals: list[FinalMessage] = []  # of a recording
        self._error: tuple[ErrorCode, str] | None = None  # what ended the session
        self._odd = False  # the audio ended within a sample, so the transcript is complete

    @classmethod
    def check(cls, opening: Opening) -> None:
        """Raise WireError if a request makes no sense, whatever its audio is."""
        cls(opening, RECORDING)

    # What the formats differ in

    @abstractmethod
    def read(self) -> Wishes:
        """Return what the request asks for."""

    @abstractmethod
    def result(self, alternatives: list[JsonObject], channel: int, audio_ms: int) -> JsonObject:
        """Return the fields of a result that live sessions and recordings share."""

    @abstractmethod
    def word(self, word: Word) -> JsonObject:
        """Return a word of a final."""

    @abstractmethod
    def joinable(self, text: str, *, first: bool, final: bool) -> str:
        """Return a transcript so that clients can join it with the others as it is."""

    def event(self, kind: str, at_ms: int) -> JsonObject:
        """Return the response for an event of speech."""
        return {}

    def rest_of(self, finals: Iterable[FinalMessage]) -> Iterator[JsonObject]:
        """Yield the results of a recording after those of its finals."""
        return iter(())

    @staticmethod
    def refusal(code: ErrorCode, message: str, status: int, request_id: str) -> tuple[int, str]:
        """Return the status of the call, and its details."""
        return status_of(code), message

    # What the client sends

    def greet(self) -> Iterable[Step]:
        """Start the session, unless it must wait for the header of a container."""
        return (self._start,) if self._started else ()

    def receive(self, message: str | bytes) -> Iterator[Step]:
        """Take audio, the fields of a request besides it as JSON, or END."""
        if self._stopped:
            return
        if message == END or self._uttered or self._silent:
            self._stopped = True
            yield STOP
        elif isinstance(message, bytes):
            yield message
        else:
            fields = json.loads(message)
            if any(name in fields for name in ("streaming_config", "config")):
                yield Hangup(Status.INVALID_ARGUMENT, "Only the first request may have a configuration.")
            elif self.ends_utterance(fields) and self._started:
                yield FLUSH

    def ends_utterance(self, fields: JsonObject) -> bool:
        """Return whether a request asks for everything up to here to be final."""
        return False

    def opened(self, channels: int) -> Iterator[Step]:
        """Start the session if it waits for the number of channels."""
        if not self._started:
            self._started = True
            yield self._begin(channels)

    def waiting(self) -> Iterable[Step]:
        """Keep the session open if it has started."""
        return (KEEPALIVE,) if self._started else ()

    def undecodable(self, problem: Problem) -> Iterator[Step]:
        """End the session. A recording that its own client has cut off counts as complete."""
        if not self._started:
            yield Hangup(status_of(problem.code), problem.message)
            return
        if not (self._stopped and problem.code is ErrorCode.DAMAGED_AUDIO and not self._recorded):
            self._error = problem.code, problem.message
        yield STOP

    # What the client gets

    def tell(self, message: ServerMessage) -> Iterator[str]:
        """Yield the responses for a message of the session, as JSON."""
        if isinstance(message, Error):
            if message.fatal and message.code is ErrorCode.ODD_BYTES:
                self._odd = True
                yield from self._whole()
            elif message.fatal:
                self._error = self._error or (message.code, message.message)
        elif self._recorded:
            yield from self._collect(message)
        elif self._uttered:
            return
        elif isinstance(message, Partial):
            yield from self._interim(message)
        elif isinstance(message, FinalMessage):
            yield from self._final(message)
        elif isinstance(message, Speech):
            yield from self._activity(message)
        if not self._recorded and (audio_ms := getattr(message, "audio_ms", None)) is not None:
            yield from self._wait_for_speech(audio_ms)

    def close(self, code: int, reason: str) -> tuple[int, str]:
        """Return the status of the call, and its details."""
        if self._error is not None:
            return status_of(self._error[0]), self._error[1]
        if code == CloseCode.DONE or (self._odd and code == CloseCode.BAD_MESSAGE):
            return Status.OK, ""
        service_failed = code in (CloseCode.FAILED, CloseCode.TRY_LATER)
        return (Status.UNAVAILABLE if service_failed else Status.INVALID_ARGUMENT), reason

    # Inside

    def _begin(self, channels: int) -> str:
        return self.wishes.start(self._models, self._samples, channels, recorded=self._recorded)

    def _interim(self, partial: Partial) -> Iterator[str]:
        if not partial.text:
            return
        channel = partial.channel or 0
        first = channel not in self._channels_with_text
        text = self.joinable(partial.text, first=first, final=False)
        stable = partial.stable + len(text) - len(partial.text) if partial.stable else 0
        pieces = [(text[:stable], STABLE), (text[stable:], UNSTABLE)]
        results = [
            {**self.result([{"transcript": piece}], channel, partial.audio_ms), "stability": stability}
            for piece, stability in pieces
            if piece
        ]
        yield encode({"results": results})

    def _final(self, final: FinalMessage) -> Iterator[str]:
        if self.wishes.single_utterance:
            self._uttered = True
            yield encode(self.event("END_OF_SINGLE_UTTERANCE", final.end_ms))
        yield encode({"results": [{**self._finished(final), "is_final": True}]})

    def _finished(self, final: FinalMessage) -> JsonObject:
        """Return the result for a final."""
        channel = final.channel or 0
        first = channel not in self._channels_with_text
        self._channels_with_text.add(channel)
        best: JsonObject = {
            "transcript": self.joinable(final.text, first=first, final=True),
            "confidence": final.confidence,
        }
        if self.wishes.words:
            best["words"] = [self.word(word) for word in final.words or ()]
        others: list[JsonObject] = [
            {"transcript": self.joinable(other.text, first=first, final=True), "confidence": other.confidence}
            for other in final.alternatives or ()
            if other.text != final.text
        ]
        texts = [best, *others][: max(1, self.wishes.alternatives)]
        return self.result(texts, channel, final.audio_ms if final.cut_ms is None else final.cut_ms)

    def _activity(self, speech: Speech) -> Iterator[str]:
        begins = speech.state is SpeechState.START
        if begins:
            self._speaking.add(speech.channel)
        else:
            self._speaking.discard(speech.channel)
        self._spoken_ms = speech.at_ms
        if self.wishes.activity:
            yield encode(self.event("SPEECH_ACTIVITY_BEGIN" if begins else "SPEECH_ACTIVITY_END", speech.at_ms))

    def _wait_for_speech(self, audio_ms: int) -> Iterator[str]:
        """End the session if nobody has spoken for too long. What was said before still comes."""
        first = self._spoken_ms is None
        limit_ms = self.wishes.first_silence_ms if first else self.wishes.last_silence_ms
        since_ms = self._spoken_ms or 0
        if limit_ms and not (self._silent or self._stopped or self._speaking) and audio_ms - since_ms >= limit_ms:
            self._silent = True
            if self.timeout_event and self.wishes.activity:
                yield encode(self.event(self.timeout_event, since_ms + limit_ms))

    def _collect(self, message: ServerMessage) -> Iterator[str]:
        if isinstance(message, FinalMessage):
            self._finals.append(message)
        elif isinstance(message, Speakers):
            turns = [TimedTurn(turn.start_ms, turn.end_ms, turn.speaker) for turn in message.turns]
            self._finals = [
                with_speakers(final, turns) if final.channel == message.channel else final for final in self._finals
            ]
        elif isinstance(message, Done):
            yield from self._whole()

    def _whole(self) -> Iterator[str]:
        """Yield the response of a recording."""
        if self._recorded and self._error is None:
            finals = sorted(self._finals, key=lambda final: (final.start_ms, final.channel or 0))
            yield encode({"results": [*map(self._finished, finals), *self.rest_of(finals)]})


class RivaCall(SpeechCall):
    """A call of a client of NVIDIA Riva."""

    protocol = "riva"
    path = "nvidia.riva.asr.RivaSpeechRecognition"
    numbers_of_speakers = 0

    def read(self) -> Wishes:
        """Return what the request asks for."""
        streaming = any_part(self.request, "streaming_config")
        config = any_part(streaming or self.request, "config")
        return riva_wishes(config, bool(streaming.get("interim_results")))

    def result(self, alternatives: list[JsonObject], channel: int, audio_ms: int) -> JsonObject:
        """Return the fields of a result that live sessions and recordings share."""
        return {"alternatives": alternatives, "channel_tag": channel + 1, "audio_processed": audio_ms / 1000}

    def word(self, word: Word) -> JsonObject:
        """Return a word of a final. Times are milliseconds."""
        fields: JsonObject = {"word": word.word, "start_time": word.start_ms, "end_time": word.end_ms}
        if word.confidence is not None:
            fields["confidence"] = word.confidence
        if word.speaker is not None:
            fields["speaker_tag"] = word.speaker + self.numbers_of_speakers
        return fields

    def joinable(self, text: str, *, first: bool, final: bool) -> str:
        """Return a transcript with a space behind a final."""
        return f"{text} " if final else text

    def ends_utterance(self, fields: JsonObject) -> bool:
        """Return whether a request asks for everything up to here to be final."""
        return str(any_part(fields, "runtime_config").get("force_eou", "")).lower() == "true"

    def tell(self, message: ServerMessage) -> Iterator[str]:
        """Yield the responses for a message of the session, with the id of the request."""
        request_id = self.request.get("id")
        for text in super().tell(message):
            yield encode({**json.loads(text), "id": request_id}) if request_id else text


class GoogleV1Call(SpeechCall):
    """A call of a client of Google's Speech-to-Text v1."""

    protocol = "google"
    path = "google.cloud.speech.v1.Speech"
    numbers_of_speakers = 1  # 0 is a word whose speaker is not known
    result_time: ClassVar[str] = "result_end_time"
    event_time: ClassVar[str] = "speech_event_time"
    word_times: ClassVar[tuple[str, str]] = ("start_time", "end_time")
    timeout_event = "SPEECH_ACTIVITY_TIMEOUT"

    def read(self) -> Wishes:
        """Return what the request asks for."""
        streaming = any_part(self.request, "streaming_config")
        return google_v1_wishes(any_part(streaming or self.request, "config"), streaming)

    def result(self, alternatives: list[JsonObject], channel: int, audio_ms: int) -> JsonObject:
        """Return the fields of a result that live sessions and recordings share."""
        tag = {"channel_tag": channel + 1} if self.wishes.separate else {}
        language = self.wishes.languages[:1]
        told = {"language_code": language[0].lower()} if language else {}
        return {"alternatives": alternatives, self.result_time: _duration(audio_ms), **tag, **told}

    def word(self, word: Word) -> JsonObject:
        """Return a word of a final."""
        fields: JsonObject = {"word": word.word}
        if self.wishes.word_times or self.wishes.speakers:
            begin, end = self.word_times
            fields |= {begin: _duration(word.start_ms), end: _duration(word.end_ms)}
        if self.wishes.word_confidence and word.confidence is not None:
            fields["confidence"] = word.confidence
        if word.speaker is not None:
            fields |= self.speaker(word.speaker + self.numbers_of_speakers)
        return fields

    def speaker(self, number: int) -> JsonObject:
        """Return the fields of the speaker of a word."""
        return {"speaker_tag": number, "speaker_label": str(number)}

    def joinable(self, text: str, *, first: bool, final: bool) -> str:
        """Return a transcript with a space before it, unless it is the first one."""
        return text if first else f" {text}"

    def event(self, kind: str, at_ms: int) -> JsonObject:
        """Return the response for an event of speech."""
        return {"speech_event_type": kind, self.event_time: _duration(at_ms)}

    def rest_of(self, finals: Iterable[FinalMessage]) -> Iterator[JsonObject]:
        """Yield all words with their speakers as one more result without a text, where clients look for them."""
        words = [self.word(word) for final in finals for word in final.words or ()]
        if self.wishes.speakers and words:
            yield {"alternatives": [{"words": words}]}


class GoogleV2Call(GoogleV1Call):
    """A call of a client of Google's Speech-to-Text v2."""

    path = "google.cloud.speech.v2.Speech"
    result_time = "result_end_offset"
    event_time = "speech_event_offset"
    word_times = ("start_offset", "end_offset")
    timeout_event = ""  # v2 has no name for it

    def read(self) -> Wishes:
        """Return what the request asks for."""
        streaming = any_part(self.request, "streaming_config")
        features = any_part(streaming, "streaming_features")
        return google_v2_wishes(any_part(streaming or self.request, "config"), features)

    def speaker(self, number: int) -> JsonObject:
        """Return the fields of the speaker of a word."""
        return {"speaker_label": str(number)}


CALLS: Final = (RivaCall, GoogleV1Call, GoogleV2Call)
PROTOCOLS: Final = tuple(dict.fromkeys(kind.protocol for kind in CALLS))  # their names in metrics


def riva_models(models: Mapping[str, Languages]) -> JsonObject:
    """Return what Riva's clients get as the configuration: each model, for live speech and for recordings."""
    entries = [
        {"model_name": name, "parameters": {"type": kind, "language_code": language}}
        for name, languages in models.items()
        for language in languages or ("en-US",)
        for kind in ("online", "offline")
    ]
    return {"model_config": entries}


def _duration(milliseconds: int) -> JsonObject:
    seconds, rest = divmod(milliseconds, 1000)
    return {"seconds": seconds, "nanos": rest * 1_000_000}
