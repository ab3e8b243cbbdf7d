"""What the client of a session is told while it runs: the model's events, acknowledgements, recoveries.

Pure. Nothing is told before every stream has its sequence; what is about the session waits for the last stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from streamer.bridge.session.outbox import Outbox
from streamer.bridge.session.stream_group import StreamGroup
from streamer.wire.events import (
    Error,
    Final,
    Flushed,
    Heard,
    Partial,
    Ready,
    Recovered,
    Result,
    ServerMessage,
    Speech,
)
from streamer.wire.options import Start

HEARD_EVERY_S = 0.5


class Messages:
    """Puts into the outbox what follows from the streams."""

    def __init__(self, streams: StreamGroup, outbox: Outbox, session: str, token: str, now: float) -> None:
        """`session`: its number; that and its token are what `ready` says of it, whatever was started."""
        self._streams = streams
        self._outbox = outbox
        self._greeting = Ready(session, token, "", "", 0, 0)
        self._start = Start()
        self._triton_model = ""
        self._told: list[_Told] = []  # of each stream, once all of them have their sequence
        self._complaint: Error | None = None
        self._flushed = 0
        self._lost_at: float | None = None  # since when the recogniser is missed, in whichever stream
        self._told_at = now

    @property
    def ready(self) -> bool:
        """Whether the client was told that its session is there."""
        return bool(self._told)

    @property
    def due_at(self) -> float | None:
        """When there is something to acknowledge."""
        told_ms = min((told.audio_ms for told in self._told), default=0)
        return self._told_at + HEARD_EVERY_S if self._streams.heard_ms > told_ms else None

    def begin(self, start: Start) -> None:
        """What the client wants to be told."""
        self._start = start

    def serve(self, triton_model: str) -> None:
        """This Triton model recognises the session from now on."""
        self._triton_model = triton_model

    def greet_again(self, after: int, from_sample: int, flushes: int) -> None:
        """The client is back, and has seen the messages up to this one."""
        self._outbox.rewind(after, replace(self._ready(from_sample), flushes=flushes))

    def lose(self, at: float | None) -> None:
        """A stream's sequence is lost since then."""
        if self._lost_at is None:
            self._lost_at = at

    def say(self, message: ServerMessage) -> None:
        """Something else."""
        self._outbox.say(message)

    def complain(self, error: Error) -> None:
        """What the client does wrong, although the session goes on: once is enough."""
        if self._complaint is None:
            self._complaint = error
            self.say(error)

    def answer(self, number: int, results: Iterable[Result], now: float, *, flush: bool) -> None:
        """What a stream's model says; `flush`: the client asked for one with this request."""
        said = self._outbox.said
        if not self.ready and self._streams.opened:
            self._told = [_Told() for _ in self._streams]
            self._lost_at = None  # nobody was told anything that could have been missed
            self.say(self._ready(0))
        if self.ready:
            self._tell_recovery(now)
            for result in results:
                if not isinstance(result, Flushed):
                    self._pass_on(number, result)
                elif flush:  # the end of a sequence flushes it too, which is nothing that this client asked for
                    self._answer_flush(number, result)
        if self._outbox.said > said:
            self._told_at = now
        elif not self._streams.ended:  # else `done` tells it
            self.acknowledge(now)

    def acknowledge(self, now: float) -> None:
        """Say what was heard, if nothing has told that for a while."""
        due = self.due_at
        if due is not None and now >= due:
            heard_ms = self._streams.heard_ms
            self.say(Heard(heard_ms))
            self._tell(heard_ms)
            self._told_at = now

    def _pass_on(self, number: int, result: Partial | Final | Speech) -> None:
        if not isinstance(result, Speech):
            self._told[number].hear(result.audio_ms)
        self.say(replace(result, channel=number) if self._start.multichannel else result)

    def _answer_flush(self, number: int, flushed: Flushed) -> None:
        """It is about the session: said when the last stream has got to it, and all of them got to it at one time."""
        self._told[number].flushed += 1
        if min(told.flushed for told in self._told) > self._flushed:
            self._flushed += 1
            self._tell(flushed.audio_ms)
            self.say(flushed)

    def _tell(self, audio_ms: int) -> None:
        """The client knows so much of the session."""
        for told in self._told:
            told.hear(audio_ms)

    def _tell_recovery(self, now: float) -> None:
        """Once every stream is where it was, before anything new is told."""
        if self._lost_at is not None and not self._streams.missed:
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


class _Told:
    """What the client knows of one stream."""

    def __init__(self) -> None:
        self.audio_ms = 0
        self.flushed = 0  # how many flushes the model has answered

    def hear(self, audio_ms: int) -> None:
        """It is told so much."""
        self.audio_ms = max(self.audio_ms, audio_ms)
