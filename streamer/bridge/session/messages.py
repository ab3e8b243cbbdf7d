"""Makes the messages that a client gets while its session runs, numbers them, and keeps the last for its return.

Pure. Nothing is sent before every stream has its sequence. A message about the whole session waits for all streams.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from streamer.base.events import (
    Acknowledgement,
    Error,
    Final,
    Flushed,
    Partial,
    Ready,
    Recovered,
    Result,
    ServerMessage,
    Starting,
    StreamResult,
    Turn,
)
from streamer.bridge.session.stream import StreamGroup
from streamer.wire.events import render
from streamer.wire.options import Start

HEARD_EVERY_S = 0.5


class Messages:
    """Turns the results of the streams into messages, and puts them into the outbox."""

    def __init__(self, streams: StreamGroup, outbox: Outbox, session: str, token: str, now: float) -> None:
        """`session`: its number. The number and the token are parts of `ready`."""
        self._streams = streams
        self._outbox = outbox
        self._greeting = Ready(session, token, "", "", 0, 0)
        self._start = Start()
        self._triton_model = ""
        self._views: list[_StreamView] = []  # one for each stream, once all of them have their sequence
        self._complaint: Error | None = None
        self._flushed = 0
        self._lost_at: float | None = None  # when a stream lost its recogniser
        self._acknowledged_at = now
        self._abrupt = False  # the service itself ends the segments

    @property
    def ready(self) -> bool:
        """Whether `ready` was sent."""
        return bool(self._views)

    @property
    def due_at(self) -> float | None:
        """The time of the next acknowledgement, if there is something to acknowledge."""
        acknowledged_ms = min((view.audio_ms for view in self._views), default=0)
        return self._acknowledged_at + HEARD_EVERY_S if self._streams.heard_ms > acknowledged_ms else None

    def begin(self, start: Start) -> None:
        """Take the client's options."""
        self._start = start

    def await_model(self) -> None:
        """Tell the client that its model is being loaded."""
        self._outbox.announce(Starting(self._start.model))

    def serve(self, triton_model: str) -> None:
        """Note that this Triton model recognises the session from now on."""
        self._triton_model = triton_model

    def greet_again(self, after: int, from_sample: int, flushes: int) -> None:
        """Send `ready` again to a client that returned, and then the messages after number `after`."""
        self._outbox.rewind(after, replace(self._ready(from_sample), flushes=flushes))

    def lose(self, at: float | None) -> None:
        """Note that a stream lost its sequence at this time."""
        if self._lost_at is None:
            self._lost_at = at

    def end_abruptly(self) -> None:
        """Mark all further finals: a client that goes on in another session lets that one recognise them again."""
        self._abrupt = True

    def say(self, message: ServerMessage) -> None:
        """Send any other message."""
        self._outbox.say(message)

    def complain(self, error: Error) -> None:
        """Send an error that does not end the session, but only the first one of a session."""
        if self._complaint is None:
            self._complaint = error
            self.say(error)

    def answer(self, number: int, results: Iterable[Result], now: float, *, flush: bool) -> None:
        """Send the results in the answer to a stream's request. `flush`: the client asked for a flush there."""
        last = self._outbox.last
        if not self.ready and self._streams.opened:
            self._views = [_StreamView() for _ in self._streams]
            self._lost_at = None  # before `ready` the client cannot have missed anything
            self.say(self._ready(0))
        if self.ready:
            self._report_recovery(now)
            for result in results:
                if not isinstance(result, Flushed):
                    self._pass_on(number, result)
                elif flush:  # the end of a sequence is a flush too, but the client did not ask for it
                    self._answer_flush(number, result)
        if self._outbox.last > last:
            self._acknowledged_at = now
        elif not self._streams.ended:  # at the end `done` acknowledges the audio
            self.acknowledge(now)

    def acknowledge(self, now: float) -> None:
        """Send `heard` if no message has acknowledged the audio for a while."""
        due = self.due_at
        if due is not None and now >= due:
            heard_ms = self._streams.heard_ms
            self.say(Acknowledgement(heard_ms))
            self._note_acknowledged(heard_ms)
            self._acknowledged_at = now

    def _pass_on(self, number: int, result: StreamResult) -> None:
        if isinstance(result, (Partial, Final, Turn)):
            self._views[number].note(result.audio_ms)
        if self._abrupt and isinstance(result, Final):
            result = replace(result, abrupt=True)
        self.say(replace(result, channel=number) if self._start.multichannel else result)

    def _answer_flush(self, number: int, flushed: Flushed) -> None:
        """Send `flushed` for the whole session when every stream has reached the flush."""
        self._views[number].flushed += 1
        if min(view.flushed for view in self._views) > self._flushed:
            self._flushed += 1
            self._note_acknowledged(flushed.audio_ms)
            self.say(flushed)

    def _note_acknowledged(self, audio_ms: int) -> None:
        """Note that the client knows that this audio was heard in all streams."""
        for view in self._views:
            view.note(audio_ms)

    def _report_recovery(self, now: float) -> None:
        """Send `recovered` before any new result, once all streams are where they were before the failure."""
        if self._lost_at is not None and not self._streams.interrupted:
            self.say(Recovered(round((now - self._lost_at) * 1000)))
            self._lost_at = None

    def _ready(self, from_sample: int) -> Ready:
        return replace(
            self._greeting,
            model=self._start.model,
            triton_model=self._triton_model,
            sample_rate=self._start.sample_rate,
            from_sample=from_sample,
        )


