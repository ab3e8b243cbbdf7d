"""One client's session as a state machine: no sockets, no clocks, no threads.

It is fed with what the client sends and what the model answers, and hands out three things: the next request
for the model, the messages for the client, and at the end the close. Whoever drives it passes the time in.
The client's side (`State`) and the model's side (`Sequence`) end apart: a sequence that was opened is always
ended, also when nobody is left to hear its words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from streamer.bridge.backlog import BYTES_PER_S, Backlog
from streamer.wire.native import CloseCode, Flush, KeepAlive, Start, Stop, WireError, name_of, parse

# A live client is always read, so it is closed instead when this much waits: after a stall of the network it
# may send some seconds at once, but whoever stays behind would only fall back further.
LIVE_MARK = 20 * BYTES_PER_S
HEARD_EVERY_S = 0.5
# What a refused client is told to wait before it tries again, and the failures that are such refusals.
RETRY_S = 5
TRY_LATER = ("full", "not_ready", "shutting_down")


class State(Enum):
    """Where the client's side is."""

    OPENING = "opening"  # connected, `start` is awaited
    STREAMING = "streaming"  # audio is welcome
    FINISHING = "finishing"  # no more audio: the rest goes to the model, its finals to the client
    CLOSED = "closed"  # nothing more for the client


class Sequence(Enum):
    """Where the model's side is."""

    NONE = "none"
    OPEN = "open"
    ENDED = "ended"


class SessionError(Exception):
    """The session was driven in a way that its state does not allow; names the expected and the met state."""

    def __init__(self, expected: str, met: str) -> None:
        super().__init__(f"expected {expected}, met {met}")


@dataclass(frozen=True)
class Limits:
    """How long a session waits, in seconds."""

    start_s: float = 10.0  # for `start` after the connection
    idle_s: float = 60.0  # for audio or keepalive
    refresh_s: float = 5.0  # until a silent sequence is kept alive: Triton forgets it after 15 s


@dataclass(frozen=True)
class Request:
    """What goes to the model next: whole steps of audio, or everything up to a flush or the end."""

    pcm: bytes = b""
    start: bool = False
    flush: bool = False
    end: bool = False


@dataclass(frozen=True)
class Close:
    """How the connection is to be closed."""

    code: CloseCode
    reason: str


@dataclass(frozen=True)
class _Ending:
    """What is said after the last final; no `message` means that the session is `done`."""

    code: str
    close_code: CloseCode
    message: str = ""


