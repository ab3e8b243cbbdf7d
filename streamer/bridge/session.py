"""One client's session as a state machine: no sockets, no clocks, no threads.

It is fed with what the client sends and what the model answers, and hands out three things: the next requests
for the model, the messages for the client, and at the end the close. Whoever drives it passes the time in.
The client's side is here, the model's side in the lanes, one for each channel that is recognised on its own. They end
apart: a sequence that was opened is always ended, also when nobody is left to hear its words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from streamer.audio.codecs import Decoder
from streamer.bridge.backlog import BYTES_PER_S
from streamer.bridge.lane import Lane, Request, Sequence
from streamer.bridge.outbox import Outbox
from streamer.wire.errors import CloseCode, WireError
from streamer.wire.native import Flush, KeepAlive, Stop, name_of, parse
from streamer.wire.options import Resume, Start

# A live client is always read, so it is closed instead when this much waits: after a stall of the network it
# may send some seconds at once, but whoever stays behind would only fall back further.
LIVE_MARK = 20 * BYTES_PER_S
HEARD_EVERY_S = 0.5
# What a refused client is told to wait before it tries again, and the failures that are such refusals.
RETRY_S = 5
TRY_LATER = ("full", "not_ready", "shutting_down")
# Failures of a sequence that another one can go on from: what follows a lost one, and what was wrong with its place.
MENDABLE = ("unavailable", "overdue", "unknown_stream", "failed", "refused")


class State(Enum):
    """Where the client's side is."""

    OPENING = "opening"  # connected, `start` is awaited
    STREAMING = "streaming"  # audio is welcome
    FINISHING = "finishing"  # no more audio: the rest goes to the model, its finals to the client
    CLOSED = "closed"  # nothing more for the client


