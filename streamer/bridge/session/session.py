"""One client's session as a state machine, without sockets, clocks or threads: its client, its audio, its streams.

It takes the client's frames and the model's answers, and returns three things: the next requests for the model, the
messages for the client, and at the end the close. Callers pass the time.
This module decides what a client may do and when. The model's side is in the streams, one for each channel that is
recognised separately. messages.py turns their results into messages, and endings.py has the ways to end. The two sides
end independently: an open sequence is always ended, even if the client is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from enum import Enum

from streamer.audio.decoder import AudioDecoder
from streamer.base.codes import ErrorCode, FailureCode, QuietEnding, Reason
from streamer.base.events import Done, Error, ModelEvent, SpeakerMerge, Speakers
from streamer.base.options import Resume
from streamer.bridge.session import endings
from streamer.bridge.session.backlog import BYTES_PER_S
from streamer.bridge.session.deadlines import Deadlines, Limits
from streamer.bridge.session.endings import DONE, RETRY_S, TRY_LATER, Close, Ending, Outcome
from streamer.bridge.session.messages import Messages, Numbered, Outbox
from streamer.bridge.session.speakers import Answer, Question, SpeakerTrack
from streamer.bridge.session.stream import MOST_WAITED_S, Request, SequenceState, StreamGroup
from streamer.bridge.states import States
from streamer.wire.errors import WireError
from streamer.wire.native import LONGEST_START, LONGEST_TEXT, Flush, KeepAlive, Stop, name_of, parse
from streamer.wire.options import SpeakerNames, Start

# Failures after which another sequence can continue: the sequence is lost, or its slot was faulty.
MENDABLE = (
    FailureCode.UNAVAILABLE,
    FailureCode.OVERDUE,
    FailureCode.UNKNOWN_STREAM,
    FailureCode.FAILED,
    FailureCode.REFUSED,
)


class State(Enum):
    """The state of the client's side."""

    OPENING = "opening"  # connected, and waiting for `start`
    STREAMING = "streaming"  # takes audio
    FINISHING = "finishing"  # takes no more audio; the rest goes to the model, and its finals to the client
    CLOSED = "closed"  # nothing more is sent to the client


TRANSITIONS: Mapping[State, tuple[State, ...]] = {
    State.OPENING: (State.STREAMING, State.CLOSED),
    State.STREAMING: (State.FINISHING, State.CLOSED),
    State.FINISHING: (State.CLOSED,),
    State.CLOSED: (),
}


