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
from typing import Any

from streamer.audio.sample_converter import SAMPLE_RATE
from streamer.bridge.session.backlog import BYTES_PER_S, LOW_MARK, SAMPLE_BYTES, Backlog
from streamer.bridge.session.replay import Replay

# More than the longest segment that may be asked for, and what is sent until its cut is told. A model that cuts later
# than that cannot be replayed.
MOST_KEPT = 70 * BYTES_PER_S
# Between attempts to open a new sequence: the first is made at once.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 2.0


class StreamState(Enum):
    """Where the stream's sequence is."""

    NONE = "none"
    OPENING = "opening"  # START is under way: from now on the model may hold a slot
    OPEN = "open"
    ENDED = "ended"


class StreamStateError(Exception):
    """The stream was driven in a way that its state does not allow; names the expected and the met state."""

    def __init__(self, expected: str, met: str) -> None:
        super().__init__(f"expected {expected}, met {met}")


@dataclass(frozen=True)
class Request:
    """What goes to the model next: whole steps of audio, or everything up to a flush or the end."""

    pcm: bytes = b""
    start: bool = False
    flush: bool = False
    end: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)  # of a new sequence that goes on for a lost one


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


class Stream:
    """One stream of the model, from START to END, in one sequence or several."""

    def __init__(self, step_ms: int, refresh_s: float, now: float) -> None:
        """`refresh_s`: a sequence that is silent for so long gets an empty request, so that Triton keeps it."""
        self.sequence = StreamState.NONE
        self.told_ms = 0  # what the client knows of it
        self.flushed = 0  # how many flushes the model has answered
        self._replay = Replay()
        self._backlog = Backlog()
        self._step_ms = step_ms
        self._refresh_s = refresh_s
        self._asked_at = now
        self._outstanding: Request | None = None
        self._kept = bytearray()  # sent since the last cut
        self._whole = True  # whether that is all of it
        self._extra = 0  # bytes that wait, or may, because of an outage
        self._outage: _Outage | None = None
        self._last = False  # no audio follows what waits
        self._dropped = False  # nobody waits for its words
        self._begun = False

    @property
    def heard_ms(self) -> int:
        """What the model has acknowledged."""
        return self._replay.heard * 1000 // SAMPLE_RATE

    @property
    def kept_s(self) -> float:
        """The audio that would be played again if the sequence were lost now."""
        return len(self._kept) / BYTES_PER_S

    @property
    def unrecognised_ms(self) -> int:
        """The audio that is not in a final and may never be."""
        return (self._backlog.received // SAMPLE_BYTES - self._replay.cut) * 1000 // SAMPLE_RATE

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
        return self._outstanding is None and self.sequence in (StreamState.NONE, StreamState.ENDED)

    @property
    def lost_at(self) -> float | None:
        """Since when the model is missed; None while it is there."""
        return None if self._outage is None else self._outage.since

    @property
    def begun(self) -> bool:
        """Whether the model has accepted a sequence of it, this one or one before."""
        return self._begun

    @property
    def mendable(self) -> bool:
        """Whether a new sequence could go on where this one fails."""
        return self._whole and not self._dropped

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
        self._last = True

    def drop(self) -> None:
        """Nobody waits for its words any more: the sequence is ended without what has not been sent."""
        self._dropped = True
        self._outage = None
        self._kept.clear()
        self._backlog.clear()

    def request(self, now: float, *, hold: bool = False) -> Request | None:
        """The next request, or None while there is none; at most one is under way. `hold`: no audio yet."""
        if self._outstanding is not None or self.sequence is StreamState.ENDED:
            return None
        request = self._next(now, hold)
        if request is not None:
            self._outstanding, self._asked_at = request, now
            if request.start:
                self.sequence = StreamState.OPENING
            self._keep(request.pcm)
        return request

    def answered(
        self, events: Iterable[Mapping[str, Any]], now: float, *, leaving: bool = False
    ) -> tuple[Request, list[dict[str, Any]]]:
        """The request under way has its answer; returns it and what the client has to be told.

        `leaving`: the sequence is to end at its next cut, or now if there is nothing since the last, for a new one.
        """
        request = self._settle()
        self.sequence = StreamState.ENDED if request.end else StreamState.OPEN
        self._begun = True
        leaving = leaving and not request.end and self._outage is None and self.mendable
        cut = self._replay.cut
        told = self._replay.take(events, leaving=leaving)
        del self._kept[: (self._replay.cut - cut) * SAMPLE_BYTES]
        if self._outage is not None:
            self._recover(self._outage, request, now)
        elif leaving and (self._replay.cut > cut or not self._kept):
            self._begin_anew()
        return request, told

    def failed(self, *, lost: bool) -> None:
        """The request under way failed for good; `lost` says that the sequence is gone and needs no END."""
        request = self._settle()
        self.sequence = StreamState.ENDED if lost or request.end else StreamState.OPEN

    def lose(self, now: float) -> None:
        """The request under way failed, but not for good: a new sequence will go on at the last cut."""
        request = self._settle()
        outage = self._outage
        if outage is None:
            sent = self._replay.cut + len(self._kept) // SAMPLE_BYTES
            outage = _Outage(self._asked_at, now, sent, request.flush or request.end)
        pause = min(FIRST_PAUSE_S * 2 ** (outage.attempts - 1), LONGEST_PAUSE_S) if outage.attempts else 0.0
        outage.attempts += 1
        outage.retry_at = now + pause
        self._outage = outage
        self._begin_anew(flush=request.flush)

    def due_at(self) -> float | None:
        """When to call `request` again although nothing came; None if only an event can help."""
        if self._outstanding is not None:
            return None
        if self.sequence is StreamState.NONE and self._outage is not None:
            return self._outage.retry_at
        return self._asked_at + self._refresh_s if self.sequence is StreamState.OPEN else None

    def _next(self, now: float, hold: bool) -> Request | None:
        if self.sequence is StreamState.NONE:
            if self._dropped or (self._outage is not None and now < self._outage.retry_at):
                return None
            # It opens with no audio, so that its answer means: a slot is held, the options are accepted.
            return Request(start=True, options=self._replay.resume)
        if self._dropped:
            return Request(end=True)
        portion = None if hold else self._backlog.take(self._step_ms, last=self._last)
        if len(self._backlog) <= LOW_MARK and self._outage is None:
            self._extra = 0
        if portion is not None:
            return Request(portion.pcm, flush=portion.flush, end=portion.last)
        return Request() if now - self._asked_at >= self._refresh_s else None

    def _begin_anew(self, *, flush: bool = False) -> None:
        """A new sequence goes on at the last cut."""
        self.sequence = StreamState.NONE
        self._extra += len(self._kept)
        self._backlog.put_back(bytes(self._kept), flush=flush)
        self._kept.clear()
        self._replay.restart()

    def _keep(self, pcm: bytes) -> None:
        self._kept += pcm
        if len(self._kept) > MOST_KEPT:
            self._whole = False
            self._kept.clear()

    def _recover(self, outage: _Outage, request: Request, now: float) -> None:
        heard = self._replay.replayed
        if heard > outage.reached and request.pcm:
            outage.reached, outage.alive_at = heard, now
        # Once it has done what it failed at; a sequence that opens may still do so.
        if heard >= outage.mark and (request.flush or request.end or not outage.owed):
            self._outage = None

    def _settle(self) -> Request:
        request, self._outstanding = self._outstanding, None
        if request is None:
            raise StreamStateError("a request under way", f"none while the sequence is {self.sequence.value}")
        return request
