"""The interface between the recogniser and a reader of ended segments, and a reader in the same process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from streamer.engine.reader.reading import Reading, ReadingOptions

if TYPE_CHECKING:
    from streamer.engine.reader.reader import Reader


class ReaderError(Exception):
    """The segment was not read."""


class PendingReading(Protocol):
    """A segment that is being read."""

    def ready(self) -> bool:
        """Return whether the reading is there, or has failed."""

    def result(self) -> Reading:
        """Return the reading. ReaderError if the segment was not read. It must be ready."""


class SegmentReader(Protocol):
    """Reads segments, a few at a time."""

    @property
    def present(self) -> bool:
        """Whether there was a reader a moment ago, as far as is known."""

    @property
    def languages(self) -> tuple[str, ...]:
        """The codes of the languages that it reads."""

    def ready(self) -> bool:
        """Return whether there is a place for another segment."""

    def begin(
        self,
        samples: NDArray[np.int16],
        pauses: Sequence[tuple[int, int]],
        words: Sequence[str],
        options: ReadingOptions,
    ) -> PendingReading:
        """Begin to read a segment at 16 kHz, and to compare it with these words.

        `pauses`: the samples in it where it may be cut if it is too long.
        """


class LocalReader:
    """Reads segments at once, in this process."""

    present = True

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    @property
    def languages(self) -> tuple[str, ...]:
        """The codes of the languages that it reads."""
        return self._reader.languages

    def ready(self) -> bool:
        """Return True, because no segment is under way."""
        return True

    def begin(
        self,
        samples: NDArray[np.int16],
        pauses: Sequence[tuple[int, int]],
        words: Sequence[str],
        options: ReadingOptions,
    ) -> PendingReading:
        """Read a segment."""
        return _Done(self._reader.read(samples, pauses, words, options))


class _Done:
    """A reading that is there."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def ready(self) -> bool:
        return True

    def result(self) -> Reading:
        return self._reading