class Session:
    """One session: takes the client's frames and the model's answers; returns requests, messages and the close."""

    def __init__(
        self, number: str, token: str, models: Collection[str], now: float, limits: Limits | None = None
    ) -> None:
        """`models`: the public names of the models that the client may choose."""
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
        self._deadlines = Deadlines(self.limits, self.streams, now)
        self._ending = DONE  # the ending after the last answer of the model
        self._outcome = Outcome()

    @property
    def state(self) -> State:
        """The state of its client's side."""
        return self._states.now

    @property
    def start(self) -> Start:
        """The client's options."""
        return self._intake.start

    @property
    def flushes(self) -> int:
        """The number of times that the client has asked to make everything final."""
        return self._intake.flushes

    @property
    def close(self) -> Close | None:
        """The close of the connection; None before it is due."""
        return self._outcome.close

    @property
    def ended_by(self) -> Reason | None:
        """The reason for the end of the client's side; None before the end."""
        return self._outcome.code

    @property
    def full(self) -> bool:
        """Whether the client should not be read for now. A live client is always read."""
        return self._intake.full

    @property
    def missing(self) -> int:
        """The bytes of the client's audio that the next request waits for; 0 if that is unknown."""
        return self.streams.missing * self.start.bytes_per_s // BYTES_PER_S

    @property
    def eventful(self) -> bool:
        """Whether there is more to do than to take audio and to ask the model: messages to send, or an ending."""
        return self._states.now is not State.STREAMING or self._outbox.waiting > 0

    @property
    def over(self) -> bool:
        """Whether both sides have ended and nothing is under way."""
        return self.state is State.CLOSED and self.streams.over

    @property
    def parked(self) -> bool:
        """Whether the client lost its connection and may return."""
        return self._client.parked

    @property
    def gone(self) -> bool:
        """Whether the client is gone and cannot return."""
        return self._client.gone

    @property
    def slots_needed(self) -> int:
        """The number of slots that the session needs before the first call of requests()."""
        return 0 if self.state is State.CLOSED else len(self.streams)

    @property
    def heard_ms(self) -> int:
        """The audio that the model has acknowledged in all streams."""
        return self.streams.heard_ms

    @property
    def waiting_bytes(self) -> int:
        """The bytes of audio that were not sent to the model yet, in all streams together."""
        return self.streams.waiting

    @property
    def waiting_messages(self) -> int:
        """The number of messages that wait to be taken."""
        return self._outbox.waiting

    @property
    def has_unsent(self) -> bool:
        """Whether messages must be sent before the connection is closed."""
        return self._outbox.waiting > 0 and self.ended_by is not QuietEnding.NOT_READ

    @property
    def resumable(self) -> bool:
        """Whether the client may resume the session, over a new connection or in place of an older one."""
        if self._client.state in (ClientState.PARKED, ClientState.LEFT):
            return self.parked
        # The client may know the token, and messages may still be missing.
        return self._messages.ready and self.ended_by in (None, DONE.code)

    @property
    def parkable(self) -> bool:
        """Whether the session waits for its client if the connection is lost now."""
        return self._client.state is ClientState.CONNECTED and self.resumable and self.limits.resume_s > 0

    def receive_text(self, text: str, now: float) -> Resume | None:
        """Take a text frame of the client. If the client asks to resume another session, return that request."""
        if self.state is State.CLOSED:
            return None
        self._deadlines.stir(now)
        try:
            message = parse(text, LONGEST_START if self.state is State.OPENING else LONGEST_TEXT)
        except WireError as error:
            # After `stop`, the client gets its finals even if it sends invalid messages.
            if self.state is State.FINISHING:
                self._complain("A message")
            else:
                self._fail(endings.misunderstood(error))
            return None
        if self.state is State.FINISHING:
            if isinstance(message, SpeakerNames):
                self._intake.start = replace(self._intake.start, speaker_names=message.names)
            elif not isinstance(message, (KeepAlive, Stop)):
                self._complain(f"'{name_of(message)}'")
        elif isinstance(message, Start) != (self.state is State.OPENING):
            expected = State.OPENING if isinstance(message, Start) else State.STREAMING
            self._misplaced(f"'{name_of(message)}'", expected)
        elif isinstance(message, Start):
            if message.resume is not None:
                return message.resume
            self._begin(message, now)
        elif isinstance(message, SpeakerNames):
            self._intake.start = replace(self._intake.start, speaker_names=message.names)
        elif isinstance(message, Flush):
            self._intake.flush()
            self._check_pace(now)
        elif isinstance(message, Stop):
            decoder = self._intake.decoder
            self._finish(endings.odd_bytes(decoder, self.start) if decoder.in_frame else self._ending)
        return None

    def receive_audio(self, data: bytes, now: float) -> None:
        """Take a binary frame of any length. The next one continues where it ends, even within a sample."""
        state = self._states.now
        if state is State.STREAMING:
            self._deadlines.stir(now)
            self._intake.receive(data)
            self._check_pace(now)
        elif state is State.OPENING:
            self._misplaced("Audio", State.STREAMING)
        elif state is State.FINISHING:
            self._complain("Audio")

    def disregard(self) -> bool:
        """Note an invalid frame of the client. Return whether it can be ignored, because `stop` came before."""
        if self.state is State.FINISHING:
            self._complain("A message")
        return self.state in (State.FINISHING, State.CLOSED)

    def vanish(self, reason: Reason = QuietEnding.VANISHED) -> None:
        """Note that the client is gone. It gets no more messages, but its sequences are still ended."""
        self._client.leave()
        if self.state is not State.CLOSED:
            self._shut(reason)

    def park(self, now: float) -> None:
        """Note that the connection is lost. Received audio is still recognised, and messages are kept for a while."""
        self._client.park(now + self.limits.resume_s)

    def can_resume(self, after: int) -> bool:
        """Return whether a client may go on after this message: it was sent, and those after it are kept."""
        return self._outbox.has_after(max(after, 1))

    def resume(self, after: int, now: float) -> bool:
        """Continue with a client that returned, after this message.

        Return False if the message is unknown or too old, or if the session has ended since the client was admitted.
        """
        after = max(after, 1)  # a new `ready` is sent in place of the first one
        if self.gone or not self.can_resume(after):
            return False
        self._client.come_back()
        self._deadlines.stir(now)
        self._messages.greet_again(after, self._intake.go_on(self.limits.resume_s), self._intake.flushes)
        return True

    def misdirect(self, code: ErrorCode, message: str) -> None:
        """End, because the session that the client wants to resume is not available."""
        self._fail(endings.misdirected(code, message))

    def stall(self, limit_s: float) -> None:
        """End, because the client has not read its results within this limit. No message may follow the unread ones."""
        self._outbox.take()
        if self.state is State.CLOSED:
            self._outcome = Outcome(QuietEnding.NOT_READ, endings.not_read(limit_s))
        else:
            self._shut(QuietEnding.NOT_READ, endings.not_read(limit_s))

    def break_down(self) -> None:
        """End after an unexpected failure. As after `failed`, the error says how much audio was not recognised."""
        if self.state is not State.CLOSED:
            ending = endings.failed("The service failed (its log says why)", self.streams.unrecognised_ms)
            self._messages.say(ending.error)
            self._shut(ErrorCode.INTERNAL, ending.close)

    def refuse(self, code: ErrorCode, message: str, retry_s: int = RETRY_S) -> None:
        """End, because there is no session for the client now. The close says when to try again."""
        if self.state is not State.CLOSED:
            self._fail(endings.refused(code, message, retry_s))

    def reject(self, error: WireError) -> None:
        """End, because the service does not accept an option of the client."""
        if self.state is not State.CLOSED:
            self._fail(endings.misunderstood(error))

    def overhear(self, listener: Callable[[Numbered], None]) -> None:
        """Let somebody hear each message when it is made, whether the client gets it or not."""
        self._outbox.overhear = listener

    def drain(self) -> None:
        """End, because the service shuts down: send the finals, then tell the client when to return."""
        if self.parked:
            self.vanish(ErrorCode.SHUTTING_DOWN)
            return
        self._client.dismiss()
        if self.state is State.OPENING:
            self.refuse(ErrorCode.SHUTTING_DOWN, "The service is shutting down; try again later.")
        elif self.state is State.STREAMING:
            self._messages.end_abruptly()
            self._finish(endings.shutting_down())

    def expel(self, *, at_once: bool = False) -> None:
        """End, because an operator wants it: send the finals, then say so. `at_once`: without waiting for finals."""
        if self.parked:
            self.vanish(ErrorCode.ENDED_BY_OPERATOR)
            return
        self._client.dismiss()
        if self.state is State.STREAMING and not at_once:
            self._finish(endings.ended_by_operator())
        elif self.state is State.OPENING or (at_once and self.state is not State.CLOSED):
            self._fail(endings.ended_by_operator())

    def exhaust(self, code: ErrorCode, message: str) -> None:
        """End, because the caller has used its quota: send the finals, then this message."""
        if self.state is State.STREAMING:
            self._finish(endings.exhausted(code, message))

    def await_model(self, now: float) -> None:
        """Wait until the model is loaded. The client gets one message about it; its audio waits."""
        if self._deadlines.await_model(now):
            self._messages.await_model()

    def requests(self, now: float) -> list[tuple[int, Request]]:
        """Return the next requests for the model, with the numbers of their streams, at most one for each stream."""
        self._deadlines.end_load()
        # While a stream may still be refused, the others wait, because nothing is sent before `ready`.
        hold = not self._messages.ready and self.streams.opening
        requests = ((number, stream.request(now, hold=hold)) for number, stream in enumerate(self.streams))
        return [(number, request) for number, request in requests if request is not None]

    def questions(self, now: float) -> list[tuple[int, Question]]:
        """Return the next questions about speakers, with the numbers of their streams, at most one for each stream."""
        if not self._intake.tracks or not self._messages.ready:
            return []
        questions = ((number, track.question(now)) for number, track in enumerate(self._intake.tracks))
        return [(number, question) for number, question in questions if question is not None]

    def answer_about_speakers(self, number: int, answer: Answer | str, now: float) -> None:
        """Take the answer to a question about the speakers of a stream, or the reason why there is none."""
        if self.state is State.CLOSED:
            return
        track = self._intake.tracks[number]
        if isinstance(answer, str):
            track.fail(answer, now)
            message = f"Speakers cannot be told apart now: {answer}. The words have none until they can."
            self._messages.complain(Error(ErrorCode.NO_SPEAKERS, message, fatal=False))
        else:
            track.take(answer)
            if track.silent:
                names = ", ".join(self.start.voices[voice].name or str(voice + 1) for voice in track.silent)
                message = f"Nobody speaks long enough in the recording of {names}, so this voice is not known."
                self._messages.complain(Error(ErrorCode.NO_SPEAKERS, message, fatal=False))
        self._release(now)

    def serve(self, triton_model: str) -> None:
        """Note that this Triton model recognises the session from now on."""
        self._messages.serve(triton_model)

    def answer(self, number: int, events: Iterable[ModelEvent], now: float, *, leaving: bool = False) -> None:
        """Take the answer to a stream's request. `leaving`: the stream must move to another slot at its next cut."""
        request, results = self.streams[number].take_answer(events, now, leaving=leaving)
        # A client that had to wait for its slot still gets the whole idle limit.
        if request.pcm or request.flush or request.start:
            self._deadlines.stir(now)
        if self.state is State.CLOSED:
            return
        if self._intake.tracks:
            self._intake.tracks[number].hold(results, request.flush, now)
            self._release(now)
            return
        self._messages.answer(number, results, now, flush=request.flush)
        if self.streams.ended:
            self._conclude()

    def fail(self, number: int, code: str, message: str, now: float, *, lost: bool) -> bool:
        """Note that a stream's request failed. `lost`: its sequence is gone and needs no END.

        Return whether a new sequence will continue. In that case the client does not learn of the failure.
        """
        stream = self.streams[number]
        # A session that was admitted before waits if no slot is free or ready now.
        temporary = code in MENDABLE or (code in TRY_LATER and stream.sequence is not SequenceState.OPENING)
        if temporary and stream.mendable and self.state is not State.CLOSED:
            stream.lose(now, f"{code}: {message}")
            self._messages.lose(stream.lost_at)
            return True
        stream.fail(lost=lost)
        if self.state is State.CLOSED:
            return False
        if code in TRY_LATER:
            self.refuse(
                ErrorCode(code), f"The recogniser takes no session now ({message}); try again in a few seconds."
            )
        elif code == FailureCode.BAD_OPTIONS:
            self._fail(endings.bad_options(message))
        else:
            self._fail(endings.failed(f"The recogniser failed ({code}: {message})", self.streams.unrecognised_ms))
        return False

    def tick(self, now: float) -> None:
        """Do what is due at this time: send an acknowledgement, or end because a limit has passed."""
        if (parked_until := self._client.due_at) is not None and now >= parked_until:
            self.vanish()
        elif self.parked and self._outbox.overfull and self.state is not State.CLOSED:
            self.vanish(QuietEnding.NOT_FETCHED)
        if self._intake.tracks and self.state is not State.CLOSED:
            self._release(now)
        deadlines = self._deadlines
        ending = deadlines.check_start(now) if self.state is State.OPENING else None
        ending = ending or deadlines.check_recogniser(now)
        if ending is not None:
            self._fail(ending)
        elif self.state is State.STREAMING:
            self._messages.acknowledge(now)
            excused = self.parked or self.streams.computing or self.streams.opening
            if (idle := deadlines.check_idle(now, full=self.full, excused=excused)) is not None:
                self._messages.end_abruptly()  # its client may be there, behind a network that has swallowed its audio
                self._finish(idle)

    def due_at(self) -> float | None:
        """Return when to call tick() and requests() if nothing happens before; None if there is no need to."""
        deadlines = self._deadlines
        if self.state is State.OPENING:
            return deadlines.start_due_at
        due = [self._client.due_at, self.streams.due_at(), deadlines.recogniser_due_at]
        due += [track.due_at for track in self._intake.tracks]
        if self.state is State.STREAMING:
            if not self.parked:
                due.append(deadlines.idle_due_at)
            due.append(self._messages.due_at)
        return min((at for at in due if at is not None), default=None)

    def take_messages(self) -> list[Numbered]:
        """Take the new messages for the client, in order."""
        return self._outbox.take()

    def _begin(self, start: Start, now: float) -> None:
        if start.model not in self._models:
            self._fail(endings.unknown_model(start.model, self._models))
            return
        self._states.become(State.STREAMING)
        self._intake.begin(start, self.limits.refresh_s, now)
        self._messages.begin(self.start)

    def _check_pace(self, now: float) -> None:
        if not self._intake.behind(now):
            return
        if self.streams.waited_s(now) < MOST_WAITED_S:
            self._fail(endings.too_fast(self._intake.live_mark))
        else:
            self._fail(endings.too_slow(MOST_WAITED_S, self.streams.unrecognised_ms))

    def _finish(self, ending: Ending) -> None:
        self._ending = ending
        self._states.become(State.FINISHING)
        self._intake.finish()

    def _release(self, now: float) -> None:
        """Send the results that need not wait for their speakers any more, and end after the last of them."""
        for number, track in enumerate(self._intake.tracks):
            if track.merge is not None:
                self._messages.say(SpeakerMerge(*track.merge, number if self.start.multichannel else None))
                track.merge = None
            for results, flush in track.release(now):
                self._messages.answer(number, results, now, flush=flush)
        if not self.streams.ended or not all(track.over for track in self._intake.tracks):
            return
        for number, track in enumerate(self._intake.tracks):
            if track.turns:
                self._messages.say(Speakers(track.turns, number if self.start.multichannel else None))
        self._conclude()

    def _conclude(self) -> None:
        """End after the last answer of the model."""
        if self._ending.message:
            self._fail(self._ending)
        else:
            self._messages.say(Done(self.heard_ms))
            self._shut(self._ending.code, self._ending.close)

    def _misplaced(self, message: str, expected: State) -> None:
        advice = "send 'start' only once" if expected is State.OPENING else 'send {"type":"start"} first'
        self._fail(endings.misplaced(message, expected.value, self.state.value, advice))

    def _complain(self, message: str) -> None:
        # If the client did not end its audio itself, it cannot know that the session is ending.
        if self._ending.by_client:
            self._messages.complain(Error(ErrorCode.AFTER_STOP, f"{message} after 'stop' is ignored.", fatal=False))

    def _fail(self, ending: Ending) -> None:
        self._messages.say(ending.error)
        self._shut(ending.code, ending.close)

    def _shut(self, ended_by: Reason, close: Close | None = None) -> None:
        self._states.become(State.CLOSED)
        self._outcome = Outcome(ended_by, close)
        self._deadlines.end_load()
        self.streams.drop()
        self._intake.tracks.clear()


