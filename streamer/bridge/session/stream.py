"""The model's side of a session: the requests of one channel to its sequence.

Pure. A session has a stream for each channel that is recognised separately. A stream knows nothing of the client. It
takes 16 kHz audio, returns one request at a time, and always ends a sequence that it has opened.

It keeps the audio that it has sent since the last cut. If a sequence is lost, that audio goes to the front of what
waits, and a new sequence begins at the cut; replay.py handles its results. A stream that must move to another slot does
so at a cut, because hardly any audio was sent after it, and the client has no results of that audio yet.
"""

from __future__ import annotations

import collections.abc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from streamer.audio.decoder import SAMPLE_RATE
from streamer.base.events import Heard, ModelEvent, Opened, Result
from streamer.base.text_context import TextContext
from streamer.bridge.session.backlog import BYTES_PER_S, LOW_MARK, SAMPLE_BYTES, Backlog, Grid, Place
from streamer.bridge.session.replay import Replay
from streamer.bridge.states import StateError, States

# More than the longest segment that a client may choose, plus the audio that is sent until its cut arrives. If a model
# cuts later, the audio cannot be replayed.
MOST_KEPT = 70 * BYTES_PER_S
# A live client is not blamed for the time in which the model does not answer, up to this time in a row.
MOST_WAITED_S = 60.0
# Pauses between attempts to open a new sequence; the first attempt is made at once.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 2.0


class SequenceState(Enum):
    """The state of the stream's sequence."""

    NEW = "new"  # there has been no sequence yet
    OPENING = "opening"  # START of the first one is under way, and the model may already hold a slot
    OPEN = "open"
    BETWEEN = "between"  # the last one is lost or left, and another one will begin at the cut
    REOPENING = "reopening"  # START of that other one is under way
    ENDED = "ended"


SEQUENCE_TRANSITIONS: Mapping[SequenceState, tuple[SequenceState, ...]] = {
    SequenceState.NEW: (SequenceState.OPENING,),
    SequenceState.OPENING: (SequenceState.OPEN, SequenceState.BETWEEN, SequenceState.ENDED),
    SequenceState.OPEN: (SequenceState.BETWEEN, SequenceState.ENDED),
    SequenceState.BETWEEN: (SequenceState.REOPENING,),
    SequenceState.REOPENING: (SequenceState.OPEN, SequenceState.BETWEEN, SequenceState.ENDED),
    SequenceState.ENDED: (),
}
# The states in which no accepted sequence exists, but may come.
UNOPENED = (SequenceState.NEW, SequenceState.OPENING, SequenceState.BETWEEN, SequenceState.REOPENING)
# The states in which there is nothing to end.
_IDLE = (SequenceState.NEW, SequenceState.BETWEEN, SequenceState.ENDED)


class Supply(Enum):
    """The state of the stream's audio."""

    FLOWING = "flowing"  # more may come
    COMPLETE = "complete"  # all of it has been added
    UNWANTED = "unwanted"  # the client is gone, so its words are not needed


SUPPLY_TRANSITIONS: Mapping[Supply, tuple[Supply, ...]] = {
    Supply.FLOWING: (Supply.COMPLETE, Supply.UNWANTED),
    Supply.COMPLETE: (Supply.UNWANTED,),
    Supply.UNWANTED: (),
}


@dataclass(frozen=True)
class Request:
    """A request to the model: audio that ends with a step, a piece, a possible turn or a flush."""

    pcm: bytes = b""
    start: bool = False
    flush: bool = False
    end: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)  # for a new sequence that follows another one


@dataclass
class _Outage:
    """The time from the first failure until a model has heard all audio again that was sent before."""

    since: float  # the time of the request that failed first
    alive_at: float  # when the replay last made progress
    mark: int  # the sample up to which audio had been sent
    must_flush: bool  # whether the request that failed had a flush or the end
    reached: int = 0
    attempts: int = 0
    retry_at: float = 0.0
    reason: str = ""  # of the last failure

    def fail(self, reason: str, now: float) -> None:
        """Note that an attempt has failed."""
        pause = min(FIRST_PAUSE_S * 2 ** (self.attempts - 1), LONGEST_PAUSE_S) if self.attempts else 0.0
        self.attempts += 1
        self.retry_at = now + pause
        self.reason = reason

    def ends(self, heard: int, request: Request, now: float) -> bool:
        """Note an answer, after which the sequence has heard up to this sample. Return whether the outage is over."""
        if heard > self.reached and request.pcm:
            self.reached, self.alive_at = heard, now
        # It is over once the model has also answered the flush or the end that failed before.
        return heard >= self.mark and (request.flush or request.end or not self.must_flush)


