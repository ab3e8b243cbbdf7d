"""The format of Azure's Speech SDK: turns of one request each, whose messages have headers and a body. Pure.

The client names a turn by its `X-RequestId`, says what it wants in `speech.context`, and sends the audio of a WAV file.
A turn ends with an empty message of audio; one that recognises once ends with its first phrase. Times count from its
first audio, because the client adds where the turn began.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from streamer.base.codes import ErrorCode
from streamer.base.events import Done, Partial, ServerMessage, Speech, SpeechState, Word
from streamer.base.events import Final as FinalMessage
from streamer.base.json_types import JsonObject
from streamer.base.limits import MOST_CHANNELS, SAMPLE_RATES
from streamer.base.speakers import main_speaker
from streamer.base.wave_header import ENCODINGS, WaveHeader, wave_header
from streamer.wire.dialects.audio_first import AudioFirst
from streamer.wire.dialects.azure_wishes import DICTATION, INTERACTIVE, MODES, OPTIONS, TEXTS, context_of, wishes
from streamer.wire.dialects.dialect import Hangup, Opening, Reply, Step
from streamer.wire.errors import CloseCode, WireError, bad, quote
from streamer.wire.native import close_reason, encode

_PATH: Final = "/speech/recognition/{}/cognitiveservices/v1"
PATH: Final = _PATH.format("conversation")
LONGEST_HEADER: Final = 4096  # bytes before the samples of a turn
_LONGEST_BABBLE_MS: Final = 15_000  # of speech without a word
_MISTAKE: Final = 1007  # the client shows the reason, and does not connect again
_TICKS: Final = 10_000  # in a millisecond
_MARKS: Final = ".,;:?!…"
_REQUEST_ID: Final = re.compile(r"[0-9A-Za-z-]{1,64}")


class Message(NamedTuple):
    """What a client wants of its next turn, as JSON, or audio."""

    request: str  # the name of the turn
    body: str | bytes


class Azure(AudioFirst):
    """One websocket of Azure's Speech SDK."""

    protocol = "azure"
    path = PATH
    other_paths = (
        _PATH.format(INTERACTIVE),
        _PATH.format(DICTATION),
        "/speech/universal/v2",
        "/stt/speech/universal/v2",
    )
    subprotocols = ("USP",)
    written = True

    def __init__(self, opening: Opening) -> None:
        self._query = {name.lower(): value for name, value in opening.query if value}
        self._mode = next((mode for mode in MODES if f"/{mode}/" in opening.path), MODES[1])
        self._wishes = wishes(self._mode, self._query, {}, opening.models)
        self._turn = ""  # the name of the present one
        self._over = ""  # that of the last one
        self._ending = False  # the client has ended the audio of the turn
        self._speaking = False  # somebody has spoken in the turn
        self._words = False  # words were recognised in it
        self._head: bytearray | None = None  # of the WAV file, while it is not complete
        self._heard_ms = 0  # the end of the recognised audio
        own = [(name, value) for name, value in opening.query if name not in OPTIONS]
        super().__init__(Opening(tuple(own), models=opening.models))

    def options(self) -> JsonObject:
        """Return the options of the next session."""
        return self._wishes.options

    # What the client sends

    def receive(self, message: str | bytes) -> Iterator[Step]:
        """Take audio, or what the client wants. Any other message is ignored."""
        if not self._turn:
            yield from self.end()  # of a turn that is over before its audio
        try:
            if (content := _read(message)) is None:
                return
            if not _REQUEST_ID.fullmatch(content.request):
                raise bad(ErrorCode.BAD_MESSAGE, f"'X-RequestId' must be 32 hex digits, not {quote(content.request)}.")
            if self._turn and content.request != self._turn:
                yield from self._finish()
            if isinstance(content.body, str):
                self._configure(content.body)
            elif content.request != self._over:
                yield from self._take(content.request, content.body)
        except WireError as wrong:
            yield Hangup(_MISTAKE, close_reason(wrong.message))

    # What the client gets

    def tell(self, message: ServerMessage) -> Iterator[str]:
        """Yield the messages for a message of the session, while there is a turn."""
        if not self._turn:
            return
        if (audio_ms := getattr(message, "audio_ms", None)) is not None:
            self._heard_ms = max(self._heard_ms, self.base_ms + audio_ms)
        if isinstance(message, Speech) and message.state is SpeechState.START:
            yield from self._note_speech(message.at_ms)
        elif isinstance(message, Partial) and message.text:
            yield from self._note_speech(message.start_ms)
            self._words = True
            yield self._write("speech.hypothesis", **self._hypothesis(message))
        elif isinstance(message, FinalMessage) and message.text:
            yield from self._note_speech(message.start_ms)
            self._words = True
            phrase = self._write("speech.phrase", **self._phrase(message))
            yield from self._end_turn(phrase) if self._wishes.once else (phrase,)
        elif isinstance(message, Done) and self._ending:
            yield from self._end_audio()
        elif self._wishes.silence_ms and not self._words:
            yield from self._wait_for_words()

    def close(self, code: int, reason: str) -> tuple[int, str]:
        """Return the close code and the reason that replace those of the native protocol."""
        if code == CloseCode.TOO_FAST:
            return CloseCode.TRY_LATER, reason
        kept = (CloseCode.DONE, CloseCode.TOO_LARGE, CloseCode.FAILED, CloseCode.TRY_LATER)
        return (code if code in kept else _MISTAKE), reason

    # Inside: what comes

    def _configure(self, body: str) -> None:
        """Take what the client wants from the next turn."""
        self._wishes = wishes(self._mode, self._query, context_of(body), self._models)
        self.check()

    def _take(self, request: str, audio: bytes) -> Iterator[Step]:
        if not self._turn:
            self._turn, self._head, self._heard_ms = request, bytearray(), 0
            self._ending = self._speaking = self._words = False
            self.restart()
            yield Reply(self._write("turn.start", context={"serviceTag": request}))
        if not audio:
            yield from self._finish()
        elif self._head is None:
            yield from self.hear(audio)
        else:
            self._head += audio
            yield from self._open(bytes(self._head))

    def _open(self, head: bytes) -> Iterator[Step]:
        """Take the header of the WAV file, if it is complete."""
        header = wave_header(head)
        if header is None:
            if not head.startswith(b"RIFF"[: len(head)]) or len(head) > LONGEST_HEADER:
                why = "The audio must begin with the header of a WAV file; send samples, in PCM or G.711."
                raise bad(ErrorCode.UNSUPPORTED_AUDIO, why)
            return
        encoding, width = _samples(header)
        self.encoding = encoding
        self.change_rate(header.sample_rate, header.channels, width)
        self._head = None
        yield from self.hear(head[header.begin :])

    def _finish(self) -> Iterator[Step]:
        """End the turn, because the client has ended its audio."""
        self._ending = True
        if self.running:
            yield from self.end()
        else:
            yield from map(Reply, self._end_audio())

    # Inside: what goes

    def _note_speech(self, at_ms: int) -> Iterator[str]:
        if not self._speaking:
            self._speaking = True
            yield self._write("speech.startDetected", Offset=self._ticks(at_ms))

    def _wait_for_words(self) -> Iterator[str]:
        """Yield that nothing was said, if that has lasted for too long."""
        limit_ms = max(self._wishes.silence_ms, _LONGEST_BABBLE_MS if self._speaking else 0)
        if self._heard_ms >= limit_ms:
            nothing = self._nothing("BabbleTimeout" if self._speaking else "InitialSilenceTimeout")
            yield from self._end_turn(nothing)

    def _end_audio(self) -> Iterator[str]:
        if self._wishes.once:
            return self._end_turn(self._nothing("NoMatch"))
        end_ms = self.sent_ms + 1  # the client sends again what ends later, and times are rounded
        return self._end_turn(self._status("EndOfDictation", end_ms, end_ms))

    def _end_turn(self, phrase: str) -> Iterator[str]:
        """Yield the last phrase of the turn, and its end."""
        if self._speaking:
            yield self._write("speech.endDetected", Offset=_TICKS * self._heard_ms)
        yield phrase
        yield self._write("turn.end")
        self._turn, self._over = "", self._turn

    def _nothing(self, status: str) -> str:
        return self._status(status, 0, self._heard_ms)

    def _status(self, status: str, start_ms: int, end_ms: int) -> str:
        times = {"Offset": _TICKS * start_ms, "Duration": _TICKS * (end_ms - start_ms)}
        return self._write("speech.phrase", RecognitionStatus=status, **times)

    def _hypothesis(self, partial: Partial) -> JsonObject:
        return {
            "Text": partial.text,
            **self._times(partial.start_ms, max(partial.start_ms, partial.audio_ms)),
            **self._about(None),
        }

    def _phrase(self, final: FinalMessage) -> JsonObject:
        speaker = main_speaker(word.speaker for word in final.words or ())
        phrase: JsonObject = {
            "RecognitionStatus": "Success",
            **self._times(final.start_ms, final.end_ms),
            "DisplayText": final.text,
            **self._about(speaker),
        }
        if self._wishes.detailed:
            best = _text(final.text, final.confidence)
            if final.spoken is not None:
                best["Lexical"] = final.spoken
            if self._wishes.word_times:
                words = [(word, self._times(word.start_ms, word.end_ms)) for word in final.words or ()]
                best["Words"] = [
                    {"Word": word.spoken or word.word, **times, **self._sure(word)} for word, times in words
                ]
                best["DisplayWords"] = [{"DisplayText": word.word, **times} for word, times in words]
            # Some clients take the text with the highest confidence.
            others = [
                _text(other.text, min(other.confidence, final.confidence))
                for other in final.alternatives or ()
                if other.text != final.text
            ]
            phrase["NBest"] = [best, *others][:TEXTS]
        return phrase

    def _about(self, speaker: int | None) -> JsonObject:
        """Return who speaks, and which language, as far as the client asked for it."""
        who = "Unknown" if speaker is None else f"Guest-{speaker + 1}"
        language = {"Language": self._wishes.language, "Confidence": "High"}
        return {
            **({"SpeakerId": who} if self._wishes.speakers or speaker is not None else {}),
            **({"PrimaryLanguage": language} if self._wishes.language else {}),
        }

    def _sure(self, word: Word) -> JsonObject:
        return {"Confidence": word.confidence or 0.0} if self._wishes.word_confidence else {}

    def _times(self, start_ms: int, end_ms: int) -> JsonObject:
        return {"Offset": self._ticks(start_ms), "Duration": _TICKS * (end_ms - start_ms)}

    def _ticks(self, at_ms: int) -> int:
        return _TICKS * (self.base_ms + at_ms)

    def _write(self, path: str, **content: object) -> str:
        head = f"X-RequestId:{self._turn}\r\nContent-Type:application/json; charset=utf-8\r\nPath:{path}"
        return f"{head}\r\n\r\n{encode(content)}"