@dataclass(frozen=True)
class Limits:
    """How long a session waits, in seconds."""

    start_s: float = 10.0  # for `start` after the connection
    idle_s: float = 60.0  # for audio or keepalive
    refresh_s: float = 5.0  # until a silent sequence is kept alive: Triton forgets it after 15 s
    recover_s: float = 20.0  # for a recogniser that failed, until it or another one goes on
    resume_s: float = 30.0  # for a client that lost its connection; 0: the session ends with it


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
        self.start = Start()
        self.lanes: list[Lane] = []  # none before `start`
        self.close: Close | None = None
        self.ended_by = ""  # the error's code, "done" or "vanished"; empty until the client's side is closed
        self.resuming: Resume | None = None  # the session that this client means instead
        self.parked = False  # nobody is connected, but somebody may come back
        self.token = token
        self.limits = limits or Limits()
        self._model = model
        self._decoder = Decoder(self.start.encoding, self.start.sample_rate)
        self._ending = _Ending("done", CloseCode.DONE)
        self._complained = False
        self._ready = False
        self._failure = ""  # of the recogniser, the last one
        self._lost_at: float | None = None  # since when the recogniser is missed, in whichever lane
        self._outbox = Outbox()
        self._live_mark = LIVE_MARK
        self._flushes = 0  # how many the client asked for
        self._flushed = 0
        self._told_at = now
        self._opened_at = now
        self._active_at = now

    @property
    def full(self) -> bool:
        """Whether the client is to be read no further for now; a live one is always read."""
        return not self.start.live and any(lane.full for lane in self.lanes)

    @property
    def over(self) -> bool:
        """Whether both sides have ended and nothing is under way."""
        return self.state is State.CLOSED and all(lane.over for lane in self.lanes)

    @property
    def wanted(self) -> int:
        """How many sequences must be had, all of them, before `requests` is called."""
        return 0 if self.state is State.CLOSED else len(self.lanes)

    @property
    def heard_ms(self) -> int:
        """How much audio the model has acknowledged, in every lane."""
        return min((lane.heard_ms for lane in self.lanes), default=0)

    @property
    def waiting_bytes(self) -> int:
        """How much audio is not with the model yet, in all lanes."""
        return sum(lane.waiting for lane in self.lanes)

    @property
    def waiting_messages(self) -> int:
        """How many messages nobody has taken yet."""
        return self._outbox.waiting

    @property
    def resumable(self) -> bool:
        """Whether its client may know the token, and could still want something."""
        return self._ready and self.ended_by in ("", "done")

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
            if message.resume is not None:
                self.resuming = message.resume
            else:
                self._begin(message, now)
        elif isinstance(message, Flush):
            self._flushes += 1
            for lane in self.lanes:
                lane.flush()
            self._check_pace()
        elif isinstance(message, Stop):
            self._stop()

    def receive_audio(self, data: bytes, now: float) -> None:
        """A binary frame of the client, of any length: the next one goes on where it ends, also within a sample."""
        if self.state is State.OPENING:
            self._misplaced("Audio", State.STREAMING)
        elif self.state is State.FINISHING:
            self._complain("Audio")
        elif self.state is State.STREAMING:
            self._active_at = now
            for lane, block in zip(self.lanes, self._decoder.decode(data), strict=True):
                lane.add(block.tobytes())
            self._check_pace()

    def vanish(self, reason: str = "vanished") -> None:
        """The client is gone: nothing more can be said to it, its sequence is still ended."""
        if self.state is not State.CLOSED:
            self._shut(reason)

    def park(self) -> None:
        """The connection is lost: what was received goes on being computed, and what is said is kept."""
        self.parked = True

    def resume(self, after: int, now: float) -> bool:
        """The client is back and has seen the messages up to this one; False if it cannot have, or too long ago."""
        after = max(after, 1)  # the greeting stands for the first `ready`
        if not self._outbox.has_after(after):
            return False
        self.parked = False
        self._active_at = now
        # What was spoken meanwhile comes at once.
        self._live_mark = LIVE_MARK + int(self.limits.resume_s) * BYTES_PER_S
        greeting = self._greeting(self._decoder.drop_rest())
        self._outbox.rewind(after, {"type": "ready", "n": after, **greeting, "flushes": self._flushes})
        return True

    def misdirect(self, code: str, message: str) -> None:
        """The session that this client wants to resume is not to be had."""
        self.resuming = None
        self._fail(code, CloseCode.BAD_MESSAGE, message)

    def stall(self, limit_s: float) -> None:
        """The client has not read its results for so long that they are no longer kept for it."""
        if self.state is State.CLOSED:
            return
        self._shut("not_read")
        self.close = Close(CloseCode.IDLE, f"the results were not read for {limit_s:g} s")

    def refuse(self, code: str, message: str, retry_s: int = RETRY_S) -> None:
        """No session is to be had at present: an error, and a close that says when to try again."""
        if self.state is State.CLOSED:
            return
        self._fail(code, CloseCode.TRY_LATER, message, f"{code.replace('_', ' ')}: try again in {retry_s} s")

    def drain(self) -> None:
        """The service shuts down: what was heard becomes final, then the client is told to come back."""
        reason = "The service is shutting down; everything heard is final."
        if self.state is State.OPENING:
            self.refuse("shutting_down", "The service is shutting down; try again later.")
        elif self.state is State.STREAMING:
            message = f"{reason} Open a new session in {RETRY_S} s."
            self._finish(_Ending("shutting_down", CloseCode.TRY_LATER, message))

    def exhaust(self, code: str, message: str) -> None:
        """The caller has had its share: what was heard becomes final, then the message says when to come back."""
        if self.state is State.STREAMING:
            self._finish(_Ending(code, CloseCode.TRY_LATER, message))

    def requests(self, now: float) -> list[tuple[int, Request]]:
        """The next requests for the model, with the numbers of their lanes; at most one is under way in each."""
        # No lane runs ahead while another may still be refused: nothing is said before `ready`.
        hold = not self._ready and any(lane.sequence in (Sequence.NONE, Sequence.OPENING) for lane in self.lanes)
        asked = ((number, lane.request(now, hold=hold)) for number, lane in enumerate(self.lanes))
        return [(number, request) for number, request in asked if request is not None]

    def answer(self, number: int, events: Iterable[Mapping[str, Any]], now: float) -> None:
        """The model's events for the request under way in this lane."""
        request, told = self.lanes[number].answered(events, now)
        if request.pcm or request.flush:
            self._active_at = now
        if self.state is State.CLOSED:
            return
        said = self._outbox.said
        if not self._ready and all(other.sequence is Sequence.OPEN for other in self.lanes):
            self._ready = True
            self._lost_at = None  # nobody was told anything that could have been missed
            self._say("ready", **self._greeting(0))
        if self._ready:
            self._tell_recovery(now)
        for event in told:
            # The end of a sequence flushes it too, which is nothing that this client asked for.
            if event["type"] != "flushed" or request.flush:
                self._pass_on(number, event)
        if all(other.sequence is Sequence.ENDED for other in self.lanes):
            self._conclude()
        if self._outbox.said > said:
            self._told_at = now
        else:
            self._acknowledge(now)

    def fail(self, number: int, code: str, message: str, now: float, *, lost: bool) -> bool:
        """The request under way in this lane failed; `lost` says that its sequence is gone and needs no END.

        True if a new sequence will go on where it failed; what was wrong with the old one is nobody's concern then.
        """
        lane = self.lanes[number]
        # Whoever was let in waits for a place that is taken or not there yet.
        passing = code in MENDABLE or (code in TRY_LATER and lane.lost_at is not None)
        if passing and lane.mendable and self.state is not State.CLOSED:
            lane.lose(now)
            self._failure = f"{code}: {message}"
            if self._lost_at is None:
                self._lost_at = lane.lost_at
            return True
        lane.failed(lost=lost)
        if self.state is State.CLOSED:
            return False
        if code in TRY_LATER:
            self.refuse(code, message)
        elif code == "bad_options":
            self._fail("bad_option", CloseCode.BAD_MESSAGE, f"The recogniser refused the options: {message}")
        else:
            self._give_up(f"The recogniser failed ({code}: {message})")
        return False

    def tick(self, now: float) -> None:
        """Time has passed: an acknowledgement may be due, or a session has waited too long for its client."""
        if self.state is State.OPENING and now - self._opened_at >= self.limits.start_s:
            waited = f"Nothing was started within {self.limits.start_s:g} s"
            self._fail("no_start", CloseCode.IDLE, waited + '; send {"type":"start"} after connecting.')
            return
        if any(at is not None and now >= at for at in self._hopeless):
            waited = f"and did not come back within {self.limits.recover_s:g} s"
            self._give_up(f"The recogniser failed ({self._failure}) {waited}")
        elif self.state is State.STREAMING:
            self._acknowledge(now)
            if self.parked or self.full or any(lane.computing for lane in self.lanes):
                self._active_at = now
            elif now - self._active_at >= self.limits.idle_s:
                waited = f"Nothing came for {self.limits.idle_s:g} s"
                advice = 'while there is no audio send {"type":"keepalive"}.'
                self._finish(_Ending("idle", CloseCode.IDLE, f"{waited}; {advice}"))

    def due_at(self) -> float | None:
        """When to call `tick` and `requests` again although nothing came; None if only an event can help."""
        if self.state is State.OPENING:
            return self._opened_at + self.limits.start_s
        due = [at for at in (*(lane.due_at() for lane in self.lanes), *self._hopeless) if at is not None]
        if self.state is State.STREAMING:
            if not self.parked:
                due.append(self._active_at + self.limits.idle_s)
            if self.heard_ms > self._told_ms:
                due.append(self._told_at + HEARD_EVERY_S)
        return min(due, default=None)

    def take_messages(self) -> list[dict[str, Any]]:
        """The messages for the client since the last call, in order."""
        return self._outbox.take()

    def check_kept(self) -> None:
        """While nobody is connected the messages are kept, but not without a bound."""
        if self.parked and self._outbox.overfull:
            self.vanish("not_fetched")

    @property
    def _hopeless(self) -> list[float | None]:
        return [lane.hopeless_at(self.limits.recover_s) for lane in self.lanes]

    @property
    def _told_ms(self) -> int:
        return min((lane.told_ms for lane in self.lanes), default=0)

    def _begin(self, start: Start, now: float) -> None:
        self.start = start
        self.state = State.STREAMING
        self._decoder = Decoder(start.encoding, start.sample_rate, start.channels, separate=start.multichannel)
        self.lanes = [Lane(start.step_ms, self.limits.refresh_s, now) for _ in range(self._decoder.lanes)]

    def _pass_on(self, number: int, event: Mapping[str, Any]) -> None:
        kind, lane = event["type"], self.lanes[number]
        if kind == "flushed":
            lane.flushed += 1
            # It is about the session: said when the last lane has got to it, and all of them got to it at one time.
            if min(other.flushed for other in self.lanes) > self._flushed:
                self._flushed += 1
                self._tell(event["audio_ms"])
                self._say(**event)
        else:
            lane.told_ms = max(lane.told_ms, event.get("audio_ms", 0))
            self._say(**({**event, "channel": number} if self.start.multichannel else event))

    def _tell_recovery(self, now: float) -> None:
        """Once every lane is where it was, before anything new is told."""
        if self._lost_at is not None and all(lane.lost_at is None for lane in self.lanes):
            self._say("recovered", gap_ms=round((now - self._lost_at) * 1000))
            self._lost_at = None

    def _give_up(self, what: str) -> None:
        rest = max((lane.unrecognised_ms for lane in self.lanes), default=0)
        message = f"{what}; the last {rest} ms of audio are not recognised: open a new session and send them again."
        self._fail("failed", CloseCode.FAILED, message, unrecognised_ms=rest)

    def _acknowledge(self, now: float) -> None:
        if self.heard_ms > self._told_ms and now - self._told_at >= HEARD_EVERY_S:
            self._say("heard", audio_ms=self.heard_ms)
            self._tell(self.heard_ms)
            self._told_at = now

    def _tell(self, audio_ms: int) -> None:
        for lane in self.lanes:
            lane.told_ms = max(lane.told_ms, audio_ms)

    def _check_pace(self) -> None:
        if self.start.live and any(lane.exceeds(self._live_mark) for lane in self.lanes):
            message = (
                f"More than {self._live_mark // BYTES_PER_S} s of live audio wait to be recognised; "
                "open a new session, without 'live' if it is a recording."
            )
            self._fail("too_fast", CloseCode.TOO_FAST, message)

    def _stop(self) -> None:
        if self._decoder.in_frame:
            size, start = self._decoder.frame_bytes, self.start
            whole = "a sample" if start.channels == 1 else f"a sample of each of the {start.channels} channels"
            message = (
                f"The audio ended within a sample: {self._decoder.received} bytes came, but in {start.encoding} "
                f"{whole} has {size} bytes. The rest was left out; is a byte missing somewhere?"
            )
            self._finish(_Ending("odd_bytes", CloseCode.BAD_MESSAGE, message))
        else:
            self._finish(self._ending)

    def _finish(self, ending: _Ending) -> None:
        self._ending = ending
        self.state = State.FINISHING
        for lane, block in zip(self.lanes, self._decoder.finish(), strict=True):
            lane.add(block.tobytes())
            lane.finish()

    def _conclude(self) -> None:
        """The model has said its last word: so does the session."""
        ending = self._ending
        if ending.message:
            self._fail(ending.code, ending.close_code, ending.message)
        else:
            self._say("done", audio_ms=self.heard_ms)
            self._shut(ending.code)
            self.close = Close(ending.close_code, ending.code)

    def _greeting(self, from_sample: int) -> dict[str, Any]:
        return {
            "session": self.number,
            "token": self.token,
            "model": self._model,
            "sample_rate": self.start.sample_rate,
            "from_sample": from_sample,
        }

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

    def _fail(self, code: str, close_code: CloseCode, message: str, reason: str = "", **more: Any) -> None:
        self._say("error", code=code, message=message, fatal=True, **more)
        self._shut(code)
        self.close = Close(close_code, reason or message)

    def _shut(self, ended_by: str) -> None:
        self.state = State.CLOSED
        self.ended_by = ended_by
        for lane in self.lanes:
            lane.drop()

    def _say(self, type: str, **content: Any) -> None:
        self._outbox.say(type, **content)
