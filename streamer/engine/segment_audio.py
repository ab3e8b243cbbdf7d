"""The audio of a stream since the last cut, divided into the steps that a model computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

BYTES_PER_SAMPLE = 2
# The model emits words with a delay. Faint noise of this length after the last sample makes it emit the last words.
TAIL_MS = 320
# The number of pieces in a step. The detector of speech reads each piece when it arrives, before the step is complete.
PIECES = 4
# Noise instead of zeros, because models are poor at exact silence. It is constant, so a replay gives the same words.
_TAIL = np.random.default_rng(0).integers(-4, 5, 16_000, dtype=np.int16)


@dataclass(frozen=True)
class TimeScale:
    """Converts between samples, emission frames and milliseconds."""

    sample_rate: int
    frame_samples: int

    @property
    def frame_ms(self) -> float:
        return 1000 * self.frame_samples / self.sample_rate

    def samples(self, milliseconds: int) -> int:
        return milliseconds * self.sample_rate // 1000

    def ms(self, samples: int) -> int:
        return samples * 1000 // self.sample_rate


@dataclass(frozen=True)
class FreshStart:
    """The sample from which an encoder in another model must compute again. `run` counts these from 1 after START."""

    sample: int
    run: int


class Supply(Protocol):
    """The steps of one stream that can be computed: cut from its audio, or encoded by another model before."""

    received: int  # samples of the stream that have arrived
    base: int  # the sample at which the running segment starts
    computed: int  # samples of the running segment that were computed, with the tail
    glances: bool  # whether the beginning of a step can be looked at before the step is complete
    glance: int  # the number of samples of the next step that the stream wants to look at first; 0 for none

    def next_piece(self) -> Any | None:
        """Return the next piece for the detector of speech; None if none has arrived that ends before the next step."""

    def next_glance(self) -> Any | None:
        """Return the part of the next step that the stream wants to look at first; None if it has not arrived."""

    @property
    def again(self) -> FreshStart | None:
        """The place from which another model must compute again before more steps can come; None if there is none."""

    def append(self, content: Any) -> None:
        """Add content that has arrived."""

    def next_step(self, flushing: bool) -> Any | None:
        """Return the next step; None while it is not complete. `flushing`: no more audio comes for now."""

    def advance(self) -> None:
        """Note that the next step was computed."""

    def begin_at(self, sample: int) -> None:
        """Begin the next segment at this sample."""


@runtime_checkable
class WholeSegments(Protocol):
    """A supply that has the audio of the whole running segment, so that it can be computed or read once more."""

    def segment(self) -> NDArray[np.int16]:
        """Return the samples of all steps of the running segment that were computed."""


class Pieces:
    """The audio of a stream in short pieces. The first piece begins at the start of the stream."""

    def __init__(self, samples: int) -> None:
        """`samples`: the length of each piece."""
        self.samples = samples
        self.taken = 0  # samples of the stream in the pieces so far
        self._audio = bytearray()  # the audio after them

    def append(self, samples: NDArray[np.int16]) -> None:
        """Append audio."""
        self._audio += samples.tobytes()

    def next(self, until: int) -> NDArray[np.int16] | None:
        """Take the next piece; None if it has not arrived, or ends after this sample of the stream."""
        size = self.samples * BYTES_PER_SAMPLE
        if self.taken + self.samples > until or len(self._audio) < size:
            return None
        piece = np.frombuffer(bytes(self._audio[:size]), dtype=np.int16)
        del self._audio[:size]
        self.taken += self.samples
        return piece


def piece_samples(step_samples: int, frame_samples: int) -> int:
    """Return the length of a piece for streams with this step: whole frames."""
    return max(1, round(step_samples / (PIECES * frame_samples))) * frame_samples


class SegmentAudio:
    """Supplies steps of int16 samples."""

    again = None  # this supply has the audio, so steps after a cut are computed at once

    def __init__(
        self,
        time_scale: TimeScale,
        step_samples: int,
        ahead_samples: int = 0,
        pieces: Pieces | None = None,
        *,
        glances: bool = False,
    ) -> None:
        """`ahead_samples`: how many samples after a step the model reads with it. `pieces`: those for a detector."""
        self.glances, self.glance = glances, 0
        self.received = self.base = self.computed = 0
        self._time_scale, self._step, self._ahead = time_scale, step_samples, ahead_samples
        self._audio = bytearray()  # of the running segment
        self._pieces = pieces

    @property
    def held(self) -> int:
        """The number of samples of the running segment that have arrived."""
        return len(self._audio) // BYTES_PER_SAMPLE

    def append(self, samples: NDArray[np.int16]) -> None:
        """Append audio."""
        self._audio += samples.tobytes()
        self.received += len(samples)
        if self._pieces is not None:
            self._pieces.append(samples)

    def next_piece(self) -> NDArray[np.int16] | None:
        """Return the next piece; None if none has arrived that ends before the next step, or before the next glance."""
        if self._pieces is None:
            return None
        return self._pieces.next(self.base + self.computed + (self.glance or self._step + self._ahead))

    def next_glance(self) -> NDArray[np.int16] | None:
        """Return the part of the next step that the stream wants to look at first; None if it has not arrived."""
        end = self.computed + self.glance
        return self._samples(self.computed, end) if self.glance and end <= self.held else None

    def next_step(self, flushing: bool) -> NDArray[np.int16] | None:
        """Return the samples of the next step and those ahead of it; None while there are too few."""
        end, held = self.computed + self._step, self.held
        if end + self._ahead <= held:
            return self._samples(self.computed, end + self._ahead)
        # No word fits into less than a frame. Without this check, every flush of a few samples would cost two steps.
        if not self.computed and held < self._time_scale.frame_samples:
            return None
        if flushing and held and self.computed < held + self._time_scale.samples(TAIL_MS):
            # Each step has its own padding. The samples ahead must be the same as in the steps that follow.
            whole = range(self.computed, end + self._ahead, self._step)
            return np.concatenate([self._padded(at, min(at + self._step, end + self._ahead)) for at in whole])
        return None

    def advance(self) -> None:
        """Note that the next step was computed."""
        self.computed += self._step

    def segment(self) -> NDArray[np.int16]:
        """Return the samples of all steps of the running segment that were computed."""
        return self._padded(0, self.computed)

    def begin_at(self, sample: int) -> None:
        """Begin the next segment at this sample."""
        del self._audio[: (sample - self.base) * BYTES_PER_SAMPLE]
        self.base, self.computed, self.glance = sample, 0, 0

    def _padded(self, start: int, end: int) -> NDArray[np.int16]:
        """Return these samples, with the tail in place of samples that have not arrived."""
        rest = self._samples(start, end)
        tail: NDArray[np.int16] = np.resize(_TAIL, end - start - len(rest))
        return np.concatenate([rest, tail])

    def _samples(self, start: int, end: int) -> NDArray[np.int16]:
        window = self._audio[start * BYTES_PER_SAMPLE : end * BYTES_PER_SAMPLE]
        return np.frombuffer(window, dtype=np.int16)
