"""The slot that one stream holds. If its upstream fails or retires, the stream gets a slot at another upstream."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from streamer.bridge.session.backlog import BYTES_PER_S
from streamer.bridge.states import States
from streamer.bridge.upstreams.instances import begin_at_living, instance_of
from streamer.bridge.upstreams.patience import PREPARING_S
from streamer.bridge.upstreams.upstream import Upstream
from streamer.triton.link import ConnectionLost, LinkError, Overdue
from streamer.wire.model_events import ModelEvent

# Returns the upstream for the next sequence of a stream, from the last one; None if no upstream has room.
Chooser = Callable[[Upstream], Upstream | None]


class SlotState(Enum):
    """The state of the sequence in the slot."""

    RESERVED = "reserved"  # there is none yet
    ASKED = "asked"  # the model got the start of a sequence, and has not accepted it yet
    ACCEPTED = "accepted"  # the model has accepted the sequence


TRANSITIONS: Mapping[SlotState, tuple[SlotState, ...]] = {
    SlotState.RESERVED: (SlotState.ASKED,),
    SlotState.ASKED: (SlotState.ACCEPTED,),
    SlotState.ACCEPTED: (SlotState.ASKED,),
}


class Reservation:
    """The slot of one stream, from the admission to the end of its session. It reports failures to its upstream."""

    def __init__(self, upstream: Upstream, options: Mapping[str, Any], choose: Chooser) -> None:
        self._options = options
        self._choose = choose
        self._states = States("reservation", SlotState.RESERVED, TRANSITIONS)
        self._open(upstream, options)

    @property
    def upstream(self) -> Upstream:
        """The upstream of the stream, or its last one."""
        return self._upstream

    @property
    def leaving(self) -> bool:
        """Whether the stream must move to another slot as soon as it can, and there is one."""
        upstream = self._upstream
        return upstream.must_move(self) or (upstream.retiring and self._choose(upstream) is not None)

    async def begin(self, options: Mapping[str, Any]) -> list[ModelEvent]:
        """Start a sequence and return its first events. Raise LinkError if that fails.

        If there was a sequence before, this one goes to another upstream if possible. `options` are for this sequence,
        in addition to the stream's own.
        """
        all_options: Mapping[str, Any] = {**self._options, **options}
        if self._states.now is not SlotState.RESERVED:
            self._move(all_options)
        elif options:
            self._sequence_options, self._sequence = all_options, self._link.sequence(all_options)
        if self._states.now is not SlotState.ASKED:
            self._states.become(SlotState.ASKED)
        return await self.send()

    async def send(self, audio: bytes = b"", *, flush: bool = False, end: bool = False) -> list[ModelEvent]:
        """Send a request and return the events of its answer (see Sequence.send), within a limit of the upstream."""
        upstream, link = self._upstream, self._link
        # Closing a link ends its sequences. To the caller this must look like a lost connection, not like a mistake.
        if not link.alive:
            raise ConnectionLost("the link was closed")
        if upstream.is_overdue(self):
            raise ConnectionLost("its instance is being removed")
        sent_at, patience, audio_s = time.monotonic(), upstream.patience, len(audio) / BYTES_PER_S
        opening = self._states.now is not SlotState.ACCEPTED and not (audio or flush or end)
        preparing = opening and bool(self._sequence_options.get("hotwords"))
        try:
            if opening:
                async with upstream.openings.one():
                    events = await self._begin(max(patience.limit_s, PREPARING_S if preparing else 0))
                    upstream.note_instance(self, instance_of(events))
            else:
                with patience.work(audio_s, sent_at):
                    limit = lambda: patience.limit_s  # noqa: E731 (it grows with the work of others)
                    events = await self._sequence.send(audio, flush=flush, end=end, timeout=limit)
                    patience.note(time.monotonic() - sent_at, time.monotonic(), audio_s)
        except LinkError as error:
            silent = isinstance(error, Overdue) and link.answered_at < sent_at
            upstream.doubt(link, error, certain=silent)
            raise
        now = time.monotonic()
        if self._states.now is not SlotState.ACCEPTED:
            self._states.become(SlotState.ACCEPTED)
        if opening and not preparing:  # the time of preparations says nothing about other answers
            patience.note(now - sent_at, now)
        return events

    def release(self) -> None:
        """End the sequence if it is open, and give the slot back. This may be called again."""
        self._sequence.discard()
        self._upstream.give_back(self)

    async def _begin(self, patience_s: float) -> list[ModelEvent]:
        upstream = self._upstream
        if not upstream.must_choose:
            return await self._sequence.send(timeout=patience_s)
        self._sequence, events = await begin_at_living(
            self._link, self._sequence_options, upstream.in_use, patience_s, upstream.avoids
        )
        return events

    def _open(self, upstream: Upstream, options: Mapping[str, Any]) -> None:
        self._upstream, self._link = upstream, upstream.hold(self)
        self._sequence_options = options
        self._sequence = self._link.sequence(options)

    def _move(self, options: Mapping[str, Any]) -> None:
        self.release()
        upstream = self._choose(self._upstream)
        if upstream is None:
            raise LinkError("unavailable", "no recogniser is ready and has a free slot")
        self._open(upstream, options)