def _read(message: str | bytes) -> Message | None:
    """Read a message. None if it is neither audio nor speech.context."""
    body: str | bytes
    if isinstance(message, str):
        head, _, body = message.partition("\r\n\r\n")
    else:
        begin = 2 + int.from_bytes(message[:2], "big")
        head, body = message[2:begin].decode("latin-1"), message[begin:]
        if len(message) < begin:
            return None
    rows = (row.partition(":") for row in head[:LONGEST_HEADER].split("\r\n"))
    fields = {name.strip().lower(): value.strip() for name, _, value in rows}
    if fields.get("path", "").lower() != ("speech.context" if isinstance(body, str) else "audio"):
        return None
    return Message(fields.get("x-requestid", ""), body)


def _samples(header: WaveHeader) -> tuple[str, int | None]:
    """Return the encoding of a WAV file, and the width of samples that become those of 16 bits."""
    low, high = SAMPLE_RATES
    if not low <= header.sample_rate <= high or header.channels > MOST_CHANNELS:
        right = f"a rate from {low} to {high}, and at most {MOST_CHANNELS} channels"
        raise bad(ErrorCode.UNSUPPORTED_AUDIO, f"The audio must have {right}.")
    if encoding := ENCODINGS.get((header.format, header.sample_bits)):
        return encoding, None
    if header.format == 1 and header.sample_bits in (8, 24, 32):
        return "pcm_s16le", header.sample_bits // 8
    why = "The samples of the WAV file must be PCM of 8 to 32 bits, or G.711."
    raise bad(ErrorCode.UNSUPPORTED_AUDIO, f"{why} It has format {header.format} with {header.sample_bits} bits.")


def _text(text: str, confidence: float) -> JsonObject:
    """Return one of the texts of a detailed final."""
    plain = " ".join(filter(None, (part.strip(_MARKS).lower() for part in text.split())))
    return {"Confidence": confidence, "Lexical": plain, "ITN": plain, "MaskedITN": plain, "Display": text}
