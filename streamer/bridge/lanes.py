"""The lanes of one session taken together: what is said of all of them, and what is asked of each. Pure."""

from __future__ import annotations

import collections.abc
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from streamer.bridge.lane import Lane, Request, Sequence


class Lanes(collections.abc.Collection[Lane]):
    """One lane for each channel that is recognised on its own; none before the session has begun."""

    def __init__(self) -> None:
        self._lanes: list[Lane] = []

    def begin(self, number: int, step_ms: int, refresh_s: float, now: float) -> None:
        """So many of them, from now on."""
        self._lanes = [Lane(step_ms, refresh_s, now) for _ in range(number)]

    def __len__(self) -> int:
        return len(self._lanes)

    def __iter__(self) -> Iterator[Lane]:
        return iter(self._lanes)

    def __contains__(self, lane: object) -> bool:
        return lane in self._lanes

    def __getitem__(self, number: int) -> Lane:
        return self._lanes[number]

    @property
    def opening(self) -> bool:
        """Whether one of them may still be refused its sequence."""
        return any(lane.sequence in (Sequence.NONE, Sequence.OPENING) for lane in self._lanes)

    @property
    def opened(self) -> bool:
        """Whether all of them have a sequence that was accepted and is not ended."""
        return all(lane.sequence is Sequence.OPEN for lane in self._lanes)

    @property
    def ended(self) -> bool:
        """Whether the model has said its last word in all of them."""
        return all(lane.sequence is Sequence.ENDED for lane in self._lanes)

    @property
    def over(self) -> bool:
        """Whether nothing is under way in any of them, and nothing is left to end."""
        return all(lane.over for lane in self._lanes)

    @property
    def full(self) -> bool:
        """Whether one of them should be given no audio for now."""
        return any(lane.full for lane in self._lanes)

    @property
    def computing(self) -> bool:
        """Whether audio of one of them is with the model, or would be if there were one."""
        return any(lane.computing for lane in self._lanes)

    @property
    def missed(self) -> bool:
        """Whether one of them has lost its sequence and is not yet where it was."""
        return any(lane.lost_at is not None for lane in self._lanes)

    @property
    def waiting(self) -> int:
        """Bytes of audio that are not with the model."""
        return sum(lane.waiting for lane in self._lanes)

    @property
    def heard_ms(self) -> int:
        """What the model has acknowledged in every one of them."""
        return min((lane.heard_ms for lane in self._lanes), default=0)

    @property
    def told_ms(self) -> int:
        """What the client knows of every one of them."""
        return min((lane.told_ms for lane in self._lanes), default=0)

    @property
    def flushed(self) -> int:
        """How many flushes the model has answered in every one of them."""
        return min((lane.flushed for lane in self._lanes), default=0)

    @property
    def unrecognised_ms(self) -> int:
        """The audio that is not in a final and may never be, where it is most."""
        return max((lane.unrecognised_ms for lane in self._lanes), default=0)

    def exceeds(self, mark: int) -> bool:
        """Whether more audio waits in one of them than `mark` bytes, or than flushes are remembered."""
        return any(lane.exceeds(mark) for lane in self._lanes)

    def hopeless_at(self, limit_s: float) -> float | None:
        """When the model has been missed in one of them for so long that nothing is expected any more."""
        return _first(lane.hopeless_at(limit_s) for lane in self._lanes)

    def due_at(self) -> float | None:
        """When one of them may have a request although nothing came; None if only an event can help."""
        return _first(lane.due_at() for lane in self._lanes)

    def add(self, blocks: Iterable[npt.NDArray[np.int16]]) -> None:
        """Audio for each of them."""
        for lane, block in zip(self._lanes, blocks, strict=True):
            lane.add(block.tobytes())

    def flush(self) -> None:
        """Everything added so far is to become final."""
        for lane in self._lanes:
            lane.flush()

    def finish(self) -> None:
        """What was added is all."""
        for lane in self._lanes:
            lane.finish()

    def drop(self) -> None:
        """Nobody waits for their words any more."""
        for lane in self._lanes:
            lane.drop()

    def tell(self, audio_ms: int) -> None:
        """The client knows so much of the session."""
        for lane in self._lanes:
            lane.told_ms = max(lane.told_ms, audio_ms)

    def requests(self, now: float, *, hold: bool) -> list[tuple[int, Request]]:
        """The next requests with the numbers of their lanes; at most one is under way in each. `hold`: no audio."""
        asked = ((number, lane.request(now, hold=hold)) for number, lane in enumerate(self._lanes))
        return [(number, request) for number, request in asked if request is not None]


def _first(times: Iterable[float | None]) -> float | None:
    return min((at for at in times if at is not None), default=None)
