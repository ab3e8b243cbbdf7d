"""The model's side of a session: what one channel has for its sequence, request by request.

Pure. A session has a stream for each channel that is recognised on its own. A stream knows nothing of the client: it
takes 16 kHz audio, hands out one request at a time, and once its sequence is opened it sees to it that it is ended.

It keeps the audio that it has sent since the last cut. When a sequence is lost, that audio goes to the front of what
waits, and a new sequence begins at the cut: see replay.py for what is told of it. A sequence that is to go on
elsewhere does so at a cut, where hardly any audio is to be sent again, and nothing was told of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from streamer.audio.sample_converter import SAMPLE_RATE
from streamer.bridge.session.backlog import BYTES_PER_S, LOW_MARK, SAMPLE_BYTES, Backlog
from streamer.bridge.session.replay import Replay
from streamer.bridge.states import StateError, States
from streamer.wire.events import Result
from streamer.wire.model_events import ModelEvent

# More than the longest segment that may be asked for, and what is sent until its cut is told. A model that cuts later
# than that cannot be replayed.
MOST_KEPT = 70 * BYTES_PER_S
# Between attempts to open a new sequence: the first is made at once.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 2.0


class SequenceState(Enum):
    """Where the stream's sequence is."""

    NEW = "new"  # there was none yet
    OPENING = "opening"  # START of the first one is under way: from now on the model may hold a slot
    OPEN = "open"
    BETWEEN = "between"  # the last one is lost or left, and another one goes on at the cut
    REOPENING = "reopening"  # START of that one is under way
    ENDED = "ended"


SEQUENCE_TRANSITIONS: Mapping[SequenceState, tuple[SequenceState, ...]] = {
    SequenceState.NEW: (SequenceState.OPENING,),
    SequenceState.OPENING: (SequenceState.OPEN, SequenceState.BETWEEN, SequenceState.ENDED),
    SequenceState.OPEN: (SequenceState.BETWEEN, SequenceState.ENDED),
    SequenceState.BETWEEN: (SequenceState.REOPENING,),
    SequenceState.REOPENING: (SequenceState.OPEN, SequenceState.BETWEEN, SequenceState.ENDED),
    SequenceState.ENDED: (),
}
# Without a sequence that was accepted and is not ended.
UNOPENED = (SequenceState.NEW, SequenceState.OPENING, SequenceState.BETWEEN, SequenceState.REOPENING)
# With nothing that would have to be ended.
_IDLE = (SequenceState.NEW, SequenceState.BETWEEN, SequenceState.ENDED)


class Supply(Enum):
    """What audio the stream has for its sequence."""

    FLOWING = "flowing"  # more may come
    COMPLETE = "complete"  # what was added is all
    UNWANTED = "unwanted"  # nobody waits for its words


SUPPLY_TRANSITIONS: Mapping[Supply, tuple[Supply, ...]] = {
    Supply.FLOWING: (Supply.COMPLETE, Supply.UNWANTED),
    Supply.COMPLETE: (Supply.UNWANTED,),
    Supply.UNWANTED: (),
}


@dataclass(frozen=True)
class Request:
    """What goes to the model next: whole steps of audio, or everything up to a flush or the end."""

    pcm: bytes = b""
    start: bool = False
    flush: bool = False
    end: bool = False
    options: Mapping[str, bool] = field(default_factory=dict)  # of a new sequence that goes on for a lost one


@dataclass
class _Outage:
    """From the first failure until the model has heard again what it had been sent."""

    since: float  # when the answer began to be awaited that did not come
    alive_at: float  # when it last got further than ever before in this outage
    mark: int  # the sample up to which it had been sent audio
    owed: bool  # and whether a flush or the end went with it
    reached: int = 0
    attempts: int = 0
    retry_at: float = 0.0
    reason: str = ""  # of the last failure

    def fail(self, reason: str, now: float) -> None:
        """One more attempt has failed."""
        pause = min(FIRST_PAUSE_S * 2 ** (self.attempts - 1), LONGEST_PAUSE_S) if self.attempts else 0.0
        self.attempts += 1
        self.retry_at = now + pause
        self.reason = reason

    def ends(self, heard: int, request: Request, now: float) -> bool:
        """This request was answered, and so much was heard: whether everything is where it was."""
        if heard > self.reached and request.pcm:
            self.reached, self.alive_at = heard, now
        # Once it has done what it failed at; a sequence that opens may still do so.
        return heard >= self.mark and (request.flush or request.end or not self.owed)


