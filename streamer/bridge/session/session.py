"""One client's session as a state machine: no sockets, no clocks, no threads.

It is fed with what the client sends and what the model answers, and hands out three things: the next requests
for the model, the messages for the client, and at the end the close. Whoever drives it passes the time in.
What a client may do and when is here; the model's side is in the streams, one for each channel that is recognised on
its own. messages.py has what the client is told of them, endings.py how its side ends. The sides end apart: a sequence
that was opened is always ended, also when nobody is left to hear its words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from streamer.bridge.session import endings
from streamer.bridge.session.endings import DONE, NOT_READ, RETRY_S, TRY_LATER, VANISHED, Close, Ending, Outcome
from streamer.bridge.session.idleness import Idleness
from streamer.bridge.session.intake import Intake
from streamer.bridge.session.messages import Messages
from streamer.bridge.session.outbox import Numbered, Outbox
from streamer.bridge.session.presence import ClientState, Presence
from streamer.bridge.session.stream import Request, SequenceState
from streamer.bridge.session.stream_group import StreamGroup
from streamer.bridge.states import States
from streamer.limits import IDLE_LIMIT_S, RESUME_LIMIT_S, START_LIMIT_S
from streamer.wire.errors import WireError
from streamer.wire.events import Done, Error
from streamer.wire.failures import FailureCode
from streamer.wire.model_events import ModelEvent
from streamer.wire.native import Flush, KeepAlive, Stop, name_of, parse
from streamer.wire.options import Resume, Start

# Failures of a sequence that another one can go on from: what follows a lost one, and what was wrong with its slot.
MENDABLE = (
    *(FailureCode.UNAVAILABLE, FailureCode.OVERDUE, FailureCode.UNKNOWN_STREAM),
    *(FailureCode.FAILED, FailureCode.REFUSED),
)


class State(Enum):
    """Where the client's side is."""

    OPENING = "opening"  # connected, `start` is awaited
    STREAMING = "streaming"  # audio is welcome
    FINISHING = "finishing"  # no more audio: the rest goes to the model, its finals to the client
    CLOSED = "closed"  # nothing more for the client


TRANSITIONS: Mapping[State, tuple[State, ...]] = {
    State.OPENING: (State.STREAMING, State.CLOSED),
    State.STREAMING: (State.FINISHING, State.CLOSED),
    State.FINISHING: (State.CLOSED,),
    State.CLOSED: (),
}


@dataclass(frozen=True)
class Limits:
    """How long a session waits, in seconds."""

    start_s: float = START_LIMIT_S  # for `start` after the connection
    idle_s: float = IDLE_LIMIT_S  # for audio or keepalive
    refresh_s: float = 5.0  # until a silent sequence is kept alive: Triton forgets it after 15 s
    recover_s: float = 20.0  # for a recogniser that failed, until it or another one goes on
    resume_s: float = RESUME_LIMIT_S  # for a client that lost its connection; 0: the session ends with it


