"""Who speaks in one stream: what is asked of the model that tells voices apart, and which words are whose.

Pure. The model has no state, so everything that it must remember is kept here, and no failure of a Triton loses it. The
sound is heard in windows of ten seconds, each with some new sound. Results wait until the sound of their words was
heard: then a final has the speaker of each word. If the model is away or too slow, they go on without.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final as Constant
from typing import NamedTuple

from streamer.audio.decoder import SAMPLE_RATE
from streamer.base.events import Final, Result, SpeakerTurn
from streamer.base.speakers import TimedTurn, with_speakers
from streamer.bridge.session.backlog import SAMPLE_BYTES

WINDOW: Constant = 10 * SAMPLE_RATE  # samples that the model hears at once
STEP: Constant = 5 * SAMPLE_RATE // 2  # of them are new
# More of a recording is not taken before it was heard. Of a live stream, the oldest sound is left out.
MOST_UNHEARD: Constant = 60 * SAMPLE_RATE
# Results wait at most this long without an answer.
LIMIT_S: Constant = 10.0
FIRST_PAUSE_S: Constant = 2.0  # after a failure; it doubles with each one
LONGEST_PAUSE_S: Constant = 60.0
MOST_PIECES: Constant = 3 << 20  # bytes: those of about three hours. No message of gRPC may be longer than 4 MiB
_KEPT_TURNS: Constant = 500


@dataclass(frozen=True)
class Question:
    """A question to the model: which voices speak in a window, or with `pieces` in everything that was heard."""

    voices: int  # how many there are; 0 if nobody knows
    pcm: bytes = b""
    begin: int = 0  # the first sample of the window
    since: int = 0  # the first one that was not told before
    whole: bool = False  # all of it must be told now; otherwise speech that has just begun may wait
    enrolled: int | None = None  # the number of the voice that speaks in it, if it is no part of the stream
    memory: bytes = b""
    pieces: bytes = b""


class Answer(NamedTuple):
    """The answer of the model. `turns`: the first sample of each, the one after its last, and the voice.

    `until`: the sample up to which they are told. `merge`: a voice that turned out to be another one, and that one.
    """

    turns: Sequence[tuple[int, int, int]]
    until: int
    memory: bytes
    pieces: bytes
    merge: tuple[int, int] | None = None


class SpeakerTrack:
    """Who speaks in one stream, and the results that wait for it."""

    def __init__(self, voices: int, *, live: bool, enrolled: Sequence[bytes] = ()) -> None:
        """`voices`: how many there are; 0 if nobody knows. `live`: no second look is taken, because words were read.

        `enrolled`: a recording of each voice that the client knows. These have the first numbers.
        """
        self._voices, self._live = voices, live
        self._enrolled = deque(enumerate(enrolled))  # those that the model was not asked about
        self._audio = bytearray()  # from the sample `_first` on
        self._first = self._heard = self._received = 0
        self._complete = False
        self._memory = b""
        self._pieces: list[bytes] | None = None if live else []
        self._turns: deque[tuple[int, int, int]] = deque(maxlen=_KEPT_TURNS)
        self._held: deque[tuple[list[Result], bool, float]] = deque()  # with a flush or not, and since when
        self._asked: Question | None = None
        self._asked_at = 0.0
        self._retry_at = 0.0
        self._pause_s = FIRST_PAUSE_S
        self.failure = ""  # why there was no answer to the last question
        self.merge: tuple[int, int] | None = None  # a speaker who is another one, which nobody was told yet
        self.turns: tuple[SpeakerTurn, ...] = ()  # after the second look
        self.silent: tuple[int, ...] = ()  # enrolled voices in whose recordings nobody speaks

    @property
    def full(self) -> bool:
        """Whether no more of a recording should be taken for now."""
        return not self._live and not self.failure and self._received - self._heard > MOST_UNHEARD

    @property
    def over(self) -> bool:
        """Whether nothing waits and nothing will be asked any more."""
        return self._complete and self._asked is None and not self._held and self._next(float("inf")) is None

    @property
    def due_at(self) -> float | None:
        """When to look again if nothing happens before; None if there is no need to."""
        if self._asked is not None:
            return self._asked_at + LIMIT_S
        if self.failure and (self._held or self._complete) and not self.over:
            return self._retry_at
        return None

    def add(self, pcm: bytes) -> None:
        """Add sound."""
        self._audio += pcm
        self._received += len(pcm) // SAMPLE_BYTES
        if self._received - self._heard > MOST_UNHEARD + STEP and (self._live or self.failure):
            self._heard = self._received - MOST_UNHEARD
            self._trim()

    def finish(self) -> None:
        """Note that all sound was added."""
        self._complete = True
        if self.failure:
            self._give_up()

    def hold(self, results: Iterable[Result], flush: bool, now: float) -> None:
        """Take results, which come back from `release` in the same order."""
        self._held.append((list(results), flush, now))

    def release(self, now: float) -> list[tuple[list[Result], bool]]:
        """Return the results that need not wait any more, finals with their speakers. `flush` comes with each."""
        freed: list[tuple[list[Result], bool]] = []
        while self._held:
            results, flush, since = self._held[0]
            ends = [result.end_ms for result in results if isinstance(result, Final)]
            waits = bool(ends) and max(ends) * SAMPLE_RATE // 1000 > self._heard
            if waits and not self.failure and now < max(since, self._asked_at) + LIMIT_S:
                break
            self._held.popleft()
            freed.append(([self._told(each) if isinstance(each, Final) else each for each in results], flush))
        return freed

    def question(self, now: float) -> Question | None:
        """Return the next question, or None. At most one is under way."""
        if self._asked is not None or now < self._retry_at:
            return None
        self._asked, self._asked_at = self._next(now), now
        return self._asked

    def take(self, answer: Answer) -> None:
        """Take the answer to the question under way."""
        question, self._asked = self._asked, None
        assert question is not None
        self.failure, self._pause_s, self._retry_at = "", FIRST_PAUSE_S, 0.0
        if question.enrolled is not None:
            self._enrolled.popleft()
            self._memory = answer.memory
            if self._pieces is not None:
                self._pieces.append(answer.pieces)
            self.silent += () if answer.pieces else (question.enrolled,)
            return
        if question.pieces:
            self.turns = tuple(SpeakerTurn(_ms(start), _ms(end), voice) for start, end, voice in answer.turns)
            self._pieces = None
            return
        self._turns.extend(answer.turns)
        if answer.merge is not None:
            voice, other = self.merge = answer.merge
            turns = [(start, end, other if each == voice else each) for start, end, each in self._turns]
            self._turns = deque(turns, maxlen=_KEPT_TURNS)
        self._memory = answer.memory
        if self._pieces is not None:
            self._pieces.append(answer.pieces)
            if sum(map(len, self._pieces)) > MOST_PIECES:
                self._pieces = None  # what was told must do
        end = question.begin + len(question.pcm) // SAMPLE_BYTES
        # An answer that tells nothing would be asked for again and again.
        self._heard = max(self._heard, answer.until if question.since < answer.until <= end else end)
        self._trim()

    def fail(self, reason: str, now: float) -> None:
        """Note that the question under way was not answered."""
        self._asked = None
        self.failure = reason
        self._retry_at, self._pause_s = now + self._pause_s, min(2 * self._pause_s, LONGEST_PAUSE_S)
        if self._complete:
            self._give_up()

    def _next(self, now: float) -> Question | None:
        unheard = self._received - self._heard
        if self._enrolled and unheard:
            voice, pcm = self._enrolled[0]
            begin = -WINDOW * (voice + 1)
            return Question(self._voices, pcm, begin, begin, True, voice, self._memory)
        if unheard and (unheard >= STEP or self._complete or self._awaited > self._heard):
            end = self._heard + min(STEP, unheard)
            begin = max(self._first, end - WINDOW)
            pcm = bytes(self._audio[(begin - self._first) * SAMPLE_BYTES : (end - self._first) * SAMPLE_BYTES])
            # A recording gets a second look, which is better with all pieces.
            whole = not self._live or self._awaited > self._heard or (self._complete and end == self._received)
            return Question(self._voices, pcm, begin, self._heard, whole, None, self._memory)
        if self._complete and not unheard and self._pieces and (pieces := b"".join(self._pieces)):
            return Question(self._voices, pieces=pieces)
        return None

    def _give_up(self) -> None:
        """Ask nothing more: the session ends, and nobody waits for another attempt."""
        self._heard, self._pieces = self._received, None

    @property
    def _awaited(self) -> int:
        """The sample after the last word of the finals that wait."""
        ends = (each.end_ms for results, *_ in self._held for each in results if isinstance(each, Final))
        return max(ends, default=0) * SAMPLE_RATE // 1000

    def _trim(self) -> None:
        """Forget the sound that no window will have."""
        first = max(self._first, self._heard - WINDOW)
        del self._audio[: (first - self._first) * SAMPLE_BYTES]
        self._first = first

    def _told(self, final: Final) -> Final:
        """Return a final with its speakers."""
        return with_speakers(final, [TimedTurn(_ms(start), _ms(end), voice) for start, end, voice in self._turns])


def _ms(sample: int) -> int:
    return sample * 1000 // SAMPLE_RATE
