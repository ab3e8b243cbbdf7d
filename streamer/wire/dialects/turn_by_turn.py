"""The base of dialects for voice agents: their clients hear of turns, each with its whole text, and not of segments.

The recogniser decides by the words where a turn ends (`endpoint.turn`). A turn has several segments if it is long, or
if the client flushed. What ends it is told to the client, too. Pure.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from streamer.base.codes import ErrorCode
from streamer.base.events import Acknowledgement, Done, Error, Flushed, Partial, ServerMessage, Turn, TurnState, Word
from streamer.base.events import Final as FinalMessage
from streamer.base.json_types import JsonObject
from streamer.base.limits import EAGERNESS, LONGEST_PAUSE_BOUNDS_MS, LONGEST_PAUSE_MS
from streamer.base.options import SAMPLE_BYTES
from streamer.base.text import separator
from streamer.wire.dialects.audio_first import AudioFirst
from streamer.wire.dialects.dialect import FLUSH, STOP, Opening, Step, start
from streamer.wire.upload import Problem

# A session with other options hears so much of the last audio again, because a word may have begun in it that is not
# recognised yet. While more is not recognised, the session goes on.
_AGAIN_MS: Final = 2000
# The end of a turn is known when the audio after its last word is recognised, and that is some audio too late.
_INEXACT_MS: Final = 120


class Cause(Enum):
    """What ended a turn."""

    WORDS = "words"  # the recogniser: the words are complete, and a pause follows
    PAUSE = "pause"  # the longest pause, or the end of the audio
    CLIENT = "client"


@dataclass
class SpokenTurn:
    """The words of one turn so far. Times count from the first audio of the websocket."""

    number: int
    start_ms: int
    end_ms: int = 0  # of its last word
    text: str = ""  # of its finals
    words: list[Word] = field(default_factory=list)  # of its finals
    guess: str = ""  # what may still change
    guesses: tuple[Word, ...] = ()
    language: str = ""

    @property
    def whole(self) -> str:
        """The text so far."""
        return self.text + separator(self.text, self.guess) + self.guess if self.guess else self.text


class TurnByTurn(AudioFirst):
    """One websocket of such a client."""

    written = True

    def __init__(self, opening: Opening, *, container: bool = False) -> None:
        """`container`: the audio is a recording in any format. Then there is one session, whose options stay."""
        self.container = container
        self.successive = not container
        self.undecoded = False  # the container could not be decoded
        self.eagerness = EAGERNESS
        self.longest_pause_ms = LONGEST_PAUSE_MS
        self.turn: SpokenTurn | None = None  # the one that is being spoken
        self.heard_ms = 0  # the end of the recognised audio
        self._turns = 0
        self._flushes = 0  # without an answer
        self._eager = False  # the client knows that the turn is probably over
        self._outdated = False  # the options have changed since the session began
        self._last = bytearray()  # the last audio
        self._over_ms = 0  # when the last turn was over
        self._again = False  # the session ends, and the next one hears its last audio again
        self._ending = False  # the client has ended its audio
        super().__init__(opening)

    def options(self) -> JsonObject:
        """Return the options of the next session."""
        endpoint = {"turn": True, "eagerness": self.eagerness, "longest_pause_ms": self.longest_pause_ms}
        return {"partial_words": True, "turns": True, "speech": False, "endpoint": endpoint}

    # What the client sends

    def greet(self) -> Iterator[Step]:
        """Begin the session of a container. That of samples begins with the first of them."""
        if self.container:
            self.running = True
            yield start(**self.all_options())

    def hear(self, audio: bytes) -> Iterator[Step]:
        """Take audio. Options that have changed count from the next turn on."""
        if self.container:
            yield from (audio,) if audio else ()
            return
        if self._outdated and self.running and self.turn is None and not self._flushes:
            audio = (yield from self._begin_again()) + audio
        if not self.running:
            self._outdated, self._flushes = False, 0
        self._last += audio
        del self._last[: max(0, len(self._last) - self._bytes_of(_AGAIN_MS))]
        yield from super().hear(audio)

    def end_turn(self) -> Iterator[Step]:
        """End the turn because the client says so."""
        if self.running:
            self._flushes += 1
            yield FLUSH

    def end(self) -> Iterator[Step]:
        """End the session, if there is one."""
        self._ending = True
        yield from super().end()

    def rest(self) -> Iterator[Step]:
        """End the session, because the client has sent nothing for a while."""
        yield from super().rest()
        self._ending = False

    def undecodable(self, problem: Problem) -> Iterator[Step]:
        """End the session. A recording that its own client has cut off counts as complete."""
        self.undecoded = not (self._ending and problem.code is ErrorCode.DAMAGED_AUDIO)
        yield STOP

    def change(self) -> None:
        """Note that the options have changed."""
        self._outdated = True

    # What the client gets

    def tell(self, message: ServerMessage) -> Iterator[str]:
        """Yield what is new about the turn."""
        if self._again:
            return
        if (audio_ms := getattr(message, "audio_ms", None)) is not None:
            self.heard_ms = max(self.heard_ms, self.base_ms + audio_ms)
        if isinstance(message, Partial):
            yield from self._guess(message)
        elif isinstance(message, FinalMessage):
            yield from self._settle(message)
        elif isinstance(message, Turn):
            yield from self._turn(message)
        elif isinstance(message, Flushed):
            self._flushes = max(0, self._flushes - 1)
            yield from self._end(Cause.CLIENT)
        elif isinstance(message, Done):
            yield from self._end(Cause.CLIENT if self._ending else Cause.PAUSE)
        elif isinstance(message, Error) and message.fatal:
            yield from self._end(Cause.PAUSE)
            yield from self.fail(message.code, message.message)
        if isinstance(message, (Partial, Acknowledgement)) and self._overdue():
            yield from self._end(Cause.PAUSE)

    @abstractmethod
    def begun(self, turn: SpokenTurn) -> Iterator[str]:
        """Yield that a turn has begun; its first words are there."""

    @abstractmethod
    def grown(self, turn: SpokenTurn) -> Iterator[str]:
        """Yield the text of the turn so far."""

    def paused(self, turn: SpokenTurn, probability: float) -> bool:
        """Return whether the client wants to know that the turn is over with this probability."""
        return False

    def eager(self, turn: SpokenTurn, probability: float) -> Iterator[str]:
        """Yield that the turn is probably over."""
        yield from ()

    def resumed(self, turn: SpokenTurn, probability: float) -> Iterator[str]:
        """Yield that the turn goes on after all."""
        yield from ()

    @abstractmethod
    def ended(self, turn: SpokenTurn, cause: Cause, probability: float) -> Iterator[str]:
        """Yield that a turn is over. Its words will not change any more."""

    # Inside

    def _begin_again(self) -> Generator[Step, None, bytes]:
        """End the session if all words can be heard again, and return the audio for the next one."""
        since_ms = max(self._over_ms, self.base_ms)
        if self.sent_ms - max(since_ms, self.heard_ms) > _AGAIN_MS:
            return b""
        part = self.pending  # of a sample
        whole = (len(self._last) - part) // SAMPLE_BYTES[self.encoding] * SAMPLE_BYTES[self.encoding]
        size = min(whole, self._bytes_of(self.sent_ms - since_ms))
        again = bytes(self._last[len(self._last) - part - size :])
        self._again = True
        yield from super().end()
        self._again = False
        self._last.clear()
        self.take_back(size)
        return again

    def _bytes_of(self, milliseconds: int) -> int:
        return milliseconds * self.sample_rate // 1000 * SAMPLE_BYTES[self.encoding]

    def _begin(self, message: Partial | FinalMessage) -> Iterator[str]:
        if self.turn is None:
            self.turn = SpokenTurn(self._turns, self.base_ms + message.start_ms)
            self._turns += 1
            self._note(self.turn, message)
            yield from self.begun(self.turn)
        else:
            self._note(self.turn, message)
            yield from self.grown(self.turn)

    def _note(self, turn: SpokenTurn, message: Partial | FinalMessage) -> None:
        words = message.words or ()
        if isinstance(message, FinalMessage):
            turn.text += separator(turn.text, message.text) + message.text
            turn.words += [self.moved(word) for word in words]
            turn.guess, turn.guesses = "", ()
            turn.end_ms = max(turn.end_ms, self.base_ms + message.end_ms)
        else:
            turn.guess, turn.guesses = message.text, tuple(map(self.moved, words))
            turn.end_ms = max(turn.end_ms, *(word.end_ms for word in turn.guesses), self.base_ms + message.start_ms)

    def _guess(self, partial: Partial) -> Iterator[str]:
        if partial.text:
            yield from self._begin(partial)
        elif self.turn is not None:
            self.turn.guess, self.turn.guesses = "", ()

    def _settle(self, final: FinalMessage) -> Iterator[str]:
        if final.turn is None:
            yield from self._begin(final)
            return
        if self.turn is None:
            yield from self._begin(final)
        else:
            self._note(self.turn, final)

    def _turn(self, event: Turn) -> Iterator[str]:
        if (turn := self.turn) is None:
            return
        if event.state is TurnState.END:
            silence_ms = self.base_ms + event.audio_ms - turn.end_ms
            cause = Cause.PAUSE if silence_ms >= self.longest_pause_ms - _INEXACT_MS else Cause.WORDS
            yield from self._end(cause, event.probability)
        elif event.state is TurnState.EAGER and not self._eager and self.paused(turn, event.probability):
            self._eager = True
            yield from self.eager(turn, event.probability)
        elif event.state is TurnState.RESUMED and self._eager:
            self._eager = False
            yield from self.resumed(turn, event.probability)

    def _end(self, cause: Cause, probability: float = 1.0) -> Iterator[str]:
        turn, self.turn, self._eager = self.turn, None, False
        self._over_ms = self.heard_ms
        if turn is not None:
            turn.guess, turn.guesses = "", ()  # no final has them, so they were not said
            yield from self.ended(turn, cause, probability)

    def _overdue(self) -> bool:
        """Return whether a turn must end without an event: all of its words are final, or were dropped."""
        turn = self.turn
        return turn is not None and not turn.guess and self.heard_ms - turn.end_ms >= self.longest_pause_ms


def within(value: float, bounds: tuple[int, int] = LONGEST_PAUSE_BOUNDS_MS) -> int:
    """Return the whole number within these bounds that is nearest to the value."""
    low, high = bounds
    return round(min(max(value, low), high))


def whole_words(turn: SpokenTurn) -> Sequence[Word]:
    """Return all words of a turn so far."""
    return (*turn.words, *turn.guesses)
