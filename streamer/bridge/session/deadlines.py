"""The time limits of a session: when each of them passes, and how the session ends then. Pure.

A client counts as idle if it has sent nothing for a while. Times when the service did not read it are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamer.base.limits import IDLE_LIMIT_S, LOAD_LIMIT_S, RESUME_LIMIT_S, START_LIMIT_S
from streamer.bridge.session import endings
from streamer.bridge.session.endings import Ending
from streamer.bridge.session.stream import StreamGroup


@dataclass(frozen=True)
class Limits:
    """The longest waits of a session, in seconds."""

    start_s: float = START_LIMIT_S  # for `start` after the connection
    load_s: float = LOAD_LIMIT_S  # for its model, if that must be loaded first
    idle_s: float = IDLE_LIMIT_S  # for audio or keepalive
    refresh_s: float = 5.0  # until a silent sequence is kept alive: Triton forgets it after 15 s
    recover_s: float = 20.0  # for a failed recogniser, until it or another one goes on
    resume_s: float = RESUME_LIMIT_S  # for a client that lost its connection; 0: the session ends with it


class Deadlines:
    """The deadlines for `start`, for the model, for the client's next message and for a failed recogniser."""

    def __init__(self, limits: Limits, streams: StreamGroup, now: float) -> None:
        """`now`: the time at which the client connected."""
        self._limits = limits
        self._streams = streams
        self._opened_at = now
        self._active_at = now
        self._full_since: float | None = None  # when the service stopped reading the client
        self._load_due_at: float | None = None  # the deadline for loading the model, if the session waits for it

    @property
    def start_due_at(self) -> float:
        """The deadline for `start`."""
        return self._opened_at + self._limits.start_s

    @property
    def idle_due_at(self) -> float:
        """The time at which the client will have been idle for too long."""
        return self._active_at + self._limits.idle_s

    @property
    def recogniser_due_at(self) -> float | None:
        """The deadline for loading the model, or for a failed recogniser, if the session waits for one."""
        return self._load_due_at or self._streams.hopeless_at(self._limits.recover_s)

    def stir(self, now: float) -> None:
        """Count the idle time from now, because the client sent something or has a reason to be silent."""
        self._active_at = max(self._active_at, now)

    def check_start(self, now: float) -> Ending | None:
        """Return the ending if `start` did not come in time."""
        return endings.no_start(self._limits.start_s) if now >= self.start_due_at else None

    def await_model(self, now: float) -> bool:
        """Begin to wait for the model. Return False if the session waits for it already."""
        if self._load_due_at is not None:
            return False
        self._load_due_at = now + self._limits.load_s
        return True

    def end_load(self) -> None:
        """Stop waiting for the model."""
        self._load_due_at = None

    def check_recogniser(self, now: float) -> Ending | None:
        """Return the ending if the model was not loaded, or a failed recogniser did not come back, in time."""
        due = self.recogniser_due_at
        if due is None or now < due:
            return None
        if self._load_due_at is not None:
            return endings.loading(self._limits.load_s)
        limit = f"and did not come back within {self._limits.recover_s:g} s"
        return endings.failed(f"The recogniser failed ({self._streams.failure}) {limit}", self._streams.unrecognised_ms)

    def check_idle(self, now: float, *, full: bool, excused: bool) -> Ending | None:
        """Return the ending if the client has been idle for too long.

        `full`: the service does not read the client now. `excused`: the client has another reason to be silent.
        """
        if full:
            self._note_full(now)
        else:
            self._note_room(now)
        if full or excused:
            self.stir(now)
        elif now >= self.idle_due_at:
            return endings.idle(self._limits.idle_s)
        return None

    def _note_full(self, now: float) -> None:
        """Note that the service does not read the client."""
        if self._full_since is None:
            self._full_since = now

    def _note_room(self, now: float) -> None:
        """Note that the service reads the client."""
        if self._full_since is not None:
            # Its data may come late: TCP retries at intervals, which may have grown as long as the pause in reading.
            self.stir(now + (now - self._full_since))
            self._full_since = None