class _Kept:
    """The audio that was sent since the last cut, as long as it can be kept."""

    def __init__(self) -> None:
        self._audio = bytearray()
        self._dropped = 0  # bytes for which there was no room

    def __len__(self) -> int:
        return len(self._audio)

    @property
    def whole(self) -> bool:
        """Whether everything was kept."""
        return not self._dropped

    def add(self, pcm: bytes) -> None:
        self._audio += pcm
        if len(self._audio) > MOST_KEPT:
            self._dropped += len(self._audio)
            self._audio.clear()

    def let_go(self, size: int) -> None:
        """So many bytes are not needed again."""
        del self._audio[:size]

    def take(self) -> bytes:
        """All of it."""
        audio = bytes(self._audio)
        self._audio.clear()
        return audio


class Stream:
    """One stream of the model, from START to END, in one sequence or several."""

    def __init__(self, step_ms: int, refresh_s: float, now: float, number: int = 0) -> None:
        """`refresh_s`: a sequence that is silent for so long gets an empty request, so that Triton keeps it."""
        self._sequence = States("sequence", SequenceState.NEW, SEQUENCE_TRANSITIONS, stream=number)
        self._supply = States("supply", Supply.FLOWING, SUPPLY_TRANSITIONS, stream=number)
        self._replay = Replay(number)
        self._backlog = Backlog()
        self._kept = _Kept()
        self._outage: _Outage | None = None
        self._extra = 0  # bytes that wait, or may, because of an outage
        self._outstanding: Request | None = None
        self._asked_at = now
        self._step_ms = step_ms
        self._refresh_s = refresh_s

    @property
    def sequence(self) -> SequenceState:
        """Where its sequence is."""
        return self._sequence.now

    @property
    def heard_ms(self) -> int:
        """What the model has acknowledged."""
        return self._replay.clock.heard * 1000 // SAMPLE_RATE

    @property
    def kept_s(self) -> float:
        """The audio that would be played again if the sequence were lost now."""
        return len(self._kept) / BYTES_PER_S

    @property
    def unrecognised_ms(self) -> int:
        """The audio that is not in a final and may never be."""
        return (self._backlog.received // SAMPLE_BYTES - self._replay.clock.cut) * 1000 // SAMPLE_RATE

    @property
    def waiting(self) -> int:
        """Bytes of audio that are not with the model."""
        return len(self._backlog)

    @property
    def full(self) -> bool:
        """Whether no audio should be added for now."""
        return self._backlog.full

    @property
    def computing(self) -> bool:
        """Whether audio is with the model, or would be if there were one."""
        return self._outage is not None or (self._outstanding is not None and bool(self._outstanding.pcm))

    @property
    def over(self) -> bool:
        """Whether nothing is under way and nothing is left to end."""
        return self._outstanding is None and self._sequence.now in _IDLE

    @property
    def lost_at(self) -> float | None:
        """Since when the model is missed; None while it is there."""
        return None if self._outage is None else self._outage.since

    @property
    def failure(self) -> str:
        """Why the model is missed; empty while it is there."""
        return "" if self._outage is None else self._outage.reason

    @property
    def moving(self) -> bool:
        """Whether a new sequence is opened for one that was left, and not lost."""
        return self._sequence.now is SequenceState.REOPENING and self._outage is None

    @property
    def mendable(self) -> bool:
        """Whether a new sequence could go on where this one fails."""
        return self._kept.whole and self._supply.now is not Supply.UNWANTED

    def hopeless_at(self, limit_s: float) -> float | None:
        """When the model has been missed for so long that nothing is expected of it any more."""
        return None if self._outage is None else self._outage.alive_at + limit_s

    def exceeds(self, mark: int) -> bool:
        """Whether more audio waits than `mark` bytes, or than flushes are remembered; what an outage adds is free."""
        return self._backlog.exceeds(mark + self._extra)

    def add(self, pcm: bytes) -> None:
        """Audio for the model."""
        self._backlog.add(pcm)
        if self._outage is not None:
            self._extra += len(pcm)

    def flush(self) -> None:
        """Everything added so far is to become final."""
        self._backlog.mark_flush()

    def finish(self) -> None:
        """What was added is all: the sequence is ended with it."""
        self._supply.become(Supply.COMPLETE)

    def drop(self) -> None:
        """Nobody waits for its words any more: the sequence is ended without what has not been sent."""
        self._supply.become(Supply.UNWANTED)
        self._outage = None
        self._kept.take()
        self._backlog.clear()

    def request(self, now: float, *, hold: bool = False) -> Request | None:
        """The next request, or None while there is none; at most one is under way. `hold`: no audio yet."""
        if self._outstanding is not None or self._sequence.now is SequenceState.ENDED:
            return None
        request = self._next(now, hold)
        if request is not None:
            self._outstanding, self._asked_at = request, now
            if request.start:
                first = self._sequence.now is SequenceState.NEW
                self._sequence.become(SequenceState.OPENING if first else SequenceState.REOPENING)
            if request.pcm:
                self._kept.add(request.pcm)
        return request

    def answered(
        self, events: Iterable[ModelEvent], now: float, *, leaving: bool = False
    ) -> tuple[Request, list[Result]]:
        """The request under way has its answer; returns it and what the client has to be told.

        `leaving`: the sequence is to end at its next cut, or now if there is nothing since the last, for a new one.
        """
        request = self._settle()
        self._reach(SequenceState.ENDED if request.end else SequenceState.OPEN)
        leaving = leaving and not request.end and self._outage is None and self.mendable
        cut = self._replay.clock.cut
        told = self._replay.take(events, leaving=leaving)
        self._kept.let_go((self._replay.clock.cut - cut) * SAMPLE_BYTES)
        if self._outage is not None:
            if self._outage.ends(self._replay.clock.replayed, request, now):
                self._outage = None
        elif leaving and (self._replay.clock.cut > cut or not self._kept):
            self._begin_anew()
        return request, told

    def failed(self, *, lost: bool) -> None:
        """The request under way failed for good; `lost` says that the sequence is gone and needs no END."""
        request = self._settle()
        self._reach(SequenceState.ENDED if lost or request.end else SequenceState.OPEN)

    def lose(self, now: float, reason: str) -> None:
        """The request under way failed, but not for good: a new sequence will go on at the last cut."""
        request = self._settle()
        if self._outage is None:
            sent = self._replay.clock.cut + len(self._kept) // SAMPLE_BYTES
            self._outage = _Outage(self._asked_at, now, sent, request.flush or request.end)
        self._outage.fail(reason, now)
        self._begin_anew(flush=request.flush)

    def due_at(self) -> float | None:
        """When to call `request` again although nothing came; None if only an event can help."""
        if self._outstanding is not None:
            return None
        if self._sequence.now is SequenceState.BETWEEN and self._outage is not None:
            return self._outage.retry_at
        return self._asked_at + self._refresh_s if self._sequence.now is SequenceState.OPEN else None

    def _next(self, now: float, hold: bool) -> Request | None:
        unwanted = self._supply.now is Supply.UNWANTED
        if self._sequence.now is not SequenceState.OPEN:
            if unwanted or (self._outage is not None and now < self._outage.retry_at):
                return None
            # It opens with no audio, so that its answer means: a slot is held, the options are accepted.
            return Request(start=True, options=self._replay.resume)
        if unwanted:
            return Request(end=True)
        portion = None if hold else self._backlog.take(self._step_ms, last=self._supply.now is Supply.COMPLETE)
        if len(self._backlog) <= LOW_MARK and self._outage is None:
            self._extra = 0
        if portion is not None:
            return Request(portion.pcm, flush=portion.flush, end=portion.last)
        return Request() if now - self._asked_at >= self._refresh_s else None

    def _begin_anew(self, *, flush: bool = False) -> None:
        """A new sequence goes on at the last cut."""
        self._sequence.become(SequenceState.BETWEEN)
        self._extra += len(self._kept)
        self._backlog.put_back(self._kept.take(), flush=flush)
        self._replay.restart()

    def _reach(self, state: SequenceState) -> None:
        if self._sequence.now is not state:
            self._sequence.become(state)

    def _settle(self) -> Request:
        request, self._outstanding = self._outstanding, None
        if request is None:
            raise StateError("stream", ["a request under way"], f"none while its sequence is {self.sequence.value}")
        return request