class Session:
    """One session: client frames and model answers in; requests, messages and the close out."""

    def __init__(
        self, number: str, token: str, models: Collection[str], now: float, limits: Limits | None = None
    ) -> None:
        """`models`: the public names of those that it may ask for."""
        self.number = number
        self.token = token
        self.limits = limits or Limits()
        self.streams = StreamGroup()  # none before `start`
        self._states = States("session", State.OPENING, TRANSITIONS)
        self._client = Presence()
        self._models = models
        self._intake = Intake(self.streams)
        self._outbox = Outbox()
        self._messages = Messages(self.streams, self._outbox, number, token, now)
        self._idleness = Idleness(now)
        self._ending = DONE  # how it ends when the model has said its last word
        self._outcome = Outcome()

    @property
    def state(self) -> State:
        """Where its client's side is."""
        return self._states.now

    @property
    def start(self) -> Start:
        """What its client asked for."""
        return self._intake.start

    @property
    def close(self) -> Close | None:
        """How the connection is to be closed, once it is."""
        return self._outcome.close

    @property
    def ended_by(self) -> str:
        """The error's code, "done" or "vanished"; empty until the client's side is closed."""
        return self._outcome.code

    @property
    def full(self) -> bool:
        """Whether the client is to be read no further for now; a live one is always read."""
        return self._intake.full

    @property
    def over(self) -> bool:
        """Whether both sides have ended and nothing is under way."""
        return self.state is State.CLOSED and self.streams.over

    @property
    def parked(self) -> bool:
        """Whether nobody is connected, but somebody may come back."""
        return self._client.parked

    @property
    def left(self) -> bool:
        """Whether nobody is connected or comes back."""
        return self._client.left

    @property
    def wanted(self) -> int:
        """How many sequences must be had, all of them, before `requests` is called."""
        return 0 if self.state is State.CLOSED else len(self.streams)

    @property
    def heard_ms(self) -> int:
        """How much audio the model has acknowledged, in every stream."""
        return self.streams.heard_ms

    @property
    def waiting_bytes(self) -> int:
        """How much audio is not with the model yet, in all streams."""
        return self.streams.waiting

    @property
    def waiting_messages(self) -> int:
        """How many messages nobody has taken yet."""
        return self._outbox.waiting

    @property
    def unsaid(self) -> bool:
        """Whether its client has to be told something before the connection is closed."""
        return self._outbox.waiting > 0 and self.ended_by != NOT_READ

    @property
    def resumable(self) -> bool:
        """Whether its client may come back, or take it over from an older connection."""
        if self._client.state in (ClientState.PARKED, ClientState.LEFT):
            return self.parked
        # The client may know the token, and could still want something.
        return self._messages.ready and self.ended_by in ("", DONE.code)

    @property
    def parkable(self) -> bool:
        """Whether a client that loses its connection now is waited for."""
        return self._client.state is ClientState.CONNECTED and self.resumable and self.limits.resume_s > 0

    def receive_text(self, text: str, now: float) -> Resume | None:
        """A text frame of the client; returns which session it means instead, if it wants to resume one."""
        if self.state is State.CLOSED:
            return None
        self._idleness.stir(now)
        try:
            message = parse(text)
        except WireError as error:
            # After `stop` the client is owed its finals, whatever it says then.
            if self.state is State.FINISHING:
                self._complain("A message")
            else:
                self._fail(endings.misunderstood(error))
            return None
        if self.state is State.FINISHING:
            if not isinstance(message, (KeepAlive, Stop)):
                self._complain(f"'{name_of(message)}'")
        elif isinstance(message, Start) != (self.state is State.OPENING):
            expected = State.OPENING if isinstance(message, Start) else State.STREAMING
            self._misplaced(f"'{name_of(message)}'", expected)
        elif isinstance(message, Start):
            if message.resume is not None:
                return message.resume
            self._begin(message, now)
        elif isinstance(message, Flush):
            self._intake.flush()
            self._check_pace()
        elif isinstance(message, Stop):
            decoder = self._intake.decoder
            self._finish(endings.odd_bytes(decoder, self.start) if decoder.in_frame else self._ending)
        return None

    def receive_audio(self, data: bytes, now: float) -> None:
        """A binary frame of the client, of any length: the next one goes on where it ends, also within a sample."""
        state = self._states.now
        if state is State.STREAMING:
            self._idleness.stir(now)
            self._intake.receive(data)
            self._check_pace()
        elif state is State.OPENING:
            self._misplaced("Audio", State.STREAMING)
        elif state is State.FINISHING:
            self._complain("Audio")

    def disregard(self) -> bool:
        """What the client sends cannot be understood any more; whether that is no matter, as it has said `stop`."""
        if self.state is State.FINISHING:
            self._complain("A message")
        return self.state in (State.FINISHING, State.CLOSED)

    def vanish(self, reason: str = VANISHED) -> None:
        """The client is gone: nothing more can be said to it, its sequence is still ended."""
        self._client.leave()
        if self.state is not State.CLOSED:
            self._shut(reason)

    def park(self, now: float) -> None:
        """The connection is lost: what was received goes on being computed, and what is said is kept for a while."""
        self._client.park(now + self.limits.resume_s)

    def resume(self, after: int, now: float) -> bool:
        """The client is back and has seen the messages up to this one; False if it cannot have, or too long ago."""
        after = max(after, 1)  # the greeting stands for the first `ready`
        if not self._outbox.has_after(after):
            return False
        self._client.come_back()
        self._idleness.stir(now)
        self._messages.greet_again(after, self._intake.go_on(self.limits.resume_s), self._intake.flushes)
        return True

    def misdirect(self, code: str, message: str) -> None:
        """The session that this client wants to resume is not to be had."""
        self._fail(endings.misdirected(code, message))

    def stall(self, limit_s: float) -> None:
        """The client has not read its results for so long that they are no longer kept for it."""
        if self.state is not State.CLOSED:
            self._shut(NOT_READ, endings.not_read(limit_s))

    def break_down(self) -> None:
        """Something failed that should not have: the client is told how much is missing, as after `failed`."""
        if self.state is not State.CLOSED:
            ending = endings.failed("The service failed, and its log says why", self.streams.unrecognised_ms)
            self._messages.say(ending.error)
            self._shut("internal", ending.close)

    def refuse(self, code: str, message: str, retry_s: int = RETRY_S) -> None:
        """No session is to be had at present: an error, and a close that says when to try again."""
        if self.state is not State.CLOSED:
            self._fail(endings.refused(code, message, retry_s))

    def drain(self) -> None:
        """The service shuts down: what was heard becomes final, then the client is told to come back."""
        if self.parked:
            self.vanish("shutting_down")
            return
        self._client.dismiss()
        if self.state is State.OPENING:
            self.refuse("shutting_down", "The service is shutting down; try again later.")
        elif self.state is State.STREAMING:
            self._finish(endings.shutting_down())

    def exhaust(self, code: str, message: str) -> None:
        """The caller has had its share: what was heard becomes final, then the message says when to come back."""
        if self.state is State.STREAMING:
            self._finish(endings.exhausted(code, message))

    def requests(self, now: float) -> list[tuple[int, Request]]:
        """The next requests for the model, with the numbers of their streams; at most one is under way in each."""
        # No stream runs ahead while another may still be refused: nothing is said before `ready`.
        hold = not self._messages.ready and self.streams.opening
        asked = ((number, stream.request(now, hold=hold)) for number, stream in enumerate(self.streams))
        return [(number, request) for number, request in asked if request is not None]

    def serve(self, triton_model: str) -> None:
        """This Triton model recognises it, from the next answer on."""
        self._messages.serve(triton_model)

    def answer(self, number: int, events: Iterable[ModelEvent], now: float, *, leaving: bool = False) -> None:
        """The model's events for the request under way in a stream; `leaving`: it has to go on elsewhere at a cut."""
        request, results = self.streams[number].answered(events, now, leaving=leaving)
        # Who waited for a slot until now has all of its time to speak still ahead.
        if request.pcm or request.flush or request.start:
            self._idleness.stir(now)
        if self.state is State.CLOSED:
            return
        self._messages.answer(number, results, now, flush=request.flush)
        if self.streams.ended:
            self._conclude()

    def fail(self, number: int, code: str, message: str, now: float, *, lost: bool) -> bool:
        """The request under way in this stream failed; `lost` says that its sequence is gone and needs no END.

        True if a new sequence will go on where it failed; what was wrong with the old one is nobody's concern then.
        """
        stream = self.streams[number]
        # Whoever was let in waits for a slot that is taken or not there yet.
        passing = code in MENDABLE or (code in TRY_LATER and stream.sequence is not SequenceState.OPENING)
        if passing and stream.mendable and self.state is not State.CLOSED:
            stream.lose(now, f"{code}: {message}")
            self._messages.lose(stream.lost_at)
            return True
        stream.failed(lost=lost)
        if self.state is State.CLOSED:
            return False
        if code in TRY_LATER:
            self.refuse(code, message)
        elif code == FailureCode.BAD_OPTIONS:
            self._fail(endings.bad_options(message))
        else:
            self._give_up(f"The recogniser failed ({code}: {message})")
        return False

    def tick(self, now: float) -> None:
        """Time has passed: an acknowledgement may be due, or a session has waited too long for its client."""
        if (parked_until := self._client.due_at) is not None and now >= parked_until:
            self.vanish()
        elif self.parked and self._outbox.overfull and self.state is not State.CLOSED:
            self.vanish("not_fetched")
        limits = self.limits
        if self.state is State.OPENING and now >= self._idleness.start_due_at(limits.start_s):
            self._fail(endings.no_start(limits.start_s))
            return
        if (hopeless_at := self.streams.hopeless_at(limits.recover_s)) is not None and now >= hopeless_at:
            waited = f"and did not come back within {limits.recover_s:g} s"
            self._give_up(f"The recogniser failed ({self.streams.failure}) {waited}")
        elif self.state is State.STREAMING:
            self._messages.acknowledge(now)
            if self.full:
                self._idleness.hold(now)
            else:
                self._idleness.let_go(now)
            if self.parked or self.full or self.streams.computing or self.streams.opening:
                self._idleness.stir(now)
            elif now >= self._idleness.due_at(limits.idle_s):
                self._finish(endings.idle(limits.idle_s))

    def due_at(self) -> float | None:
        """When to call `tick` and `requests` again although nothing came; None if only an event can help."""
        if self.state is State.OPENING:
            return self._idleness.start_due_at(self.limits.start_s)
        due = [self._client.due_at, self.streams.due_at(), self.streams.hopeless_at(self.limits.recover_s)]
        if self.state is State.STREAMING:
            if not self.parked:
                due.append(self._idleness.due_at(self.limits.idle_s))
            due.append(self._messages.due_at)
        return min((at for at in due if at is not None), default=None)

    def take_messages(self) -> list[Numbered]:
        """The messages for the client since the last call, in order."""
        return self._outbox.take()

    def _begin(self, start: Start, now: float) -> None:
        if start.model not in self._models:
            self._fail(endings.unknown_model(start.model, self._models))
            return
        self._states.become(State.STREAMING)
        self._messages.begin(start)
        self._intake.begin(start, self.limits.refresh_s, now)

    def _give_up(self, what: str) -> None:
        self._fail(endings.failed(what, self.streams.unrecognised_ms))

    def _check_pace(self) -> None:
        if self._intake.too_fast:
            self._fail(endings.too_fast(self._intake.live_mark))

    def _finish(self, ending: Ending) -> None:
        self._ending = ending
        self._states.become(State.FINISHING)
        self._intake.finish()

    def _conclude(self) -> None:
        """The model has said its last word: so does the session."""
        if self._ending.message:
            self._fail(self._ending)
        else:
            self._messages.say(Done(self.heard_ms))
            self._shut(self._ending.code, self._ending.close)

    def _misplaced(self, what: str, expected: State) -> None:
        advice = "a session is started once" if expected is State.OPENING else 'send {"type":"start"} first'
        self._fail(endings.misplaced(what, expected.value, self.state.value, advice))

    def _complain(self, what: str) -> None:
        # Only if the client itself has ended its audio: otherwise it cannot know yet.
        if self._ending.by_client:
            self._messages.complain(Error("after_stop", f"{what} after 'stop' is ignored.", fatal=False))

    def _fail(self, ending: Ending) -> None:
        self._messages.say(ending.error)
        self._shut(ending.code, ending.close)

    def _shut(self, ended_by: str, close: Close | None = None) -> None:
        self._states.become(State.CLOSED)
        self._outcome = Outcome(ended_by, close)
        self.streams.drop()
