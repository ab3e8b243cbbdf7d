"""What the client of a session is told while it runs: the model's events, acknowledgements, recoveries.

Pure. Nothing is told before every stream has its sequence; what is about the session waits for the last stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from streamer.bridge.session.outbox import Outbox
from streamer.bridge.session.stream_group import StreamGroup
from streamer.wire.options import Start

HEARD_EVERY_S = 0.5


class Messages:
    """Puts into the outbox what follows from the streams."""

    def __init__(self, streams: StreamGroup, outbox: Outbox, greeting: Mapping[str, Any], now: float) -> None:
        """`greeting`: what `ready` says of the session, whatever was started."""
        self.ready = False  # whether the client was told that its session is there
        self._streams = streams
        self._outbox = outbox
        self._greeting = dict(greeting)
        self._start = Start()
        self._triton_model = ""
        self._flushed = 0
        self._lost_at: float | None = None  # since when the recogniser is missed, in whichever stream
        self._told_at = now

    @property
    def due_at(self) -> float | None:
        """When there is something to acknowledge."""
        return self._told_at + HEARD_EVERY_S if self._streams.heard_ms > self._streams.told_ms else None

    def begin(self, start: Start) -> None:
        """What the client wants to be told."""
        self._start = start

    def serve(self, triton_model: str) -> None:
        """This Triton model recognises the session from now on."""
        self._triton_model = triton_model

    def greet_again(self, after: int, from_sample: int, flushes: int) -> None:
        """The client is back, and has seen the messages up to this one."""
        self._outbox.rewind(after, {"type": "ready", "n": after, **self._ready(from_sample), "flushes": flushes})

    def lose(self, at: float | None) -> None:
        """A stream's sequence is lost since then."""
        if self._lost_at is None:
            self._lost_at = at

    def answer(self, number: int, events: Iterable[Mapping[str, Any]], now: float, *, flush: bool) -> None:
        """A stream's events; `flush`: the client asked for one with this request."""
        said = self._outbox.said
        if not self.ready and self._streams.opened:
            self.ready = True
            self._lost_at = None  # nobody was told anything that could have been missed
            self._outbox.say("ready", **self._ready(0))
        if self.ready:
            self._tell_recovery(now)
        for event in events:
            # The end of a sequence flushes it too, which is nothing that this client asked for.
            if event["type"] != "flushed" or flush:
                self._pass_on(number, event)
        if self._outbox.said > said:
            self._told_at = now
        elif not self._streams.ended:  # else `done` tells it
            self.acknowledge(now)

    def acknowledge(self, now: float) -> None:
        """Say what was heard, if nothing has told that for a while."""
        due = self.due_at
        if due is not None and now >= due:
            heard_ms = self._streams.heard_ms
            self._outbox.say("heard", audio_ms=heard_ms)
            self._streams.tell(heard_ms)
            self._told_at = now

    def _pass_on(self, number: int, event: Mapping[str, Any]) -> None:
        stream = self._streams[number]
        if event["type"] == "flushed":
            stream.flushed += 1
            # It is about the session: said when the last stream has got to it, and all of them got to it at one time.
            if self._streams.flushed > self._flushed:
                self._flushed += 1
                self._streams.tell(event["audio_ms"])
                self._outbox.say(**event)
        else:
            stream.told_ms = max(stream.told_ms, event.get("audio_ms", 0))
            self._outbox.say(**({**event, "channel": number} if self._start.multichannel else event))

    def _tell_recovery(self, now: float) -> None:
        """Once every stream is where it was, before anything new is told."""
        if self._lost_at is not None and not self._streams.missed:
            self._outbox.say("recovered", gap_ms=round((now - self._lost_at) * 1000))
            self._lost_at = None

    def _ready(self, from_sample: int) -> dict[str, Any]:
        return {
            **self._greeting,
            "model": self._start.model,
            "triton_model": self._triton_model,
            "sample_rate": self._start.sample_rate,
            "from_sample": from_sample,
        }
