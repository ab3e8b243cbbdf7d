"""The slot that one stream holds at the recogniser: at one upstream after another, if one of them fails or retires."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from streamer.bridge.states import States
from streamer.bridge.upstreams.instances import begin_past_the_dead
from streamer.bridge.upstreams.patience import PREPARING_S
from streamer.bridge.upstreams.upstream import Upstream
from streamer.triton.link import ConnectionLost, LinkError, Overdue
from streamer.wire.model_events import ModelEvent

# Chooses where the next sequence of a stream begins, given where its last one was; None if no upstream has room.
Chooser = Callable[[Upstream], Upstream | None]


class SlotState(Enum):
    """What was done with the slot."""

    RESERVED = "reserved"  # nothing yet
    ASKED = "asked"  # a sequence was begun there, and is not accepted
    ACCEPTED = "accepted"  # the model has the sequence


TRANSITIONS: Mapping[SlotState, tuple[SlotState, ...]] = {
    SlotState.RESERVED: (SlotState.ASKED,),
    SlotState.ASKED: (SlotState.ACCEPTED,),
    SlotState.ACCEPTED: (SlotState.ASKED,),
}


class Reservation:
    """Taken when a session is let in, released when it ends. Its upstream hears how its requests fare."""

    def __init__(self, upstream: Upstream, options: Mapping[str, Any], choose: Chooser) -> None:
        self._options = options
        self._choose = choose
        self._states = States("reservation", SlotState.RESERVED, TRANSITIONS)
        self._open(upstream, options)

    @property
    def upstream(self) -> Upstream:
        """Where the stream is, or was last."""
        return self._upstream

    @property
    def leaving(self) -> bool:
        """Whether the stream has to go on elsewhere as soon as it can, and there is an elsewhere."""
        return self._upstream.retiring and self._choose(self._upstream) is not None

    async def begin(self, options: Mapping[str, Any]) -> list[ModelEvent]:
        """Open a sequence and return its first events; each later one elsewhere if possible. LinkError.

        `options` are those of this sequence, beside the stream's own.
        """
        if self._states.now is not SlotState.RESERVED:
            self._move({**self._options, **options})
        if self._states.now is not SlotState.ASKED:
            self._states.become(SlotState.ASKED)
        return await self.send()

    async def send(self, audio: bytes = b"", *, flush: bool = False, end: bool = False) -> list[ModelEvent]:
        """See Sequence.send(); waits as long as makes sense at this upstream."""
        upstream, link = self._upstream, self._link
        # The close of a link ends its sequences, which is no mistake of whoever goes on with them.
        if not link.alive:
            raise ConnectionLost("the link was closed")
        asked, patience_s = time.monotonic(), upstream.answer_limit_s
        opening = self._states.now is not SlotState.ACCEPTED and not (audio or flush or end)
        preparing = opening and bool(self._sequence_options.get("hotwords"))
        if preparing:
            patience_s = max(patience_s, PREPARING_S)
        try:
            if upstream.limps and opening:
                options, taken = self._sequence_options, upstream.taken
                self._sequence, events = await begin_past_the_dead(link, options, taken, patience_s)
            else:
                events = await self._sequence.send(audio, flush=flush, end=end, timeout=patience_s)
        except LinkError as error:
            silent = isinstance(error, Overdue) and link.answered_at < asked
            upstream.doubt(link, error, certain=silent)
            raise
        now = time.monotonic()
        if self._states.now is not SlotState.ACCEPTED:
            self._states.become(SlotState.ACCEPTED)
        if not preparing:  # how long that takes tells nothing about other answers
            upstream.answered(now - asked, now)
        return events

    def release(self) -> None:
        """End the sequence if it is not ended, and give the slot back; once is enough."""
        self._sequence.discard()
        self._upstream.give_back(self)

    def _open(self, upstream: Upstream, options: Mapping[str, Any]) -> None:
        self._upstream, self._link = upstream, upstream.hold(self)
        self._sequence_options = options
        self._sequence = self._link.sequence(options)

    def _move(self, options: Mapping[str, Any]) -> None:
        self.release()
        upstream = self._choose(self._upstream)
        if upstream is None:
            raise LinkError("unavailable", "no recogniser is well, or those that are have no room")
        self._open(upstream, options)