class _SentAudio:
    """The audio that was sent since the last cut, up to MOST_KEPT."""

    def __init__(self) -> None:
        self._audio = bytearray()
        self._dropped = 0  # bytes that were too many to keep

    def __len__(self) -> int:
        return len(self._audio)

    @property
    def whole(self) -> bool:
        """Whether everything was kept."""
        return not self._dropped

    @property
    def size(self) -> int:
        """The size that it would have if everything had been kept, up to a multiple of any step."""
        return self._dropped + len(self._audio)

    def add(self, pcm: bytes) -> None:
        self._audio += pcm
        if len(self._audio) > MOST_KEPT:
            self._dropped += len(self._audio)
            self._audio.clear()

    def drop_front(self, size: int) -> None:
        """Drop this number of bytes from the front, because they are not needed again."""
        del self._audio[:size]

    def take(self) -> bytes:
        """Return all of it, and forget it."""
        audio = bytes(self._audio)
        self._audio.clear()
        return audio


class Stream:
    """One stream, from its first START to its last END, in one sequence or several."""

    def __init__(
        self, step_ms: int, refresh_s: float, now: float, number: int = 0, context: TextContext | None = None
    ) -> None:
        """`refresh_s`: after this time without a request, an empty one is sent, so that Triton keeps the sequence.

        `context`: the words before its audio.
        """
        self._sequence = States("sequence", SequenceState.NEW, SEQUENCE_TRANSITIONS, stream=number)
        self._supply = States("supply", Supply.FLOWING, SUPPLY_TRANSITIONS, stream=number)
        self._replay = Replay(number, context)
        self._backlog = Backlog()
        self._sent_audio = _SentAudio()
        self._outage: _Outage | None = None
        self._extra = 0  # bytes that may wait in addition, after an outage or a move
        self._waited_s = 0.0  # the time in which the model had a request, since the backlog was low
        self._under_way: Request | None = None
        self._sent_at = now
        self._step_ms = step_ms
        self._own_step_ms: int | None = None  # the step that the model of the present sequence takes for it
        self._ahead_ms = 0  # how much audio after each step this model reads with it
        self._piece_ms: int | None = None  # the pieces in which the present sequence detects speech
        self._sequence_bytes = 0  # the audio that the present sequence has got
        self._due: int | None = None  # the sample at which the present sequence wants a request to end
        self._refresh_s = refresh_s
        self._ripe_bytes: int | None = None  # the least audio for the next request, since it was last asked for

    @property
    def sequence(self) -> SequenceState:
        """The state of its sequence."""
        return self._sequence.now

    @property
    def heard_ms(self) -> int:
        """The audio that the model has acknowledged."""
        return self._replay.clock.heard * 1000 // SAMPLE_RATE

    @property
    def kept_s(self) -> float:
        """The audio that would be sent again if the sequence were lost now."""
        return len(self._sent_audio) / BYTES_PER_S

    @property
    def unrecognised_ms(self) -> int:
        """The audio that is not in a final yet."""
        return (self._backlog.received // SAMPLE_BYTES - self._replay.clock.cut) * 1000 // SAMPLE_RATE

    @property
    def waiting(self) -> int:
        """The bytes of audio that wait to be sent to the model."""
        return len(self._backlog)

    @property
    def full(self) -> bool:
        """Whether no audio should be added for now."""
        return self._backlog.full

    @property
    def computing(self) -> bool:
        """Whether a request with audio is under way, or an outage delays one."""
        return self._outage is not None or (self._under_way is not None and bool(self._under_way.pcm))

    @property
    def missing(self) -> int:
        """The bytes of audio that its next request waits for; a step while it waits for an answer."""
        if self._sequence.now is not SequenceState.OPEN:
            return 0
        if self._under_way is not None:
            return Grid(self._grid_ms).least
        if self._ripe_bytes is None:
            self._ripe_bytes = min((least for end in self._ends if (least := end.least)), default=0)
        return self._backlog.lacks(self._ripe_bytes)

    @property
    def asked(self) -> bool:
        """Whether a request is under way."""
        return self._under_way is not None

    @property
    def over(self) -> bool:
        """Whether no request is under way and no sequence must be ended."""
        return self._under_way is None and self._sequence.now in _IDLE

    @property
    def lost_at(self) -> float | None:
        """The start of the present outage; None if there is none."""
        return None if self._outage is None else self._outage.since

    @property
    def failure(self) -> str:
        """The reason of the present outage; empty if there is none."""
        return "" if self._outage is None else self._outage.reason

    @property
    def moving(self) -> bool:
        """Whether a new sequence is being opened because the stream moves, and not because a sequence was lost."""
        return self._sequence.now is SequenceState.REOPENING and self._outage is None

    @property
    def mendable(self) -> bool:
        """Whether a new sequence could continue if this one fails."""
        return self._sent_audio.whole and self._supply.now is not Supply.UNWANTED

    def hopeless_at(self, limit_s: float) -> float | None:
        """Return the time at which the present outage will have lasted too long without progress."""
        return None if self._outage is None else self._outage.alive_at + limit_s

    def waited_s(self, now: float) -> float:
        """The time for which the model has delayed the audio that waits now."""
        return self._waited_s + (now - self._sent_at if self._under_way is not None else 0.0)

    def exceeds(self, mark: int, now: float) -> bool:
        """Return whether more than `mark` bytes, or too many flushes, wait, besides what the model has delayed."""
        waited_s = min(self.waited_s(now), MOST_WAITED_S)
        return self._backlog.exceeds(mark + self._extra + int(waited_s * BYTES_PER_S), int(waited_s))

    def add(self, pcm: bytes) -> None:
        """Add audio for the model."""
        self._backlog.add(pcm)
        if self._outage is not None:
            self._extra += len(pcm)

    def flush(self) -> None:
        """Make everything added so far final."""
        self._backlog.mark_flush()

    def finish(self) -> None:
        """End the sequence after all audio that was added."""
        self._supply.become(Supply.COMPLETE)

    def drop(self) -> None:
        """End the sequence without the waiting audio, because its words are not needed any more."""
        self._supply.become(Supply.UNWANTED)
        self._outage = None
        self._sent_audio.take()
        self._backlog.clear()

    def request(self, now: float, *, hold: bool = False) -> Request | None:
        """Return the next request, or None. At most one is under way. `hold`: do not send audio yet."""
        if self._under_way is not None or self._sequence.now is SequenceState.ENDED:
            return None
        request = self._next(now, hold)
        if request is not None:
            self._under_way, self._sent_at, self._ripe_bytes = request, now, None
            if request.start:
                first = self._sequence.now is SequenceState.NEW
                self._sequence.become(SequenceState.OPENING if first else SequenceState.REOPENING)
            if request.pcm:
                self._sent_audio.add(request.pcm)
                self._sequence_bytes += len(request.pcm)
        return request

    def take_answer(
        self, events: Iterable[ModelEvent], now: float, *, leaving: bool = False
    ) -> tuple[Request, list[Result]]:
        """Take the answer to the request under way. Return the request and the results for the client.

        `leaving`: replace this sequence by a new one at its next cut, or now if no audio was sent since the last cut.
        """
        request = self._settle()
        self._waited_s += now - self._sent_at
        self._reach(SequenceState.ENDED if request.end else SequenceState.OPEN)
        leaving = leaving and not request.end and self._outage is None and self.mendable
        cut = self._replay.clock.cut
        events = list(events)
        for event in events:
            if isinstance(event, Opened):
                self._piece_ms, self._own_step_ms, self._ahead_ms = event.piece_ms, event.step_ms, event.ahead_ms or 0
        self._due = next((event.due for event in events if isinstance(event, Heard)), None)
        results = self._replay.take(events, leaving=leaving)
        self._sent_audio.drop_front((self._replay.clock.cut - cut) * SAMPLE_BYTES)
        if self._outage is not None:
            if self._outage.ends(self._replay.clock.replayed, request, now):
                self._outage = None
        elif leaving and (self._replay.clock.cut > cut or not self._sent_audio):
            self._begin_anew()
        return request, results

    def fail(self, *, lost: bool) -> None:
        """Note that the request under way failed for good. `lost`: the sequence is gone and needs no END."""
        request = self._settle()
        self._reach(SequenceState.ENDED if lost or request.end else SequenceState.OPEN)

    def lose(self, now: float, reason: str) -> None:
        """Note that the request under way failed, and that a new sequence will continue at the last cut."""
        request = self._settle()
        self._waited_s += now - self._sent_at
        if self._outage is None:
            mark = self._replay.clock.cut + len(self._sent_audio) // SAMPLE_BYTES
            self._outage = _Outage(self._sent_at, now, mark, request.flush or request.end)
        self._outage.fail(reason, now)
        self._begin_anew(flush=request.flush)

    def due_at(self) -> float | None:
        """Return when to call request() if nothing happens before; None if there is no need to."""
        if self._under_way is not None:
            return None
        if self._sequence.now is SequenceState.BETWEEN and self._outage is not None:
            return self._outage.retry_at
        return self._sent_at + self._refresh_s if self._sequence.now is SequenceState.OPEN else None

    def _next(self, now: float, hold: bool) -> Request | None:
        unwanted = self._supply.now is Supply.UNWANTED
        if self._sequence.now is not SequenceState.OPEN:
            if unwanted or (self._outage is not None and now < self._outage.retry_at):
                return None
            # The first request has no audio, so that its answer means that the sequence has a slot and valid options.
            return Request(start=True, options=self._replay.options)
        if unwanted:
            return Request(end=True)
        portion = None if hold else self._backlog.take(*self._ends, last=self._supply.now is Supply.COMPLETE)
        if len(self._backlog) <= LOW_MARK and self._outage is None:
            self._extra, self._waited_s = 0, 0.0
        if portion is not None:
            return Request(portion.pcm, flush=portion.flush, end=portion.last)
        return Request() if now - self._sent_at >= self._refresh_s else None

    @property
    def _grid_ms(self) -> int:
        """The length of a portion: the wanted step, or as many steps of the model as fit into it, at least one."""
        own_ms = self._own_step_ms
        return self._step_ms if own_ms is None else own_ms * max(1, self._step_ms // own_ms)

    @property
    def _ends(self) -> list[Grid | Place]:
        """The places where the next portion may end."""
        # The model counts its steps from the last cut. If a portion ended elsewhere, its last part would wait there for
        # the next one.
        ahead = self._ahead_ms * BYTES_PER_S // 1000
        ends: list[Grid | Place] = [Grid(self._grid_ms, self._sent_audio.size - ahead)]
        # While nobody speaks, the model gets each piece as soon as possible, to notice early that speech begins.
        if self._piece_ms is not None and not self._replay.speaking:
            ends.append(Grid(self._piece_ms, self._sequence_bytes))
        if self._due is not None:
            ends.append(Place(self._due * SAMPLE_BYTES - self._sequence_bytes))
        return ends

    def _begin_anew(self, *, flush: bool = False) -> None:
        """Prepare for a new sequence at the last cut."""
        self._sequence.become(SequenceState.BETWEEN)
        self._sequence_bytes, self._piece_ms, self._own_step_ms, self._ahead_ms, self._due = 0, None, None, 0, None
        self._extra += len(self._sent_audio)
        self._backlog.put_back(self._sent_audio.take(), flush=flush)
        self._replay.restart()

    def _reach(self, state: SequenceState) -> None:
        if self._sequence.now is not state:
            self._sequence.become(state)

    def _settle(self) -> Request:
        """Return the request that was under way, which is answered now or has failed."""
        request, self._under_way = self._under_way, None
        if request is None:
            raise StateError("stream", ["a request under way"], f"none while its sequence is {self.sequence.value}")
        return request


# All streams of one session together.


class StreamGroup(collections.abc.Collection[Stream]):
    """One stream for each channel that is recognised separately; none before `start`."""

    def __init__(self) -> None:
        self._streams: list[Stream] = []

    def begin(
        self, number: int, step_ms: int, refresh_s: float, now: float, contexts: Sequence[TextContext | None] = ()
    ) -> None:
        """Make this number of streams. `contexts`: the words before the audio of each, as far as they are known."""
        context_of = dict(enumerate(contexts))
        self._streams = [Stream(step_ms, refresh_s, now, each, context_of.get(each)) for each in range(number)]

    def __len__(self) -> int:
        return len(self._streams)

    def __iter__(self) -> Iterator[Stream]:
        return iter(self._streams)

    def __contains__(self, stream: object) -> bool:
        return stream in self._streams

    def __getitem__(self, number: int) -> Stream:
        return self._streams[number]

    @property
    def opening(self) -> bool:
        """Whether the model may still refuse a stream's sequence."""
        return any(stream.sequence in UNOPENED for stream in self._streams)

    @property
    def opened(self) -> bool:
        """Whether all streams have an open sequence."""
        return all(stream.sequence is SequenceState.OPEN for stream in self._streams)

    @property
    def ended(self) -> bool:
        """Whether the sequences of all streams have ended."""
        return all(stream.sequence is SequenceState.ENDED for stream in self._streams)

    @property
    def over(self) -> bool:
        """Whether no stream has a request under way or a sequence to end."""
        return all(stream.over for stream in self._streams)

    @property
    def full(self) -> bool:
        """Whether a stream should get no audio for now."""
        return any(stream.full for stream in self._streams)

    @property
    def computing(self) -> bool:
        """Whether a stream has a request with audio under way, or an outage delays one."""
        return any(stream.computing for stream in self._streams)

    @property
    def interrupted(self) -> bool:
        """Whether a stream has an outage: it lost its sequence and has not caught up."""
        return any(stream.lost_at is not None for stream in self._streams)

    @property
    def waiting(self) -> int:
        """The bytes of audio that wait to be sent to the model, in all streams together."""
        return sum(stream.waiting for stream in self._streams)

    @property
    def heard_ms(self) -> int:
        """The audio that the model has acknowledged in all streams."""
        if len(self._streams) == 1:  # as most sessions have, many times a second
            return self._streams[0].heard_ms
        return min((stream.heard_ms for stream in self._streams), default=0)

    @property
    def missing(self) -> int:
        """The bytes of audio that the next request waits for, in each stream; 0 if that is unknown."""
        return min((stream.missing for stream in self._streams), default=0)

    @property
    def asked(self) -> bool:
        """Whether every stream has a request under way."""
        return all(stream.asked for stream in self._streams)

    @property
    def failure(self) -> str:
        """The reason of a stream's outage; empty if there is none."""
        return next((stream.failure for stream in self._streams if stream.failure), "")

    @property
    def unrecognised_ms(self) -> int:
        """The audio that is not in a final yet, in the stream that has the most of it."""
        return max((stream.unrecognised_ms for stream in self._streams), default=0)

    def exceeds(self, mark: int, now: float) -> bool:
        """Return whether more than `mark` bytes, or too many flushes, wait in a stream, besides what is excused."""
        return any(stream.exceeds(mark, now) for stream in self._streams)

    def waited_s(self, now: float) -> float:
        """The time for which the model has delayed the waiting audio of a stream, at most."""
        return max((stream.waited_s(now) for stream in self._streams), default=0.0)

    def hopeless_at(self, limit_s: float) -> float | None:
        """Return the time at which an outage of a stream will have lasted too long without progress."""
        return _first(stream.hopeless_at(limit_s) for stream in self._streams)

    def due_at(self) -> float | None:
        """Return when a stream may have a request if nothing happens before; None if none can have one."""
        return _first(stream.due_at() for stream in self._streams)

    def flush(self) -> None:
        """Make all audio added so far final."""
        for stream in self._streams:
            stream.flush()

    def finish(self) -> None:
        """End the sequences after all audio that was added."""
        for stream in self._streams:
            stream.finish()

    def drop(self) -> None:
        """End the sequences without the waiting audio."""
        for stream in self._streams:
            stream.drop()


def _first(times: Iterable[float | None]) -> float | None:
    return min((at for at in times if at is not None), default=None)
