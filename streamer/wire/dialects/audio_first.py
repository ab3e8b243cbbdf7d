"""The base of dialects whose clients say no `start`: a session begins with the first audio, and ends when none comes.

Audio in a container has one session, which begins when the client has said that it comes. Options may change while a
session runs: then another one follows at the next gap in speech.

Clients of servers that people run themselves send few options or none, so every such path takes the options of a
session in its query, by their names in the native protocol. Pure.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterator, Sequence
from typing import ClassVar, Final

from streamer.base.codes import ErrorCode
from streamer.base.events import ServerMessage, Word
from streamer.base.json_types import JsonObject
from streamer.base.limits import DEFAULT_MODEL
from streamer.base.options import SAMPLE_BYTES
from streamer.wire.dialects.dialect import KEEPALIVE, STOP, Dialect, Hangup, Opening, Step, session_language, start
from streamer.wire.errors import CloseCode, WireError, bad
from streamer.wire.native import close_reason, encode
from streamer.wire.options import with_second_pass
from streamer.wire.upload import SAMPLE_OPTIONS, SESSION_OPTIONS, Problem, option_of_text

SAMPLE_RATE: Final = 16_000
# The format says how many channels there are, and what it needs to know about words.
_OF_THE_FORMAT: Final = (*SAMPLE_OPTIONS, "multichannel", "partials", "partial_words", "words", "alternatives")
_BYTES_TO_HIGH: Final = bytes((value - 128) % 256 for value in range(256))
OPTIONS: Final = tuple(name for name in SESSION_OPTIONS if name not in _OF_THE_FORMAT)
# A session with other options hears so much of the last audio again, because a word may have begun in it that is not
# recognised yet. While more is not recognised, the session goes on.
_AGAIN_MS: Final = 2000
_SILENCE: Final = {"mulaw": b"\xff"}  # a sample; of the others it is zero


class AudioFirst(Dialect):
    """One websocket of such a client. Times of `tell` count from the start of the present session: add `base_ms`."""

    successive = True
    encoding = "pcm_s16le"
    sample_rate = SAMPLE_RATE
    channels = 1
    width: int | None = None  # of samples that become those of 16 bits, in bytes
    written: ClassVar[bool]  # the original has marks and capitals
    changeable: ClassVar[bool] = False  # options may change while a session runs

    def __init__(self, opening: Opening, *, container: bool = False) -> None:
        """`container`: the audio is a recording in any format. Then there is one session, whose options stay."""
        self.container = container
        if container:
            self.successive = False
        self.undecoded = False  # the container could not be decoded
        self.ending = False  # the client has ended its audio
        self.heard_ms = 0  # the end of the recognised audio
        self.over_ms = 0  # what was said before is final
        self.again = False  # the session ends, and the next one hears its last audio again: its messages do not count
        self._outdated = False  # the options have changed since the session began
        self._last = bytearray()  # the last audio
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

    @property
    def between(self) -> bool:
        """Whether nothing is being said now, so that a session with other options may follow."""
        return False

    # What the client sends

    def begin_container(self) -> Iterator[Step]:
        """Begin the only session, whose audio is in a container."""
        self.container, self.successive, self.running = True, False, True
        yield start(**self.all_options())

    def hear(self, audio: bytes) -> Iterator[Step]:
        """Take audio, which may end within a sample, or between the samples of channels.

        Options that have changed count from the next gap on.
        """
        if self.container:
            yield from (audio,) if audio else ()
            return
        if self._outdated and self.running and self.between:
            audio = (yield from self._begin_again()) + audio
        if self.changeable:
            self._last += audio
            del self._last[: max(0, len(self._last) - self._bytes_of(_AGAIN_MS))]
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
            self.ending = self._outdated = False
            yield begin
        self._bytes += len(audio)
        yield audio if self.width is None else _int16(audio, self.width)

    def change(self) -> None:
        """Note that the options have changed."""
        self._outdated = True

    def keep(self) -> Iterator[Step]:
        """Keep the session open, because the client says that it only pauses."""
        if self.running:
            yield KEEPALIVE

    def end(self) -> Iterator[Step]:
        """End the session, if there is one. Its last messages come before the next step is taken."""
        self._rest = b""
        self.ending = True
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

        It may begin within a sample. The last messages of the session come before the next step is taken, so nothing
        may say meanwhile that the client has ended its audio.
        """
        if self.running:
            self.running = False
            yield STOP

    def undecodable(self, problem: Problem) -> Iterator[Step]:
        """End the session. A recording that its own client has cut off counts as complete."""
        self.undecoded = not (self.ending and problem.code is ErrorCode.DAMAGED_AUDIO)
        yield STOP

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

    def note_heard(self, message: ServerMessage) -> None:
        """Note how much audio is recognised, if the message says it."""
        if (audio_ms := getattr(message, "audio_ms", None)) is not None:
            self.heard_ms = max(self.heard_ms, self.base_ms + audio_ms)

    # Inside

    @property
    def _frame_bytes(self) -> int:
        """The bytes of one sample of every channel."""
        return (self.width or SAMPLE_BYTES[self.encoding]) * self.channels

    def _bytes_of(self, milliseconds: int) -> int:
        return milliseconds * self.sample_rate // 1000 * self._frame_bytes

    def _begin_again(self) -> Generator[Step, None, bytes]:
        """End the session if all words can be heard again, and return the audio for the next one."""
        since_ms = max(self.over_ms, self.base_ms)
        if self.sent_ms - max(since_ms, self.heard_ms) > _AGAIN_MS:
            return b""
        part = self.pending  # of a sample
        whole = (len(self._last) - part) // self._frame_bytes * self._frame_bytes
        size = min(whole, self._bytes_of(self.sent_ms - since_ms))
        again = bytes(self._last[len(self._last) - part - size :])
        self.again = True
        self._rest, self.running = b"", False
        yield STOP
        self.again = False
        self._last.clear()
        self.take_back(size)
        return again

    def _next_start(self) -> str:
        samples = {"encoding": self.encoding, "sample_rate": self.sample_rate, "channels": self.channels}
        return start(**{**samples, **self.all_options()})  # a format may say more of its samples


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


