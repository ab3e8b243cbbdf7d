"""What both formats of Speechmatics share: the first message, audio that is counted, errors with their closes. Pure."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Final

from streamer.base.codes import ErrorCode
from streamer.base.json_types import JsonObject
from streamer.base.limits import LARGEST_MESSAGE
from streamer.wire.dialects import speechmatics_config
from streamer.wire.dialects.audio_first import AudioFirst
from streamer.wire.dialects.client_values import command_of
from streamer.wire.dialects.dialect import Hangup, Opening, Reply, Step
from streamer.wire.dialects.speechmatics_config import Recognition
from streamer.wire.errors import CloseCode, WireError, bad
from streamer.wire.native import encode
from streamer.wire.upload import Problem

START: Final = "StartRecognition"
END: Final = "EndOfStream"
FORCE: Final = "ForceEndOfUtterance"
CONFIGURE: Final = "SetRecognitionConfig"
CHANNEL_AUDIO: Final = "AddChannelAudio"
CHANNEL_END: Final = "EndOfChannel"
GET_SPEAKERS: Final = "GetSpeakers"
TELEPHONE_BELOW_HZ: Final = 12_000
# The types of errors, each with its close code, and what happened.
_FAULTS: Final = {
    "invalid_model": (4004, (ErrorCode.UNKNOWN_MODEL,)),
    "invalid_config": (1003, (ErrorCode.BAD_OPTION, ErrorCode.UNKNOWN_OPTION, ErrorCode.UNSUPPORTED)),
    "invalid_message": (1003, (ErrorCode.BAD_JSON, ErrorCode.BAD_MESSAGE, ErrorCode.UNKNOWN_TYPE)),
    "invalid_audio_type": (
        1003,
        (
            ErrorCode.UNSUPPORTED_AUDIO,
            ErrorCode.UNKNOWN_FORMAT,
            ErrorCode.DAMAGED_AUDIO,
            ErrorCode.NO_AUDIO,
            ErrorCode.TOO_COSTLY,
            ErrorCode.TOO_LONG,
            ErrorCode.ODD_BYTES,
        ),
    ),
    "quota_exceeded": (4005, (ErrorCode.TOO_MANY_SESSIONS,)),
    "timelimit_exceeded": (4006, (ErrorCode.AUDIO_USED_UP, ErrorCode.HOTWORDS_USED_UP)),
    "idle_timeout": (1008, (ErrorCode.IDLE, ErrorCode.NO_START, ErrorCode.SESSION_EXPIRED)),
    "not_authorised": (4001, (ErrorCode.UNAUTHORIZED, ErrorCode.BAD_ORIGIN)),
    "unknown_error": (1011, (ErrorCode.INTERNAL,)),
    "job_error": (1008, (ErrorCode.ENDED_BY_OPERATOR,)),  # after 4013 its clients connect again
}
_ENDINGS: Final = {code: (kind, close) for kind, (close, codes) in _FAULTS.items() for code in codes}
_OTHER_FAULT: Final = ("protocol_error", 1003)
_SERVICE_FAULT: Final = ("job_error", 4013)
_FIRST_SERVICE_FAULT: Final = 500
# Closes without a message before them, by the code of the native protocol.
_CLOSES: Final[Mapping[int, tuple[int, str]]] = {
    CloseCode.TRY_LATER: (4013, "job_error"),
    CloseCode.FAILED: (1011, "internal_error"),
    CloseCode.REFUSED: (1008, "policy_violation"),
}
ENDS: Final = ".?!…。．！？؟।"  # of sentences


def ending_of(code: ErrorCode) -> tuple[str, int]:
    """Return the type of the error and the close code for what happened."""
    served = Problem(code, "").status < _FIRST_SERVICE_FAULT
    return _ENDINGS.get(code, _OTHER_FAULT if served else _SERVICE_FAULT)


class SpeechmaticsFormat(AudioFirst):
    """One websocket of a client of Speechmatics, in either of its formats."""

    messages: ClassVar[tuple[str, ...]] = (START, END, FORCE, CONFIGURE, GET_SPEAKERS)
    largest_message = LARGEST_MESSAGE * 4 // 3 + 64 * 1024  # that much audio in base64
    written = True
    changeable = True

    def __init__(self, opening: Opening) -> None:
        self._id = opening.request_id
        self._asked_for: Recognition | None = None  # None before the first message
        self._added = 0  # messages with audio
        self._failure: ErrorCode | None = None
        self._ended = False
        super().__init__(opening)

    @staticmethod
    def refusal(code: ErrorCode, message: str, status: int, request_id: str) -> tuple[int, str]:
        """Return the status and the JSON of a refused request."""
        return status, write("Error", type=ending_of(code)[0], reason=message) + "\n"

    @property
    def recognition(self) -> Recognition:
        """What the first message has asked for. Raise WireError if it has not come."""
        if self._asked_for is None:
            raise bad(ErrorCode.UNEXPECTED, f"The first message must be {START}.")
        return self._asked_for

    @abstractmethod
    def options_of(self, asked: Recognition) -> JsonObject:
        """Return the options that say when words are final."""

    def options(self) -> JsonObject:
        """Return the options of the next session."""
        return {} if self._asked_for is None else {**self._asked_for.options(), **self.options_of(self._asked_for)}

    # What the client sends

    def receive(self, message: str | bytes) -> Iterator[Step]:
        """Take audio or a message of the client. A mistake ends the session."""
        if self._ended:
            if isinstance(message, bytes) and self._added:
                self._added = 0  # one warning is enough
                why = f"Audio that comes after {END} is ignored."
                yield Reply(write("Warning", type="add_audio_after_eos", reason=why))
            return
        try:
            yield from self._hear(message) if isinstance(message, bytes) else self._command(message)
        except WireError as wrong:
            self._ended = True
            yield from map(Reply, self.fail(wrong.code, wrong.message))
            yield Hangup(*self.close(wrong.close_code, ""))

    @abstractmethod
    def force(self, command: JsonObject) -> Iterator[Step]:
        """End the utterance or the turn, because the client says so."""

    def take(self, kind: str, command: JsonObject) -> Iterator[Step]:
        """Take a message that only this format has."""
        yield from ()

    def finish(self) -> Iterator[Step]:
        """End the audio."""
        self._ended = True
        if not self.running:
            yield from map(Reply, self.last())
        yield from self.end()
        if not self.container:
            yield Hangup(CloseCode.DONE)

    def undecodable(self, problem: Problem) -> Iterator[Step]:
        """End the session."""
        for step in super().undecodable(problem):
            if self.undecoded:
                yield from map(Reply, self.fail(problem.code, problem.message))
            yield step

    # What the client gets

    def last(self) -> Iterator[str]:
        """Yield that everything has come, if the client has ended its audio."""
        if self._ended and self._failure is None:
            yield write("EndOfTranscript")

    def fail(self, code: ErrorCode, message: str) -> Iterable[str]:
        """Yield the reason for a close."""
        self._failure = code
        yield write("Error", type=ending_of(code)[0], reason=message)

    def close(self, code: int, reason: str) -> tuple[int, str]:
        """Return the close code and the reason, which is the type of the error."""
        if self._failure is not None:
            kind, close = ending_of(self._failure)
            return close, kind
        if code in (CloseCode.DONE, CloseCode.TOO_LARGE):
            return code, reason
        return _CLOSES.get(code, (1003, "protocol_error"))

    # Inside

    def _hear(self, audio: bytes) -> Iterator[Step]:
        if self.recognition.labels:
            raise bad(ErrorCode.UNEXPECTED, f"The audio of channels must come in {CHANNEL_AUDIO}.")
        yield from self.hear(audio)
        self._added += 1
        yield Reply(write("AudioAdded", seq_no=self._added))

    def _command(self, text: str) -> Iterator[Step]:
        command = command_of(text, self.largest_message) or {}
        kind = command.get("message")
        if kind == START:
            yield from self._start(command)
            return
        if kind not in self.messages:
            why = f"A text message must be a JSON object whose 'message' is one of {', '.join(self.messages)}."
            raise bad(ErrorCode.BAD_MESSAGE, why)
        if not self.recognition.labels and kind in (CHANNEL_AUDIO, CHANNEL_END):
            raise bad(ErrorCode.UNEXPECTED, f"{kind} is only for 'diarization' channel.")
        if kind == END:
            yield from self.finish()
        elif kind == FORCE:
            yield from self.force(command)
        elif kind == CONFIGURE:
            self._configure(command)
        elif kind == GET_SPEAKERS:
            yield Reply(write("SpeakersResult", speakers=[]))
            why = "The service gives no identifiers of speakers."
            yield Reply(write("Warning", type="speaker_id", reason=why))
        else:
            yield from self.take(str(kind), command)

    def _start(self, command: JsonObject) -> Iterator[Step]:
        if self._asked_for is not None:
            raise bad(ErrorCode.UNEXPECTED, f"{START} must come only once.")
        asked = speechmatics_config.read(command, self._models)
        self.begin(asked)
        self._asked_for = asked
        self.check()
        yield from map(Reply, self._greetings(asked))
        if asked.container:
            yield from self.begin_container()

    def begin(self, asked: Recognition) -> None:
        """Take the form of the audio. Raise WireError if it is not one of this format."""
        self.encoding, self.sample_rate = asked.encoding, asked.sample_rate

    def _greetings(self, asked: Recognition) -> Iterator[str]:
        pack = {
            "word_delimiter": " ",
            "writing_direction": "left-to-right",
            "itn": True,
            "adapted": bool(asked.hotwords),
        }
        labels = {"channel_ids": asked.labels} if asked.labels else {}
        yield write("RecognitionStarted", id=self._id, language_pack_info=pack, **labels)
        quality = "telephony" if asked.sample_rate < TELEPHONE_BELOW_HZ else "broadcast"
        yield write("Info", type="recognition_quality", quality=quality, reason=f"The audio counts as {quality}.")
        for kind, reason in asked.warnings:
            yield write("Warning", type=kind, reason=reason)

    def _configure(self, command: JsonObject) -> None:
        before = self.options()
        self._asked_for = speechmatics_config.changed(self.recognition, command, self._models)
        self.check()
        if self.options() != before and not self.container:
            self.change()


def speaker_label(speaker: int | None) -> str:
    """Return the name of a speaker."""
    return "UU" if speaker is None else f"S{speaker + 1}"


def write(message: str, **content: object) -> str:
    """Write a message to a client of Speechmatics."""
    return encode({"message": message, **content})
