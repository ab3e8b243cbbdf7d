"""Deepgram's formats: the websocket `/v1/listen`, and uploaded recordings at the same path. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streamer import __version__
from streamer.base.codes import ErrorCode
from streamer.base.events import (
    Acknowledgement,
    Done,
    Error,
    Flushed,
    Partial,
    ServerMessage,
    Speakers,
    Speech,
    SpeechState,
    Word,
    content,
)
from streamer.base.events import Final as FinalMessage
from streamer.base.json_types import JsonObject
from streamer.base.limits import LONGEST_SEGMENT_MS, READER
from streamer.base.paragraphs import ParagraphRule, Sentence
from streamer.base.speakers import TimedTurn, with_speakers
from streamer.base.text import joined, json_text, words_of
from streamer.wire.dialects.deepgram_options import DeepgramOptions
from streamer.wire.dialects.dialect import (
    FLUSH,
    KEEPALIVE,
    STOP,
    Dialect,
    Hangup,
    Languages,
    Opening,
    Reply,
    Step,
    start,
)
from streamer.wire.errors import CloseCode, bad
from streamer.wire.json_body import AddressReader
from streamer.wire.native import LONGEST_TEXT, encode
from streamer.wire.upload import JSON, BodyReader, Problem, UploadFormat

PATH: Final = "/v1/listen"
MESSAGES: Final = ("KeepAlive", "Finalize", "CloseStream", "Configure")
# The closes that Deepgram's clients know: no audio for too long, and audio that cannot be decoded.
SILENT: Final = (1011, "NET-0001")
UNDECODABLE: Final = (1008, "DATA-0000")
_ERROR_CODES: Final = {
    400: "Bad Request",
    401: "INVALID_AUTH",
    403: "INSUFFICIENT_PERMISSIONS",
    404: "NOT_FOUND",
    429: "TOO_MANY_REQUESTS",
}
_OWN_CODES: Final = {ErrorCode.REMOTE_CONTENT: "REMOTE_CONTENT_ERROR"}
_ERROR_CODES_FROM_500: Final = "SERVICE_UNAVAILABLE"
# Deepgram has no status of its own for these codes.
_STATUSES: Final = {ErrorCode.FULL: 429, ErrorCode.BUSY: 429}
_BAD_RECORDINGS: Final = (415, 422)
_CLIENT_FAULTS: Final = (CloseCode.TOO_FAST, CloseCode.BAD_MESSAGE, CloseCode.BAD_AUDIO)
# Clients receive these codes unchanged. Any other code becomes one that says who is at fault, service or client.
_KEPT_CLOSES: Final = (CloseCode.REFUSED, CloseCode.TOO_LARGE, CloseCode.FAILED, CloseCode.TRY_LATER)


class DeepgramLive(Dialect):
    """One live session of a client of Deepgram."""

    protocol = "deepgram"
    path = PATH
    subprotocols = ("token", "bearer")
    idle_s = 10.0

    def __init__(self, opening: Opening) -> None:
        options = self._options = DeepgramOptions(opening.query, opening.models)
        self._request_id = opening.request_id
        self._created = opening.created
        self.headers = {"dg-request-id": opening.request_id}
        self.container = options.samples is None
        self.separate = options.multichannel
        self._channels: list[ChannelResults] = []
        if options.samples is not None:
            samples = options.samples
            audio = {"encoding": samples.encoding, "sample_rate": samples.sample_rate}
            self._start = self._begin(samples.channels, audio)
            self.slots = samples.channels if options.multichannel else 1
        else:
            self._start = self._begin(1, {})
        # The header of a container says how many channels it has, so a session for each channel waits for it.
        self._started = not (self.container and options.multichannel)
        self._waiting_flushes = 0  # flushes that the client asked for before the start of the session
        self._flushes = 0  # the number of flushes without an answer
        self._hash = hashlib.sha256()
        self._received = False
        self._stopped = False
        self._undecodable = False
        self._audio_ms = 0  # the length of the recognised audio
        self._error: ErrorCode | None = None  # the code of the error that ended the session

    @staticmethod
    def refusal(code: ErrorCode, message: str, status: int, request_id: str) -> tuple[int, str]:
        """Return the status and the JSON of a refused request."""
        status = 400 if status in _BAD_RECORDINGS else _STATUSES.get(code, status)
        kind = _OWN_CODES.get(code) or _ERROR_CODES.get(status, code.upper())
        kind = _ERROR_CODES_FROM_500 if status >= 500 else kind
        return status, encode({"err_code": kind, "err_msg": message, "request_id": request_id}) + "\n"

    # What the client sends

    def greet(self) -> Iterable[Step]:
        """Start the session, unless it must wait for the header of a container."""
        return (self._start,) if self._started else ()

    def receive(self, message: str | bytes) -> Iterator[Step]:
        """Take a message of the client. Ignore everything after `CloseStream`."""
        if self._stopped:
            return
        if isinstance(message, str):
            yield from self._command(message)
        elif message:
            self._received = True
            self._hash.update(message)
            yield message
        else:
            yield from self._stop()

    def opened(self, channels: int) -> Iterator[Step]:
        """Start the session if it waits for the number of channels."""
        if not self._started:
            self._started = True
            yield self._begin(channels, {})
            yield from [FLUSH] * self._waiting_flushes

    def waiting(self) -> Iterable[Step]:
        """Keep the session open if it has started."""
        return (KEEPALIVE,) if self._started else ()

    def undecodable(self, problem: Problem) -> Iterator[Step]:
        """End the session. A recording that its own client has cut off counts as complete."""
        if not self._started:
            yield Hangup(*UNDECODABLE)
            return
        self._undecodable = not (self._stopped and problem.code is ErrorCode.DAMAGED_AUDIO)
        yield STOP

    # What the client gets

    def tell(self, message: ServerMessage) -> Iterator[str]:
        """Yield the messages for a message of the session."""
        self._audio_ms = max(self._audio_ms, getattr(message, "audio_ms", 0))
        if isinstance(message, (Partial, FinalMessage, Speech)):
            yield from self._write_result(self._channels[message.channel or 0], message)
        elif isinstance(message, Acknowledgement):
            for channel in self._channels:
                yield from channel.heard(message.audio_ms)
                yield from channel.utterance_end(message.audio_ms)
        elif isinstance(message, Flushed):
            self._flushes -= 1
            for channel in self._channels:
                yield from channel.flushed(message.audio_ms)
                yield from channel.utterance_end(message.audio_ms)
        elif isinstance(message, Done):
            yield from self._finish(message.audio_ms)
        elif isinstance(message, Error) and message.fatal:
            self._error = message.code
            for channel in self._channels:
                yield from channel.release()
            if message.code is ErrorCode.ODD_BYTES:  # the client has ended its audio, so the transcript is complete
                yield from self._finish(self._audio_ms)

    def _write_result(self, channel: ChannelResults, message: Partial | FinalMessage | Speech) -> Iterator[str]:
        if isinstance(message, Partial):
            yield from channel.utterance_end(message.start_ms)
            yield from channel.partial(message)
        elif isinstance(message, FinalMessage):
            yield from channel.utterance_end(message.start_ms)
            yield from channel.final(message, hold=self._flushes > 0)
            yield from channel.utterance_end(message.audio_ms)
        elif message.state is SpeechState.START:
            yield from channel.utterance_end(message.at_ms)
            yield from channel.speech_started(message.at_ms)

    def close(self, code: int, reason: str) -> tuple[int, str]:
        """Return the close code and the reason that replace those of the native protocol."""
        if self._undecodable:
            return UNDECODABLE
        if self._error is ErrorCode.NO_START and self._received:  # the audio had no header
            return UNDECODABLE
        if self._error in (ErrorCode.IDLE, ErrorCode.NO_START):
            return SILENT
        if code == CloseCode.DONE or self._error is ErrorCode.ODD_BYTES:
            return CloseCode.DONE, ""
        if code in _KEPT_CLOSES:
            return code, reason
        return (CloseCode.REFUSED if code in _CLIENT_FAULTS else CloseCode.FAILED), reason

    # Inside

    def _begin(self, channels: int, audio: JsonObject) -> str:
        options = self._options
        after_ms = options.after_text_ms
        text = start(
            **audio,
            **options.session(),
            channels=channels,
            partials=options.interim_results,
            partial_words=options.interim_results,
            speech=options.vad_events,
            second_pass=READER,  # these clients do not see which words are stable before their final
            endpoint={} if after_ms is None else {"after_text_ms": after_ms},
        )
        total = channels if options.multichannel else 1
        self._channels = [ChannelResults(number, total, options, self._request_id) for number in range(total)]
        return text

    def _command(self, text: str) -> Iterator[Step]:
        try:
            command = json.loads(text) if len(text) <= LONGEST_TEXT else None
        except (ValueError, RecursionError):
            command = None
        kind = command.get("type") if isinstance(command, dict) else None
        if kind == "KeepAlive":
            yield from (KEEPALIVE,) if self._started else ()
        elif kind == "Finalize":
            self._flushes += 1
            if self._started:
                yield FLUSH
            else:
                self._waiting_flushes += 1
        elif kind == "CloseStream":
            yield from self._stop()
        elif kind == "Configure":
            assert isinstance(command, dict)
            yield Reply(self._configure(command))
        else:
            why = f"A text message must be a JSON object whose 'type' is one of {', '.join(MESSAGES)}."
            yield Reply(encode({"type": "Error", "variant": "SchemaError", "description": why, "message": why}))

    def _stop(self) -> Iterator[Step]:
        self._stopped = True
        if not self._started and not self._received:
            yield from self.opened(1)
        yield STOP

    def _configure(self, command: JsonObject) -> str:
        """Return the answer to a change of options: a success only if the running session has these options already."""
        keyterms = command.get("keyterms")
        same = keyterms is None or (isinstance(keyterms, list) and tuple(keyterms) == self._options.keyterms)
        if same and not command.get("features"):
            success = {"type": "ConfigureSuccess", "request_id": self._request_id}
            return encode(success if keyterms is None else {**success, "keyterms": keyterms})
        why = "The options of a running session cannot be changed: open another session with the new options."
        failure = {"type": "ConfigureFailure", "request_id": self._request_id, "code": "UNSUPPORTED"}
        return encode({**failure, "description": why})

    def _finish(self, audio_ms: int) -> Iterator[str]:
        for channel in self._channels:
            yield from channel.finish(audio_ms)
        if not self._undecodable:
            yield encode(
                {
                    "type": "Metadata",
                    "transaction_key": "deprecated",
                    "request_id": self._request_id,
                    "sha256": self._hash.hexdigest(),
                    "created": self._created,
                    "duration": seconds(audio_ms),
                    "channels": len(self._channels),
                }
            )


# The results of Deepgram's formats: words, and the messages `Results` of each channel of a live session.

# The confidence of words that may still change: the recogniser has none.
NO_CONFIDENCE: Final = 0.0
FIRST_SPEAKER: Final = 0  # also of words whose speaker is not known
# The times of words have an error of at most this.
_INEXACT_MS: Final = 120


def model_info(name: str) -> tuple[str, dict[str, str]]:
    """Return the UUID of a model, which is always the same for its name and this version, and its description."""
    return uuid_of(f"streamer {name} {__version__}"), {"name": name, "version": __version__, "arch": "streamer"}


def uuid_of(text: str) -> str:
    """Return a UUID that depends only on this text."""
    digits = hashlib.sha256(text.encode()).hexdigest()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))


def seconds(milliseconds: int) -> float:
    """Return a time in seconds."""
    return milliseconds / 1000


def word(word: Word, options: DeepgramOptions) -> JsonObject:
    """Return a word as Deepgram writes it, in its spoken and its written form if the client wants marks."""
    punctuated = options.punctuated
    fields = {
        "word": (word.spoken or word.word) if punctuated else word.word,
        "start": seconds(word.start_ms),
        "end": seconds(word.end_ms),
        "confidence": NO_CONFIDENCE if word.confidence is None else word.confidence,
    }
    fields |= _speaker(word.speaker) if options.diarize else {}
    return {**fields, "punctuated_word": word.word} if punctuated else fields


def _speaker(speaker: int | None) -> JsonObject:
    return {"speaker": FIRST_SPEAKER if speaker is None else speaker}


def alternative(text: str, confidence: float, words: Sequence[Word], options: DeepgramOptions) -> JsonObject:
    """Return a text and its words as Deepgram writes them."""
    return {"transcript": text, "confidence": confidence, "words": [word(each, options) for each in words]}


NOTHING: Final[JsonObject] = {"transcript": "", "confidence": 0.0, "words": []}


@dataclass(frozen=True)
class _WaitingFinal:
    """A final that waits for the answer to a `Finalize`."""

    end_ms: int
    speech_final: bool
    text: JsonObject


class ChannelResults:
    """The messages about one channel. Each method yields messages for the client."""

    def __init__(self, number: int, total: int, options: DeepgramOptions, request_id: str) -> None:
        """`number`: the number of the channel. `total`: how many channels the session has."""
        self._options = options
        self._index = [number, total]
        uuid, info = model_info(options.model)
        self._metadata = {"request_id": request_id, "model_info": info, "model_uuid": uuid}
        self._begin_ms = 0  # where the last final ended
        self._waiting_final: _WaitingFinal | None = None
        self._speaking = False  # the last partial had text that is not final yet
        self._last_word_ms: int | None = None  # the end of the last word, until `UtteranceEnd` is sent

    def partial(self, partial: Partial) -> Iterator[str]:
        """Yield text that may still change."""
        yield from self.release()
        self._speaking = bool(partial.text)
        transcript = alternative(partial.text, NO_CONFIDENCE, partial.words or (), self._options)
        yield self._results(max(partial.audio_ms, self._begin_ms), transcript)

    def final(self, final: FinalMessage, *, hold: bool) -> Iterator[str]:
        """Yield text that never changes. `hold`: keep it back for the answer to a `Finalize`."""
        yield from self.release()
        words = final.words or ()
        end_ms = max(self._begin_ms, final.end_ms, final.audio_ms if final.cut_ms is None else final.cut_ms)
        transcript = alternative(final.text, final.confidence, words, self._options)
        self._waiting_final = _WaitingFinal(end_ms, self._ends_speech(final), transcript)
        self._speaking = False
        self._last_word_ms = final.end_ms
        if not hold:
            yield from self.release()

    def heard(self, audio_ms: int) -> Iterator[str]:
        """Yield an empty result: audio up to this time was recognised without new text."""
        if (
            self._options.interim_results
            and not self._speaking
            and self._waiting_final is None
            and audio_ms > self._begin_ms
        ):
            yield self._results(audio_ms, NOTHING)

    def flushed(self, audio_ms: int) -> Iterator[str]:
        """Yield the answer to a `Finalize`, with the final that was held back for it."""
        final = self._waiting_final or _WaitingFinal(self._begin_ms, False, NOTHING)
        self._waiting_final = None
        self._speaking = False
        yield self._final(max(final.end_ms, audio_ms), final, from_finalize=True)

    def finish(self, audio_ms: int) -> Iterator[str]:
        """Yield the last messages, so that the finals cover all of the audio."""
        yield from self.release()
        yield from self.utterance_end(audio_ms)
        if audio_ms > self._begin_ms:
            yield self._final(audio_ms, _WaitingFinal(audio_ms, False, NOTHING))

    def release(self) -> Iterator[str]:
        """Yield the final that was held back, if there is one."""
        final, self._waiting_final = self._waiting_final, None
        if final is not None:
            yield self._final(final.end_ms, final)

    def speech_started(self, at_ms: int) -> Iterator[str]:
        """Yield that speech began, if the client asked for it."""
        if self._options.vad_events:
            yield encode({"type": "SpeechStarted", "channel": self._index, "timestamp": seconds(at_ms)})

    def utterance_end(self, audio_ms: int) -> Iterator[str]:
        """Yield that an utterance has ended, if its last word is long enough ago. This happens once for each gap."""
        gap_ms, last_ms = self._options.utterance_end_ms, self._last_word_ms
        if gap_ms is None or last_ms is None or self._speaking or self._waiting_final or audio_ms - last_ms < gap_ms:
            return
        self._last_word_ms = None
        yield encode({"type": "UtteranceEnd", "channel": self._index, "last_word_end": seconds(last_ms)})

    def _ends_speech(self, final: FinalMessage) -> bool:
        """Return whether a pause of the speaker ended this segment, and not its length or the client."""
        options = self._options
        if not options.speech_final or final.audio_ms - self._begin_ms >= LONGEST_SEGMENT_MS:
            return False
        return final.audio_ms - final.end_ms >= (options.after_text_ms or 0) - _INEXACT_MS

    def _final(self, end_ms: int, final: _WaitingFinal, *, from_finalize: bool = False) -> str:
        text = self._results(end_ms, final.text, final=final, from_finalize=from_finalize)
        self._begin_ms = end_ms
        return text

    def _results(
        self,
        end_ms: int,
        transcript: JsonObject,
        *,
        final: _WaitingFinal | None = None,
        from_finalize: bool = False,
    ) -> str:
        return encode(
            {
                "type": "Results",
                "channel_index": self._index,
                "duration": seconds(end_ms - self._begin_ms),
                "start": seconds(self._begin_ms),
                "is_final": final is not None,
                "speech_final": final is not None and final.speech_final,
                "channel": {"alternatives": [transcript]},
                "metadata": self._metadata,
                "from_finalize": from_finalize,
            }
        )


# Deepgram's format of uploaded recordings: `POST /v1/listen`.

_DIGITS: Final = 4  # of a confidence that is the mean of others


class DeepgramRecorded(UploadFormat):
    """An upload with Deepgram's options, which are those of its live format."""

    protocol = "deepgram"

    def __init__(
        self,
        models: Mapping[str, Languages] = {},
        request_id: str = "",
        created: str = "",
        *,
        fetches: bool = False,
    ) -> None:
        """`models`: the service's models by public name. `request_id` and `created`: as in `Opening`.

        `fetches`: the request may have the address of the recording instead of it.
        """
        super().__init__()
        self._fetches = fetches
        self._models = models
        self._request_id = request_id
        self._created = created
        self._options = DeepgramOptions((), models)
        self._hash = hashlib.sha256()
        self._channels = 1
        self._finals: list[FinalMessage] = []

    def query(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Take the options of the query. Raise WireError if one is not valid."""
        options = self._options = DeepgramOptions(pairs, self._models)
        for name, value in options.session().items():
            if name != "hotwords" or value:
                self.take(name, value if isinstance(value, str) else json.dumps(value))
        if options.utterances:
            self.take("endpoint", json.dumps({"after_text_ms": options.split_ms}))
        if options.samples is not None:
            self.take("encoding", options.samples.encoding)
            self.take("sample_rate", str(options.samples.sample_rate))
            self.take("channels", str(options.samples.channels))

    def field(self, name: str, value: str, *, late: bool) -> None:
        """Ignore a field of a form: all options are in the query."""

    def settle(self) -> None:
        """Note that no more options can come."""

    def reader(self, content_type: str, beginning: bytes) -> BodyReader | None:
        """Return the reader of JSON with the address of a recording, whatever the content type of the request is."""
        if not self.is_json(content_type, beginning):
            return super().reader(content_type, beginning)
        if self._fetches:
            return AddressReader()
        why = "The service fetches no address for a client: send the recording itself as the body."
        raise bad(ErrorCode.UNSUPPORTED, f"{why} (Its operator can allow addresses with --fetch.)")

    def look(self, data: bytes) -> None:
        """Count the recording into its hash."""
        self._hash.update(data)

    @property
    def streams(self) -> bool:
        """False: the answer is one document."""
        return False

    def start(self, channels: int) -> str:
        """Return the `start` of the session, for decoded audio with this number of channels."""
        self._channels = channels
        return super().start(channels)

    def add(self, message: ServerMessage) -> None:
        """Add a message to the transcript."""
        super().add(message)
        if isinstance(message, FinalMessage):
            self._finals.append(message)
        elif isinstance(message, Speakers):
            turns = [TimedTurn(turn.start_ms, turn.end_ms, turn.speaker) for turn in message.turns]
            self._finals = [
                with_speakers(final, turns) if final.channel == message.channel else final for final in self._finals
            ]

    def event(self, message: ServerMessage) -> bytes:
        """Return nothing: this format has no events."""
        return b""

    def last_event(self, problem: Problem | None) -> bytes:
        """Return nothing: this format has no events."""
        return b""

    def document(self) -> tuple[str, str]:
        """Return the type and the text of the whole answer."""
        uuid, info = model_info(self._options.model)
        language = self._options.detected_language
        detected = {} if language is None else {"detected_language": language}
        results: JsonObject = {
            "channels": [{"alternatives": [self._alternative(number)], **detected} for number in range(self._channels)]
        }
        if self._options.utterances:
            finals = sorted(self._finals, key=lambda final: (final.start_ms, final.channel or 0))
            results["utterances"] = [self._utterance(number, final) for number, final in enumerate(finals)]
        metadata = {
            "transaction_key": "deprecated",
            "request_id": self._request_id,
            "sha256": self._hash.hexdigest(),
            "created": self._created,
            "duration": seconds(self.transcript.duration_ms),
            "channels": self._channels,
            "models": [uuid],
            "model_info": {uuid: info},
        }
        return JSON, json_text({"metadata": metadata, "results": results}) + "\n"

    def refusal(self, problem: Problem) -> tuple[int, str]:
        """Return the status and the JSON of an answer without a transcript."""
        return DeepgramLive.refusal(problem.code, problem.message, problem.status, self._request_id)

    def _alternative(self, channel: int) -> JsonObject:
        finals = [final for final in self._finals if (final.channel or 0) == channel]
        words = [word for final in finals for word in final.words or ()]
        text = joined(final.text for final in finals)
        channel_text = alternative(text, _confidence(words), words, self._options)
        if self._options.paragraphs:
            channel_text["paragraphs"] = _paragraphs(finals, speaker=self._options.diarize)
        return channel_text

    def _utterance(self, number: int, final: FinalMessage) -> JsonObject:
        words = final.words or ()
        transcript = alternative(final.text, final.confidence, words, self._options)
        return {
            "start": seconds(final.start_ms),
            "end": seconds(final.end_ms),
            "confidence": final.confidence,
            "channel": final.channel or 0,
            "transcript": final.text,
            "words": transcript["words"],
            **(_speaker(final.speaker) if self._options.diarize else {}),
            "id": uuid_of(f"{self._request_id} {number}"),
        }


def _paragraphs(finals: Sequence[FinalMessage], *, speaker: bool) -> JsonObject:
    """Return the finals of a channel in paragraphs of sentences. `speaker`: each paragraph names its speaker."""
    rule = ParagraphRule()
    paragraphs: list[list[Sentence]] = []
    for final in finals:
        for sentence in rule.sentences(content(final)):
            if rule.begins(sentence):
                paragraphs.append([])
            paragraphs[-1].append(sentence)
    text, last = "", None
    for each in paragraphs:
        who = _speaker(each[0].speaker)["speaker"]
        label = f"Speaker {who}: " if speaker and who != last else ""
        text += ("\n\n" if text else "") + label + joined(sentence.text for sentence in each)
        last = who
    return {
        "transcript": f"\n{text}" if paragraphs else "",  # Deepgram's begins with a line break too
        "paragraphs": [_paragraph(each, _speaker(each[0].speaker) if speaker else {}) for each in paragraphs],
    }


def _paragraph(sentences: Sequence[Sentence], speaker: JsonObject) -> JsonObject:
    return {
        "sentences": [
            {"text": each.text, "start": seconds(each.start_ms), "end": seconds(each.end_ms)} for each in sentences
        ],
        **speaker,
        "num_words": sum(len(words_of(each.text)) for each in sentences),
        "start": seconds(sentences[0].start_ms),
        "end": seconds(sentences[-1].end_ms),
    }


def _confidence(words: Sequence[Word]) -> float:
    """Return the mean confidence of the words."""
    return round(sum(word.confidence or 0.0 for word in words) / len(words), _DIGITS) if words else 0.0
