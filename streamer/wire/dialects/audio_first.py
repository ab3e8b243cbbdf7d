"""The base of dialects whose clients say no `start`: a session begins with the first audio, and ends when none comes.

These are the formats of servers that people run themselves. Their clients send few options or none, so every such path
takes the options of a session in its query, by their names in the native protocol. Pure.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Final

from streamer.base.codes import ErrorCode
from streamer.base.events import Word
from streamer.base.json_types import JsonObject
from streamer.base.limits import DEFAULT_MODEL
from streamer.base.options import SAMPLE_BYTES
from streamer.wire.dialects.dialect import KEEPALIVE, STOP, Dialect, Hangup, Opening, Step, session_language, start
from streamer.wire.errors import CloseCode, WireError
from streamer.wire.native import close_reason, encode
from streamer.wire.options import with_second_pass
from streamer.wire.upload import SAMPLE_OPTIONS, SESSION_OPTIONS, option_of_text

SAMPLE_RATE: Final = 16_000
# The format says how many channels there are, and what it needs to know about words.
_OF_THE_FORMAT: Final = (*SAMPLE_OPTIONS, "multichannel", "partials", "partial_words", "words", "alternatives")
_BYTES_TO_HIGH: Final = bytes((value - 128) % 256 for value in range(256))
OPTIONS: Final = tuple(name for name in SESSION_OPTIONS if name not in _OF_THE_FORMAT)


class AudioFirst(Dialect):
    """One websocket of such a client. Times of `tell` count from the start of the present session: add `base_ms`."""

    successive = True
    encoding = "pcm_s16le"
    sample_rate = SAMPLE_RATE
    channels = 1
    width: int | None = None  # of samples that become those of 16 bits, in bytes
    written: ClassVar[bool]  # the original has marks and capitals

    def __init__(self, opening: Opening) -> None:
        self._models = opening.models
        self._asked: dict[str, object] = {}
        for name, value in opening.query:
            if name in OPTIONS and value:
                self._asked[name] = option_of_text(name, value)
        self.running = False
        self.base_ms = 0  # where the audio of the present session begins
        self._bytes = 0  # of audio in the present session
        self._rest = b""  # an incomplete sample
        self.check()  # an option that makes no sense refuses the request

    @staticmethod
    def refusal(code: ErrorCode, message: str, status: int, request_id: str) -> tuple[int, str]:
        """Return the status and the JSON of a refused request: these formats have no form of their own for it."""
        return status, encode({"error": {"code": code, "message": message}}) + "\n"

    @abstractmethod
    def options(self) -> JsonObject:
        """Return the options of the next session, as far as the format has them. They win over those of the query."""

    def all_options(self) -> JsonObject:
        """Return these options with those of the query, without what is said about samples."""
        options = with_second_pass({"written": self.written, **self._asked, **self.options()})
        model = str(options.get("model", DEFAULT_MODEL))
        options["model"] = model = model if model in self._models else DEFAULT_MODEL
        if language := options.get("language"):
            options["language"] = session_language("language", [str(language)], self._models.get(model, ()))
        return options

    def check(self) -> None:
        """Raise WireError if the options of the next session make no sense."""
        self._next_start()

    @property
    def sent_ms(self) -> int:
        """The length of the audio that the client has sent."""
        return self.base_ms + self._bytes * 1000 // (self.sample_rate * self._frame_bytes)

    # What the client sends

    def hear(self, audio: bytes) -> Iterator[Step]:
        """Take audio, which may end within a sample, or between the samples of channels."""
        audio = self._rest + audio
        whole = len(audio) - len(audio) % self._frame_bytes
        audio, self._rest = audio[:whole], audio[whole:]
        if not audio:
            return
        if not self.running:
            try:
                begin = self._next_start()
            except WireError as wrong:
                yield Hangup(CloseCode.REFUSED, close_reason(wrong.message))
                return
            self.base_ms, self._bytes, self.running = self.sent_ms, 0, True
            yield begin
        self._bytes += len(audio)
        yield audio if self.width is None else _int16(audio, self.width)

    def keep(self) -> Iterator[Step]:
        """Keep the session open, because the client says that it only pauses."""
        if self.running:
            yield KEEPALIVE

    def end(self) -> Iterator[Step]:
        """End the session, if there is one. Its last messages come before the next step is taken."""
        self._rest = b""
        if self.running:
            self.running = False
            yield STOP

    def change_rate(self, rate: int, channels: int = 1, width: int | None = None) -> None:
        """Take the rate of the next session, and how its samples are laid out. Call this only while none runs."""
        self.base_ms, self._bytes = self.sent_ms, 0
        self.sample_rate, self.channels, self.width = rate, channels, width

    @property
    def pending(self) -> int:
        """How many bytes of an incomplete sample have come."""
        return len(self._rest)

    def take_back(self, size: int) -> None:
        """Count the last audio, of this many bytes, as not sent yet. Call this only while no session runs."""
        self._bytes -= size

    def restart(self) -> None:
        """Count times from zero again: for a client whose next audio is another recording."""
        self.base_ms = self._bytes = 0
        self._rest = b""

    def rest(self) -> Iterator[Step]:
        """End the session, because the client has sent nothing for a while. The next audio begins another one.

        It may begin within a sample.
        """
        rest = self._rest
        yield from self.end()
        self._rest = rest

    # What the client gets

    def close(self, code: int, reason: str) -> tuple[int, str]:
        """Return the close code and the reason. These clients do not know the codes of the native protocol."""
        return (code if code < CloseCode.BAD_MESSAGE else CloseCode.REFUSED), reason

    def moved(self, word: Word) -> Word:
        """Return a word of the present session with the times of the websocket."""
        if not self.base_ms:
            return word
        start_ms, end_ms = self.base_ms + word.start_ms, self.base_ms + word.end_ms
        return Word(word.word, start_ms, end_ms, word.confidence, word.spoken, word.speaker)

    # Inside

    @property
    def _frame_bytes(self) -> int:
        """The bytes of a sample of every channel."""
        return (self.width or SAMPLE_BYTES[self.encoding]) * self.channels

    def _next_start(self) -> str:
        samples = {"encoding": self.encoding, "sample_rate": self.sample_rate, "channels": self.channels}
        return start(**self.all_options(), **samples)


def _int16(audio: bytes, width: int) -> bytes:
    """Return samples of this width as samples of 16 bits. Those of one byte have no sign, as in a WAV file."""
    if width == 2:
        return audio
    samples = bytearray(2 * (len(audio) // width))
    if width == 1:
        samples[1::2] = audio.translate(_BYTES_TO_HIGH)
    else:
        samples[0::2], samples[1::2] = audio[width - 2 :: width], audio[width - 1 :: width]
    return bytes(samples)