# Takes a client's audio into the streams of its session: decodes it, splits it by channel, and bounds it.

# A live client is always read. If this much of its audio waits, its session ends, because the backlog would only grow.
# After a stall of the network, a client may send some seconds at once.
LIVE_MARK = 20 * BYTES_PER_S


class Intake:
    """Takes the client's audio from `start` to `stop`."""

    def __init__(self, streams: StreamGroup) -> None:
        self.start = Start()
        self.tracks: list[SpeakerTrack] = []  # one for each stream, if the client wants speakers
        self.flushes = 0  # the number that the client asked for
        self.live_mark = LIVE_MARK
        self._streams = streams
        self._decoder = AudioDecoder(self.start.encoding, self.start.sample_rate)

    @property
    def decoder(self) -> AudioDecoder:
        """The decoder, which knows how much audio came and whether it ended within a sample."""
        return self._decoder

    @property
    def full(self) -> bool:
        """Whether the client should not be read for now. A live client is always read."""
        return not self.start.live and (self._streams.full or any(track.full for track in self.tracks))

    def behind(self, now: float) -> bool:
        """Return whether too much audio of a live client waits for the model, besides what the model has delayed."""
        return self.start.live and self._streams.exceeds(self.live_mark, now)

    def begin(self, start: Start, refresh_s: float, now: float) -> None:
        """Prepare for the audio that `start` describes."""
        self.start = start.without_recordings()
        self._decoder = AudioDecoder(start.encoding, start.sample_rate, start.channels, separate=start.multichannel)
        self._streams.begin(self._decoder.streams, start.step_ms, refresh_s, now, start.context)
        if start.speakers:
            voices = 0 if start.speakers is True else start.speakers
            enrolled = [voice.pcm for voice in start.voices]
            self.tracks += [SpeakerTrack(voices, live=start.live, enrolled=enrolled) for _ in self._streams]

    def receive(self, data: bytes) -> None:
        """Take audio of any length. The next audio continues where it ends, even within a sample."""
        for number, (stream, pcm) in enumerate(zip(self._streams, self._decoder.pcm(data), strict=True)):
            stream.add(pcm)
            if self.tracks:
                self.tracks[number].add(pcm)

    def flush(self) -> None:
        """Make all audio so far final."""
        self.flushes += 1
        self._streams.flush()

    def go_on(self, away_s: float) -> int:
        """Continue after the client was away for at most `away_s`. Return the sample that it must send next."""
        # A live client may now send all the audio of that time at once.
        self.live_mark = LIVE_MARK + int(away_s) * BYTES_PER_S
        return self._decoder.drop_rest()

    def finish(self) -> None:
        """End the audio."""
        for number, (stream, block) in enumerate(zip(self._streams, self._decoder.finish(), strict=True)):
            stream.add(block.tobytes())
            if self.tracks:
                self.tracks[number].add(block.tobytes())
                self.tracks[number].finish()
        self._streams.finish()