class Session:
    """One session: client frames and model answers in; requests, messages and the close out."""

    def __init__(self, number: str, token: str, model: str, now: float, limits: Limits | None = None) -> None:
        self.number = number
        self.state = State.OPENING
        self.sequence = Sequence.NONE
        self.start = Start()
        self.close: Close | None = None
        self.ended_by = ""  # the error's code, "done" or "vanished"; empty until the client's side is closed
        self._token = token
        self._model = model
        self._limits = limits or Limits()
        self._backlog = Backlog()
        self._outstanding: Request | None = None
        self._ending = _Ending("done", CloseCode.DONE)
        self._complained = False
        self._outbox: list[dict[str, Any]] = []
        self._said = 0
        self._heard_ms = 0  # what the model has acknowledged
        self._told_ms = 0  # and what the client knows of it
        self._told_at = now
        self._opened_at = now
        self._active_at = now
        self._asked_at = now

    @property
    def full(self) -> bool:
        """Whether the client is to be read no further for now; a live one is always read."""
        return self._backlog.full and not self.start.live

    @property
    def over(self) -> bool:
        """Whether both sides have ended and nothing is under way."""
        owed = self.sequence is Sequence.OPEN or self._outstanding is not None
        return self.state is State.CLOSED and not owed

    @property
    def heard_ms(self) -> int:
        """How much audio the model has acknowledged."""
        return self._heard_ms

    def receive_text(self, text: str, now: float) -> None:
        """A text frame of the client."""
        if self.state is State.CLOSED:
            return
        self._active_at = now
        try:
            message = parse(text)
        except WireError as error:
            # After `stop` the client is owed its finals, whatever it says then.
            if self.state is State.FINISHING:
                self._complain("A message")
            else:
                self._fail(error.code, error.close_code, error.message)
            return
        if self.state is State.FINISHING:
            if not isinstance(message, (KeepAlive, Stop)):
                self._complain(f"'{name_of(message)}'")
        elif isinstance(message, Start) != (self.state is State.OPENING):
            expected = State.OPENING if isinstance(message, Start) else State.STREAMING
            self._misplaced(f"'{name_of(message)}'", expected)
        elif isinstance(message, Start):
            self.start = message
            self.state = State.STREAMING
        elif isinstance(message, Flush):
            self._backlog.mark_flush()
            self._check_pace()
        elif isinstance(message, Stop):
            self._stop()

    def receive_audio(self, data: bytes, now: float) -> None:
        """A binary frame of the client, of any length: half a sample is completed by the next frame."""
        if self.state is State.OPENING:
            self._misplaced("Audio", State.STREAMING)
        elif self.state is State.FINISHING:
            self._complain("Audio")
        elif self.state is State.STREAMING:
            self._active_at = now
            self._backlog.add(data)
            self._check_pace()

    def vanish(self, reason: str = "vanished") -> None:
        """The client is gone: nothing more can be said to it, its sequence is still ended."""
        if self.state is not State.CLOSED:
            self._shut(reason)

    def stall(self, limit_s: float) -> None:
        """The client has not read its results for so long that they are no longer kept for it."""
        if self.state is State.CLOSED:
            return
        self._shut("not_read")
        self.close = Close(CloseCode.IDLE, f"the results were not read for {limit_s:g} s")

    def refuse(self, code: str, message: str) -> None:
        """No session is to be had at present: an error, and a close that says when to try again."""
        if self.state is State.CLOSED:
            return
        self._fail(code, CloseCode.TRY_LATER, message, f"{code.replace('_', ' ')}: try again in {RETRY_S} s")

    def drain(self) -> None:
        """The service shuts down: what was heard becomes final, then the client is told to come back."""
        reason = "The service is shutting down; everything heard is final."
        if self.state is State.OPENING:
            self.refuse("shutting_down", "The service is shutting down; try again later.")
        elif self.state is State.STREAMING:
            message = f"{reason} Open a new session in {RETRY_S} s."
            self._finish(_Ending("shutting_down", CloseCode.TRY_LATER, message))

    def request(self, now: float) -> Request | None:
        """The next request for the model, or None while there is none; at most one is under way."""
        if self._outstanding is not None:
            return None
        request = self._next(now)
        if request is not None:
            self._outstanding = request
            self._asked_at = now
            if request.start:
                self.sequence = Sequence.OPEN
        return request

    def answer(self, events: Iterable[Mapping[str, Any]], now: float) -> None:
        """The model's events for the request under way."""
        request = self._answered()
        if request.end:
            self.sequence = Sequence.ENDED
        if request.pcm or request.flush:
            self._active_at = now
        if self.state is State.CLOSED:
            return
        said = self._said
        if request.start:
            self._say(
                "ready",
                session=self.number,
                token=self._token,
                model=self._model,
                sample_rate=self.start.sample_rate,
                from_sample=0,
            )
        for event in events:
            # The end of a sequence flushes it too, which is nothing that this client asked for.
            if event["type"] != "flushed" or request.flush:
                self._pass_on(event)
        if request.end:
            self._conclude()
        if self._said > said:
            self._told_at = now
        else:
            self._acknowledge(now)

    def fail(self, code: str, message: str, *, lost: bool) -> None:
        """The request under way failed; `lost` says that the sequence is gone and needs no END."""
        request = self._answered()
        if lost or request.end:
            self.sequence = Sequence.ENDED
        if self.state is State.CLOSED:
            return
        if code in TRY_LATER:
            self.refuse(code, message)
        elif code == "bad_options":
            self._fail("bad_option", CloseCode.BAD_MESSAGE, f"The recogniser refused the options: {message}")
        else:
            self._fail(
                "failed",
                CloseCode.FAILED,
                f"The recogniser failed ({code}: {message}) after {self._heard_ms} ms of audio; "
                "open a new session and send what followed again.",
            )

    def tick(self, now: float) -> None:
        """Time has passed: an acknowledgement may be due, or a session has waited too long for its client."""
        if self.state is State.OPENING and now - self._opened_at >= self._limits.start_s:
            waited = f"Nothing was started within {self._limits.start_s:g} s"
            self._fail("no_start", CloseCode.IDLE, waited + '; send {"type":"start"} after connecting.')
        elif self.state is State.STREAMING:
            self._acknowledge(now)
            busy = self.full or (self._outstanding is not None and bool(self._outstanding.pcm))
            if busy:
                self._active_at = now
            elif now - self._active_at >= self._limits.idle_s:
                waited = f"Nothing came for {self._limits.idle_s:g} s"
                advice = 'while there is no audio send {"type":"keepalive"}.'
                self._finish(_Ending("idle", CloseCode.IDLE, f"{waited}; {advice}"))

    def due_at(self) -> float | None:
        """When to call `tick` and `request` again although nothing came; None if only an event can help."""
        if self.state is State.OPENING:
            return self._opened_at + self._limits.start_s
        if self.state is State.STREAMING:
            due = [self._active_at + self._limits.idle_s]
            if self._outstanding is None:
                due.append(self._asked_at + self._limits.refresh_s)
            if self._heard_ms > self._told_ms:
                due.append(self._told_at + HEARD_EVERY_S)
            return min(due)
        return None

    def take_messages(self) -> list[dict[str, Any]]:
        """The messages for the client since the last call, in order."""
        messages, self._outbox = self._outbox, []
        return messages

    def _next(self, now: float) -> Request | None:
        if self.sequence is Sequence.NONE:
            wanted = self.state in (State.STREAMING, State.FINISHING)
            # It opens with no audio, so that `ready` means: a slot is held, the options are accepted.
            return Request(start=True) if wanted else None
        if self.sequence is Sequence.ENDED:
            return None
        if self.state is State.CLOSED:
            return Request(end=True)
        portion = self._backlog.take(self.start.step_ms, last=self.state is State.FINISHING)
        if portion is not None:
            return Request(portion.pcm, flush=portion.flush, end=portion.last)
        return Request() if now - self._asked_at >= self._limits.refresh_s else None

    def _answered(self) -> Request:
        request, self._outstanding = self._outstanding, None
        if request is None:
            raise SessionError("a request under way", f"none while {self.state.value}")
        return request

    def _pass_on(self, event: Mapping[str, Any]) -> None:
        kind = event["type"]
        if kind == "heard":
            self._heard_ms = event["audio_ms"]
        elif kind in ("partial", "final", "speech", "flushed"):
            self._told_ms = max(self._told_ms, event.get("audio_ms", 0))
            self._say(**event)
        # What else a model says (`cut`, or what a later one adds) is not for clients.

    def _acknowledge(self, now: float) -> None:
        if self._heard_ms > self._told_ms and now - self._told_at >= HEARD_EVERY_S:
            self._say("heard", audio_ms=self._heard_ms)
            self._told_ms, self._told_at = self._heard_ms, now

    def _check_pace(self) -> None:
        if self.start.live and self._backlog.exceeds(LIVE_MARK):
            message = (
                f"More than {LIVE_MARK // BYTES_PER_S} s of live audio wait to be recognised; "
                "open a new session, without 'live' if it is a recording."
            )
            self._fail("too_fast", CloseCode.TOO_FAST, message)

    def _stop(self) -> None:
        if self._backlog.half_sample:
            message = (
                f"The audio ended within a sample: {self._backlog.received} bytes came, but pcm_s16le "
                "has two bytes a sample. The half sample was left out; is a byte missing somewhere?"
            )
            self._finish(_Ending("odd_bytes", CloseCode.BAD_MESSAGE, message))
        else:
            self._finish(self._ending)

    def _finish(self, ending: _Ending) -> None:
        self._ending = ending
        self.state = State.FINISHING

    def _conclude(self) -> None:
        """The model has said its last word: so does the session."""
        ending = self._ending
        if ending.message:
            self._fail(ending.code, ending.close_code, ending.message)
        else:
            self._say("done", audio_ms=self._heard_ms)
            self._shut(ending.code)
            self.close = Close(ending.close_code, ending.code)

    def _misplaced(self, what: str, expected: State) -> None:
        advice = "a session is started once" if expected is State.OPENING else 'send {"type":"start"} first'
        self._fail(
            "unexpected",
            CloseCode.BAD_MESSAGE,
            f"{what} is expected when the session is {expected.value}; it is {self.state.value}: {advice}.",
        )

    def _complain(self, what: str) -> None:
        # Once is enough, and only if the client itself has ended its audio: otherwise it cannot know yet.
        if not self._complained and self._ending.code in ("done", "odd_bytes"):
            self._complained = True
            self._say("error", code="after_stop", message=f"{what} after 'stop' is ignored.", fatal=False)

    def _fail(self, code: str, close_code: CloseCode, message: str, reason: str = "") -> None:
        self._say("error", code=code, message=message, fatal=True)
        self._shut(code)
        self.close = Close(close_code, reason or message)

    def _shut(self, ended_by: str) -> None:
        self.state = State.CLOSED
        self.ended_by = ended_by
        self._backlog.clear()

    def _say(self, type: str, **content: Any) -> None:
        self._said += 1
        self._outbox.append({"type": type, "n": self._said, **content})
