"""What is true of all streams of one session together. Pure."""

from __future__ import annotations

import collections.abc
from collections.abc import Iterable, Iterator

from streamer.bridge.session.stream import UNOPENED, SequenceState, Stream


class StreamGroup(collections.abc.Collection[Stream]):
    """One stream for each channel that is recognised on its own; none before the session has begun."""

    def __init__(self) -> None:
        self._streams: list[Stream] = []

    def begin(self, number: int, step_ms: int, refresh_s: float, now: float) -> None:
        """So many of them, from now on."""
        self._streams = [Stream(step_ms, refresh_s, now, each) for each in range(number)]

    def __len__(self) -> int:
        return len(self._streams)

    def __iter__(self) -> Iterator[Stream]:
        return iter(self._streams)

    def __contains__(self, stream: object) -> bool:
        return stream in self._streams

    def __getitem__(self, number: int) -> Stream:
        return self._streams[number]

    @property
    def opening(self) -> bool:
        """Whether one of them may still be refused its sequence."""
        return any(stream.sequence in UNOPENED for stream in self._streams)

    @property
    def opened(self) -> bool:
        """Whether all of them have a sequence that was accepted and is not ended."""
        return all(stream.sequence is SequenceState.OPEN for stream in self._streams)

    @property
    def ended(self) -> bool:
        """Whether the model has said its last word in all of them."""
        return all(stream.sequence is SequenceState.ENDED for stream in self._streams)

    @property
    def over(self) -> bool:
        """Whether nothing is under way in any of them, and nothing is left to end."""
        return all(stream.over for stream in self._streams)

    @property
    def full(self) -> bool:
        """Whether one of them should be given no audio for now."""
        return any(stream.full for stream in self._streams)

    @property
    def computing(self) -> bool:
        """Whether audio of one of them is with the model, or would be if there were one."""
        return any(stream.computing for stream in self._streams)

    @property
    def missed(self) -> bool:
        """Whether one of them has lost its sequence and is not yet where it was."""
        return any(stream.lost_at is not None for stream in self._streams)

    @property
    def waiting(self) -> int:
        """Bytes of audio that are not with the model."""
        return sum(stream.waiting for stream in self._streams)

    @property
    def heard_ms(self) -> int:
        """What the model has acknowledged in every one of them."""
        return min((stream.heard_ms for stream in self._streams), default=0)

    @property
    def failure(self) -> str:
        """Why one of them misses its model; empty while none does."""
        return next((stream.failure for stream in self._streams if stream.failure), "")

    @property
    def unrecognised_ms(self) -> int:
        """The audio that is not in a final and may never be, where it is most."""
        return max((stream.unrecognised_ms for stream in self._streams), default=0)

    def exceeds(self, mark: int) -> bool:
        """Whether more audio waits in one of them than `mark` bytes, or than flushes are remembered."""
        return any(stream.exceeds(mark) for stream in self._streams)

    def hopeless_at(self, limit_s: float) -> float | None:
        """When the model has been missed in one of them for so long that nothing is expected any more."""
        return _first(stream.hopeless_at(limit_s) for stream in self._streams)

    def due_at(self) -> float | None:
        """When one of them may have a request although nothing came; None if only an event can help."""
        return _first(stream.due_at() for stream in self._streams)

    def flush(self) -> None:
        """Everything added so far is to become final."""
        for stream in self._streams:
            stream.flush()

    def finish(self) -> None:
        """What was added is all."""
        for stream in self._streams:
            stream.finish()

    def drop(self) -> None:
        """Nobody waits for their words any more."""
        for stream in self._streams:
            stream.drop()


def _first(times: Iterable[float | None]) -> float | None:
    return min((at for at in times if at is not None), default=None)
