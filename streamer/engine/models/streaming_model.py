"""The interface of a streaming model, so that another model can take the place of the shipped one.

A model computes with any library of arrays: the shipped one with torch, the exact one of the tests with numpy alone.
The recogniser hands its arrays on to the searches without a look into them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Array = Any
"""An array of the library with which the model computes."""

ModelState = dict[str, Array]
"""The state of all slots. An axis of every array counts the slots: the first one, unless the model says another."""

Emissions = dict[str, Array]
"""What each head says about every frame: [batch, frames, units]. Mostly log-probabilities; its search knows."""

ACTIVITY = "activity"
"""The head with one unit: the log-probability that somebody speaks. A model need not have it."""


class StreamingModel(Protocol):
    """Turns steps of audio into emissions, and keeps the state of each stream in a slot.

    `step_ms`: the steps from which a stream may choose. `ahead_samples`: how many samples after each step it reads as
    well. They come again with the next step. 0 means that steps do not overlap.

    `writes`: its words have marks, capitals and figures already, so no stage of the written form changes them.
    """

    name: str
    writes: bool
    sample_rate: int
    frame_samples: int
    step_ms: tuple[int, ...]
    ahead_samples: int

    def make_state(self, slots: int) -> ModelState:
        """A fresh state for this many slots."""
        ...

    def reset(self, state: ModelState, slots: Sequence[int]) -> None:
        """Clear these slots; nothing remains of the streams that used them."""
        ...

    def step(self, state: ModelState, slots: Sequence[int], samples: NDArray[np.int16]) -> Emissions:
        """Compute one step of audio for each of these slots: [batch, samples], with the samples ahead at the end."""
        ...


@runtime_checkable
class TwoPass(Protocol):
    """What a streaming model offers as well if it can compute a whole segment at once, when all of it is known."""

    def whole(self, samples: NDArray[np.int16]) -> Emissions:
        """The emissions of a segment, [1, frames, units]. Each frame knows of those after it, for up to `WHOLE_MS`."""
        ...


class SlotNetwork(Protocol):
    """A network that a model is made of. It keeps what it needs of the past of each stream in a slot."""

    def make_state(self, slots: int) -> ModelState:
        """A fresh state for this many slots."""
        ...

    def step(self, state: ModelState, slots: Array, inputs: Array, /) -> Array:
        """What follows for each of these slots from its next inputs: [batch, ...]."""
        ...


class SegmentNetwork(SlotNetwork, Protocol):
    """One that can compute whole segments as well."""

    def whole(self, inputs: Array) -> Array:
        """What follows from the inputs of one segment, [1, ...], in the longest steps that there are."""
        ...


@runtime_checkable
class Glancing(Protocol):
    """What a streaming model offers as well if it can detect speech in the beginning of a step."""

    def glance(self, state: ModelState, slot: int, samples: NDArray[np.int16]) -> list[float]:
        """The probabilities of speech in the frames after the last step of this slot. The state stays as it is."""
        ...


@runtime_checkable
class Multilingual(Protocol):
    """What a streaming model of several languages offers as well: each stream may choose one of these.

    Without `languages`, a stream has no choice.
    """

    languages: tuple[str, ...]

    def has_language(self, language: str) -> bool:
        """Whether a stream may choose this language, in any spelling that the model knows."""
        ...

    def set_language(self, state: ModelState, slots: Sequence[int], language: str) -> None:
        """Tell the model which language is spoken in these slots. They keep it when they are reset."""
        ...
