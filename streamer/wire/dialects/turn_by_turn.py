"""The base of dialects for voice agents: their clients hear of turns, each with its whole text, and not of segments.

The recogniser decides by the words where a turn ends (`endpoint.turn`). A turn has several segments if it is long, or
if the client flushed. What ends it is told to the client, too. Pure.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from streamer.base.codes import ErrorCode
from streamer.base.events import Acknowledgement, Done, Error, Flushed, Partial, ServerMessage, Turn, TurnState, Word
from streamer.base.events import Final as FinalMessage
from streamer.base.json_types import JsonObject
from streamer.base.limits import EAGERNESS, LONGEST_PAUSE_BOUNDS_MS, LONGEST_PAUSE_MS
from streamer.base.text import separator
from streamer.wire.dialects.audio_first import AudioFirst
from streamer.wire.dialects.dialect import FLUSH, Opening, Step

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
    changeable = True

    def __init__(self, opening: Opening, *, container: bool = False) -> None:
        """`container`: the audio is a recording in any format."""
        self.eagerness = EAGERNESS
        self.longest_pause_ms = LONGEST_PAUSE_MS
        self.turn: SpokenTurn | None = None  # the one that is being spoken
        self._turns = 0
        self._flushes = 0  # without an answer
        self._eager = False  # the client knows that the turn is probably over
        super().__init__(opening, container=container)

    def options(self) -> JsonObject:
        """Return the options of the next session."""
        endpoint = {"turn": True, "eagerness": self.eagerness, "longest_pause_ms": self.longest_pause_ms}
        return {"partial_words": True, "turns": True, "speech": False, "endpoint": endpoint}

    # What the client sends

    @property
    def between(self) -> bool:
        """Whether nothing is being said now."""
        return self.turn is None and not self._flushes

    def greet(self) -> Iterator[Step]:
        """Begin the session of a container. That of samples begins with the first of them."""
        if self.container:
            yield from self.begin_container()

    def hear(self, audio: bytes) -> Iterator[Step]:
        """Take audio. Options that have changed count from the next turn on."""
        if not self.running:
            self._flushes = 0
        yield from super().hear(audio)

    def end_turn(self) -> Iterator[Step]:
        """End the turn because the client says so."""
        if self.running:
            self._flushes += 1
            yield FLUSH

    # What the client gets

    def tell(self, message: ServerMessage) -> Iterator[str]:
        """Yield what is new about the turn."""
        if self.again:
            return
        self.note_heard(message)
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
            yield from self._end(Cause.CLIENT if self.ending else Cause.PAUSE)
        elif isinstance(message, Error) and message.fatal:
            yield from self._break_off(whole=message.code is ErrorCode.ODD_BYTES)
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
        self.over_ms = self.heard_ms
        if turn is not None:
            turn.guess, turn.guesses = "", ()  # no final has them, so they were not said
            yield from self.ended(turn, cause, probability)

    def _break_off(self, *, whole: bool) -> Iterator[str]:
        """Tell what is final of the turn, because the session has failed. `whole`: all audio was recognised before.

        The client may have ended the turn, perhaps in a message that is not read yet. It would take an end that is told
        now for the answer, with all that was said before, and stop listening.
        """
        if whole:
            yield from self._end(Cause.PAUSE)
        turn, self.turn, self._eager = self.turn, None, False
        if turn is not None:
            turn.guess, turn.guesses = "", ()
            yield from self.grown(turn)

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
