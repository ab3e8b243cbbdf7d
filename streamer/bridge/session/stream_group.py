"""All streams of one session together. Pure."""

from __future__ import annotations

import collections.abc
from collections.abc import Iterable, Iterator, Sequence

from streamer.bridge.session.stream import UNOPENED, SequenceState, Stream
from streamer.wire.text_context import TextContext


class StreamGroup(collections.abc.Collection[Stream]):
    """One stream for each channel that is recognised separately; none before `start`."""

    def __init__(self) -> None:
        self._streams: list[Stream] = []

    def begin(
        self, number: int, step_ms: int, refresh_s: float, now: float, contexts: Sequence[TextContext | None] = ()
    ) -> None:
        """Make this number of streams. `contexts`: the words before the audio of each, as far as they are known."""
        context_of = dict(enumerate(contexts))
        self._streams = [Stream(step_ms, refresh_s, now, each, context_of.get(each)) for each in range(number)]

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
        """Whether the model may still refuse a stream's sequence."""
        return any(stream.sequence in UNOPENED for stream in self._streams)

    @property
    def opened(self) -> bool:
        """Whether all streams have an open sequence."""
        return all(stream.sequence is SequenceState.OPEN for stream in self._streams)

    @property
    def ended(self) -> bool:
        """Whether the sequences of all streams have ended."""
        return all(stream.sequence is SequenceState.ENDED for stream in self._streams)

    @property
    def over(self) -> bool:
        """Whether no stream has a request under way or a sequence to end."""
        return all(stream.over for stream in self._streams)

    @property
    def full(self) -> bool:
        """Whether a stream should get no audio for now."""
        return any(stream.full for stream in self._streams)

    @property
    def computing(self) -> bool:
        """Whether a stream has a request with audio under way, or an outage delays one."""
        return any(stream.computing for stream in self._streams)

    @property
    def interrupted(self) -> bool:
        """Whether a stream has an outage: it lost its sequence and has not caught up."""
        return any(stream.lost_at is not None for stream in self._streams)

    @property
    def waiting(self) -> int:
        """The bytes of audio that wait to be sent to the model, in all streams together."""
        return sum(stream.waiting for stream in self._streams)

    @property
    def heard_ms(self) -> int:
        """The audio that the model has acknowledged in all streams."""
        return min((stream.heard_ms for stream in self._streams), default=0)

    @property
    def failure(self) -> str:
        """The reason of a stream's outage; empty if there is none."""
        return next((stream.failure for stream in self._streams if stream.failure), "")

    @property
    def unrecognised_ms(self) -> int:
        """The audio that is not in a final yet, in the stream that has the most of it."""
        return max((stream.unrecognised_ms for stream in self._streams), default=0)

    def exceeds(self, mark: int) -> bool:
        """Return whether more than `mark` bytes, or too many flushes, wait in a stream."""
        return any(stream.exceeds(mark) for stream in self._streams)

    def hopeless_at(self, limit_s: float) -> float | None:
        """Return the time at which an outage of a stream will have lasted too long without progress."""
        return _first(stream.hopeless_at(limit_s) for stream in self._streams)

    def due_at(self) -> float | None:
        """Return when a stream may have a request if nothing happens before; None if none can have one."""
        return _first(stream.due_at() for stream in self._streams)

    def flush(self) -> None:
        """Make all audio added so far final."""
        for stream in self._streams:
            stream.flush()

    def finish(self) -> None:
        """End the sequences after all audio that was added."""
        for stream in self._streams:
            stream.finish()

    def drop(self) -> None:
        """End the sequences without the waiting audio."""
        for stream in self._streams:
            stream.drop()


def _first(times: Iterable[float | None]) -> float | None:
    return min((at for at in times if at is not None), default=None)
