"""The model's side of a session: what one channel has for its sequence, request by request.

Pure. A session has a lane for each channel that is recognised on its own. A lane knows nothing of the client: it takes
16 kHz audio, hands out one request at a time, and once its sequence is opened it sees to it that it is ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from streamer.bridge.backlog import Backlog


class Sequence(Enum):
    """Where the lane's sequence is."""

    NONE = "none"
    OPENING = "opening"  # START is under way: from now on the model may hold a slot
    OPEN = "open"
    ENDED = "ended"


class LaneError(Exception):
    """The lane was driven in a way that its state does not allow; names the expected and the met state."""

    def __init__(self, expected: str, met: str) -> None:
        super().__init__(f"expected {expected}, met {met}")


@dataclass(frozen=True)
class Request:
    """What goes to the model next: whole steps of audio, or everything up to a flush or the end."""

    pcm: bytes = b""
    start: bool = False
    flush: bool = False
    end: bool = False


class Lane:
    """One sequence of the model, from START to END."""

    def __init__(self, step_ms: int, refresh_s: float, now: float) -> None:
        """`refresh_s`: a sequence that is silent for so long gets an empty request, so that Triton keeps it."""
        self.sequence = Sequence.NONE
        self.heard_ms = 0  # what the model has acknowledged
        self.told_ms = 0  # and what the client knows of it
        self.flushed = 0  # how many flushes the model has answered
        self._backlog = Backlog()
        self._step_ms = step_ms
        self._refresh_s = refresh_s
        self._asked_at = now
        self._outstanding: Request | None = None
        self._last = False  # no audio follows what waits
        self._dropped = False  # nobody waits for its words

    @property
    def full(self) -> bool:
        """Whether no audio should be added for now."""
        return self._backlog.full

    @property
    def computing(self) -> bool:
        """Whether audio is with the model."""
        return self._outstanding is not None and bool(self._outstanding.pcm)

    @property
    def over(self) -> bool:
        """Whether nothing is under way and nothing is left to end."""
        return self._outstanding is None and self.sequence in (Sequence.NONE, Sequence.ENDED)

    def exceeds(self, mark: int) -> bool:
        """Whether more audio waits than `mark` bytes, or than flushes are remembered."""
        return self._backlog.exceeds(mark)

    def add(self, pcm: bytes) -> None:
        """Audio for the model."""
        self._backlog.add(pcm)

    def flush(self) -> None:
        """Everything added so far is to become final."""
        self._backlog.mark_flush()

    def finish(self) -> None:
        """What was added is all: the sequence is ended with it."""
        self._last = True

    def drop(self) -> None:
        """Nobody waits for its words any more: the sequence is ended without what has not been sent."""
        self._dropped = True
        self._backlog.clear()

    def request(self, now: float, *, hold: bool = False) -> Request | None:
        """The next request, or None while there is none; at most one is under way. `hold`: no audio yet."""
        if self._outstanding is not None or self.sequence is Sequence.ENDED:
            return None
        request = self._next(now, hold)
        if request is not None:
            self._outstanding, self._asked_at = request, now
            if request.start:
                self.sequence = Sequence.OPENING
        return request

    def answered(self) -> Request:
        """The request under way has its answer."""
        request = self._settle()
        self.sequence = Sequence.ENDED if request.end else Sequence.OPEN
        return request

    def failed(self, *, lost: bool) -> None:
        """The request under way failed; `lost` says that the sequence is gone and needs no END."""
        request = self._settle()
        self.sequence = Sequence.ENDED if lost or request.end else Sequence.OPEN

    def due_at(self) -> float | None:
        """When to call `request` again although nothing came; None if only an event can help."""
        waits = self._outstanding is None and self.sequence is Sequence.OPEN
        return self._asked_at + self._refresh_s if waits else None

    def _next(self, now: float, hold: bool) -> Request | None:
        if self.sequence is Sequence.NONE:
            # It opens with no audio, so that its answer means: a slot is held, the options are accepted.
            return None if self._dropped else Request(start=True)
        if self._dropped:
            return Request(end=True)
        portion = None if hold else self._backlog.take(self._step_ms, last=self._last)
        if portion is not None:
            return Request(portion.pcm, flush=portion.flush, end=portion.last)
        return Request() if now - self._asked_at >= self._refresh_s else None

    def _settle(self) -> Request:
        request, self._outstanding = self._outstanding, None
        if request is None:
            raise LaneError("a request under way", f"none while the sequence is {self.sequence.value}")
        return request