class Interleaver:
    """Audio of channels that comes apart. What a channel has sent waits until the others have sent as much."""

    def __init__(self, labels: Sequence[str], encoding: str, most: int) -> None:
        """`most`: how many samples one channel may be ahead of another."""
        self.added = [0 for _ in labels]  # messages
        self._sample = SAMPLE_BYTES[encoding]
        self._silence = _SILENCE.get(encoding, b"\0")
        self._most = most * self._sample
        self._waiting = [bytearray() for _ in labels]
        self._ended: set[int] = set()

    @property
    def over(self) -> bool:
        """Whether all channels have ended."""
        return len(self._ended) == len(self._waiting)

    def add(self, channel: int, audio: bytes) -> bytes:
        """Take audio of a channel, and return what is complete. Raise WireError if the others are too far behind."""
        self.added[channel] += 1
        if channel not in self._ended:
            self._waiting[channel] += audio
        complete = self._complete()
        if len(self._waiting[channel]) > self._most:
            why = "The audio of one channel is too far ahead of another's; send both, or end the one that is silent."
            raise bad(ErrorCode.UNEXPECTED, why)
        return complete

    def end(self, channel: int) -> bytes:
        """Note that a channel has ended: it is silent from now on. Return what is complete."""
        self._ended.add(channel)
        return self._complete()

    def _complete(self) -> bytes:
        lengths = [len(each) for number, each in enumerate(self._waiting) if number not in self._ended]
        size = min(lengths) if lengths else max(map(len, self._waiting))
        size -= size % self._sample
        whole = bytearray(size * len(self._waiting))
        for number, waiting in enumerate(self._waiting):
            part = bytes(waiting[:size]).ljust(size, self._silence)
            del waiting[:size]
            for byte in range(self._sample):
                whole[number * self._sample + byte :: len(self._waiting) * self._sample] = part[byte :: self._sample]
        return bytes(whole)
