"""Reads a running segment again and again while it grows, so that its partials have the words of a reader.

Words on which two readings in a row agree are kept: no later reading of the segment takes them back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from streamer.engine.reader.reader_pass import HeardSegment, ReaderPass, words_as_read
from streamer.engine.reader.reading import ReadingOptions
from streamer.engine.reader.segment_reader import PendingReading, ReaderError
from streamer.engine.search.search import Hypothesis, HypothesisWord

if TYPE_CHECKING:
    from streamer.engine.reader.reading import Reading

# A segment is read again when it has grown by this.
GROWTH_MS: Final = 640
# The words that end this shortly before the end of a reading may become others when more is heard.
_UNSURE_MS: Final = 1000

Words = tuple[HypothesisWord, ...]


class GrowingSegment:
    """The readings of the running segment of one stream."""

    def __init__(self, reader_pass: ReaderPass, options: ReadingOptions) -> None:
        """`options`: how the reader reads; with `times`, its words are taken as they are."""
        self._pass, self._options = reader_pass, options
        self.took_s = 0.0  # the time of the last reading
        self.begin()

    def begin(self) -> None:
        """Begin the next segment. A reading that is under way is not awaited."""
        self._words: Words = ()
        self._kept: Words = ()
        self._pending: PendingReading | None = None
        self._heard: HeardSegment | None = None
        self._samples, self._begun_at = 0, float("-inf")

    @property
    def busy(self) -> bool:
        """Whether a reading is under way."""
        return self._pending is not None and not self._pending.ready()

    @property
    def begun_at(self) -> float:
        """When the last reading began."""
        return self._begun_at

    @property
    def ready(self) -> bool:
        """Whether there is a place for a reading."""
        reader = self._pass.reader
        return reader.present and reader.ready()

    def has_grown(self, samples: int, sample_rate: int) -> bool:
        """Return whether a segment of this length should be read again."""
        return self._pending is None and samples - self._samples >= GROWTH_MS * sample_rate // 1000

    def read(self, segment: HeardSegment, now: float) -> None:
        """Begin to read the segment so far. There must be a place."""
        self._samples, self._begun_at, self._heard = len(segment.samples), now, segment
        words = () if self._options.times else [word.text for word in segment.words]
        self._pending = self._pass.reader.begin(segment.samples, segment.pauses, words, self._options)

    def take(self, now: float) -> bool:
        """Take a reading that is there. Return whether one was."""
        if self._pending is None or not self._pending.ready():
            return False
        pending, heard, self._pending = self._pending, self._heard, None
        self.took_s = now - self._begun_at
        assert heard is not None
        try:
            words = self._words_of(pending.result(), heard)
        except ReaderError:
            return True
        words = follow(self._kept, words)
        sure_until = (len(heard.samples) / heard.frame_samples) - _UNSURE_MS / heard.frame_ms
        sure = [word for word in words if word.end <= sure_until]
        agreed = 0
        for one, other in zip(self._words, sure, strict=False):
            if one.text != other.text:
                break
            agreed += 1
        self._words = words
        self._kept = words[: max(agreed, len(self._kept))]
        return True

    def hypothesis(self, first: Hypothesis) -> Hypothesis:
        """Return what was read; beside a first pass only what is kept, with its words after that. That is stable."""
        words = self._words if self._options.times else follow(self._kept, first.words)
        return Hypothesis(words, len(self._kept))

    def final(self, words: Words) -> Words:
        """Return the words of the ended segment, after those that are kept."""
        return follow(self._kept, words)

    def _words_of(self, reading: Reading, heard: HeardSegment) -> Words:
        return words_as_read(reading, heard.frame_ms) if self._options.times else self._pass.words_of(reading, heard)


def follow(kept: Words, words: Words) -> Words:
    """Return these words, beginning with those that are kept. A word that is mostly later comes after them."""
    if [word.text for word in words[: len(kept)]] == [word.text for word in kept]:
        return words
    return (*kept, *(word for word in words if word.start + word.end >= 2 * kept[-1].end))


class GrowingStream(Protocol):
    """A stream whose running segment may be read while it grows."""

    @property
    def growing(self) -> GrowingSegment | None:
        """Its readings; None if it wants none."""

    @property
    def wants_reading(self) -> bool:
        """Whether its running segment should be read now."""

    def read_growing(self, now: float) -> None:
        """Begin to read its running segment."""


class Growing:
    """Decides which running segment is read next: one at a time, and only if no ended segment waits.

    After a reading, the reader has as much time for itself as it took.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._now = clock
        self._rest_until = float("-inf")

    def go_on(self, streams: Sequence[GrowingStream], others: Iterable[GrowingStream], *, waiting: bool) -> None:
        """Take what was read for these streams, and begin one reading if that is possible.

        `others`: all streams. `waiting`: whether ended segments wait for the reader.
        """
        now = self._now()
        for stream in streams:
            if stream.growing is not None and stream.growing.take(now):
                self._rest_until = max(self._rest_until, now + stream.growing.took_s)
        if waiting or now < self._rest_until:
            return
        wishes = [(stream, stream.growing) for stream in streams if stream.growing is not None and stream.wants_reading]
        if not wishes or any(other.growing is not None and other.growing.busy for other in others):
            return
        stream, growing = min(wishes, key=lambda wish: wish[1].begun_at)
        if growing.ready:
            stream.read_growing(now)