class _StreamView:
    """One stream as its client sees it."""

    def __init__(self) -> None:
        self.audio_ms = 0
        self.flushed = 0  # the number of flushes that the model has answered

    def note(self, audio_ms: int) -> None:
        """Note that the client knows that this audio was heard."""
        self.audio_ms = max(self.audio_ms, audio_ms)


# The numbered messages of a session: those that were not sent yet, and those that a client may need again.

# The characters of JSON that are kept for a client that resumes: minutes of live speech. The buffers on the way to a
# client hold less, so older messages have arrived.
MOST_KEPT = 256 * 1024


@dataclass(frozen=True)
class Numbered:
    """A message with its number, and its text."""

    n: int
    message: ServerMessage
    text: str


class Outbox:
    """Messages in order, each with its number: those that were sent, and then those that wait."""

    def __init__(self) -> None:
        self.last = 0  # the number of the last message
        self.overhear: Callable[[Numbered], None] | None = None  # gets each message when it is made
        self._waiting = _Row()
        self._sent = _Row()  # without the oldest ones, which are dropped
        self._greeting: Numbered | None = None
        self._announcement: Numbered | None = None

    @property
    def waiting(self) -> int:
        """The number of messages that wait to be taken."""
        return len(self._waiting.messages)

    @property
    def overfull(self) -> bool:
        """Whether more messages wait than are kept."""
        return self._waiting.size > MOST_KEPT

    def say(self, message: ServerMessage) -> None:
        """Add a message."""
        self.last += 1
        text = render(self.last, message)
        numbered = Numbered(self.last, message, text)
        self._waiting.messages.append(numbered)
        self._waiting.size += len(text)
        if self.overhear is not None:
            self.overhear(numbered)

    def announce(self, message: Starting) -> None:
        """Add a message before all others. It gets the number 0, and is not kept: after `ready` it means nothing."""
        self._announcement = Numbered(0, message, render(0, message))

    def take(self) -> list[Numbered]:
        """Take all messages that wait, in order."""
        messages = list(self._waiting.messages)
        if self._announcement is not None:
            messages.insert(0, self._announcement)
            self._announcement = None
        if self._greeting is not None:
            messages.insert(0, self._greeting)
            self._greeting = None
        sent = self._sent
        sent.messages.extend(self._waiting.messages)
        sent.size += self._waiting.size
        self._waiting = _Row()
        while sent.size > MOST_KEPT:
            sent.size -= len(sent.messages.popleft().text)
        return messages

    def has_after(self, number: int) -> bool:
        """Return whether this message exists, and all messages after it are still kept."""
        messages = self._sent.messages or self._waiting.messages
        first = messages[0].n if messages else self.last + 1
        return first <= number + 1 <= self.last + 1

    def rewind(self, number: int, greeting: Ready) -> None:
        """Send the messages after this one again, behind a greeting, which gets this number and is not kept."""
        sent, waiting = self._sent, self._waiting
        while sent.messages and sent.messages[-1].n > number:
            message = sent.messages.pop()
            waiting.messages.appendleft(message)
            sent.size -= len(message.text)
            waiting.size += len(message.text)
        self._greeting = Numbered(number, greeting, render(number, greeting))


class _Row:
    """Messages in order, with their size."""

    def __init__(self) -> None:
        self.messages: deque[Numbered] = deque()
        self.size = 0  # characters of all texts
