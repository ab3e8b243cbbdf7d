"""The interface of a streaming model, so that other models can replace the shipped one.

A model keeps its state in arrays of any library, where it computes: those of numpy on a CPU, those of torch on a GPU.
What it gives are arrays of numpy. The recogniser passes the emissions to the searches and does not read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from streamer.engine.waiting import Work

Floats = NDArray[np.float32]

Array = Any
"""An array of the library with which the model computes."""

ModelState = dict[str, Array]
"""The state of all slots. One axis of every array counts the slots: the first one, unless the model uses another."""

Emissions = dict[str, Array]
"""The output of each head for every frame, mostly log-probabilities: [batch, frames, units]. Its search reads it."""

ACTIVITY = "activity"
"""The head with the log-probability that somebody speaks, as its only unit. Not all models have it."""


class StreamingModel(Protocol):
    """Turns steps of audio into emissions, and keeps the state of each stream in a slot.

    `step_ms` has the steps from which a stream may choose. `ahead_samples` is how many samples after each step the
    model reads with it. They come again with the next step. 0 means that steps do not overlap.

    `writes`: the words already have marks, capitals and figures, so no stage of the written form changes them.
    """

    name: str
    writes: bool
    sample_rate: int
    frame_samples: int
    step_ms: tuple[int, ...]
    ahead_samples: int

    def make_state(self, slots: int) -> ModelState:
        """Return a fresh state for this many slots."""
        ...

    def reset(self, state: ModelState, slots: Sequence[int]) -> None:
        """Clear these slots, so that nothing remains of the streams that used them."""
        ...

    def step(self, state: ModelState, slots: Sequence[int], samples: NDArray[np.int16]) -> Emissions:
        """Compute one step of audio for each of these slots: [batch, samples], with the samples ahead at the end."""
        ...


@runtime_checkable
class Concurrent(Protocol):
    """A streaming model that may compute several batches at a time, each with other slots, and so may its searches."""

    @property
    def concurrent(self) -> bool:
        """Whether it may, on its device."""
        ...


@runtime_checkable
class TwoPass(Protocol):
    """A streaming model that can also compute a complete segment."""

    def whole(self, samples: NDArray[np.int16]) -> Work[Emissions]:
        """Return the emissions of a segment, [1, frames, units]. Each frame depends on later ones, up to `WHOLE_MS`."""
        ...


class SlotNetwork(Protocol):
    """A network that is a part of a model. Its slots have the past of each stream that it needs."""

    def make_state(self, slots: int) -> ModelState:
        """Return a fresh state for this many slots."""
        ...

    def step(self, state: ModelState, slots: Sequence[int], inputs: Floats, /) -> Floats:
        """Return the output for the next inputs of each of these slots: [batch, ...]."""
        ...


class FrameReader(Protocol):
    """What computes the heads that read the frames of an encoder."""

    def emissions(self, frames: Floats) -> Emissions:
        """Return the log-probabilities of the heads that read these frames, [batch, frames, units]."""
        ...


class EnergyFeatures(Protocol):
    """Computes the energies of samples."""

    @property
    def mels(self) -> int:
        """The number of energies of a frame."""
        ...

    @property
    def hop(self) -> int:
        """The samples from one frame to the next."""
        ...

    @property
    def context(self) -> int:
        """How many samples before the first hop its frame needs."""
        ...

    def energies(self, samples: Floats) -> Floats:
        """Return the energies [batch, hops, mels] of samples in [-1, 1), with those before the first hop."""
        ...


@runtime_checkable
class Glancing(Protocol):
    """A streaming model that can also detect speech in the beginning of a step."""

    def glance(self, state: ModelState, slot: int, samples: NDArray[np.int16]) -> list[float]:
        """Return the probabilities of speech in the frames after the last step of this slot. Change no state."""
        ...


@runtime_checkable
class Multilingual(Protocol):
    """A streaming model of several languages, from which each stream may choose one.

    If `languages` is empty, a stream has no choice.
    """

    languages: tuple[str, ...]

    def has_language(self, language: str) -> bool:
        """Return whether a stream may choose this language, in any spelling that the model knows."""
        ...

    def set_language(self, state: ModelState, slots: Sequence[int], language: str) -> None:
        """Tell the model which language is spoken in these slots. They keep it when they are reset."""
        ...