# The client of a session: connected, parked (its connection is lost, and it may return), or gone.


class ClientState(Enum):
    """Whether the session's client is connected, parked, or gone."""

    CONNECTED = "connected"
    PARKED = "parked"  # it lost its connection, and may return
    DISMISSED = "dismissed"  # connected, but it may not return if the connection is lost
    LEFT = "left"  # it cannot return


PRESENCE_TRANSITIONS: Mapping[ClientState, tuple[ClientState, ...]] = {
    ClientState.CONNECTED: (ClientState.PARKED, ClientState.DISMISSED, ClientState.LEFT),
    ClientState.PARKED: (ClientState.CONNECTED, ClientState.LEFT),
    ClientState.DISMISSED: (ClientState.LEFT,),
    ClientState.LEFT: (),
}


class Presence:
    """The client of one session. Only this class knows whether it is parked."""

    def __init__(self) -> None:
        self._states = States("client", ClientState.CONNECTED, PRESENCE_TRANSITIONS)
        self._until = 0.0  # a parked client may return before this time

    @property
    def state(self) -> ClientState:
        """The state of the client."""
        return self._states.now

    @property
    def parked(self) -> bool:
        """Whether the client lost its connection and may return."""
        return self._states.now is ClientState.PARKED

    @property
    def gone(self) -> bool:
        """Whether the client is gone and cannot return."""
        return self._states.now is ClientState.LEFT

    @property
    def due_at(self) -> float | None:
        """The end of the time in which a parked client may return."""
        return self._until if self.parked else None

    def park(self, until: float) -> None:
        """Note that the connection is lost. The client may return before this time."""
        self._states.become(ClientState.PARKED)
        self._until = until

    def come_back(self) -> None:
        """Note that the client has a new connection. The old one may not be lost yet."""
        if self.parked:
            self._states.become(ClientState.CONNECTED)
        else:
            self._states.expect(ClientState.CONNECTED, ClientState.DISMISSED)

    def dismiss(self) -> None:
        """Note that the session ends if the connection is lost from now on."""
        if self._states.now is ClientState.CONNECTED:
            self._states.become(ClientState.DISMISSED)

    def leave(self) -> None:
        """Note that the client is gone. This may be called again."""
        if not self.gone:
            self._states.become(ClientState.LEFT)
