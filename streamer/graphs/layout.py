"""The layout of a streaming encoder: its windows of feature frames, and where its states keep their streams."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from streamer.graphs.languages import Languages
from streamer.graphs.onnx_file import ElementType, Port
from streamer.text.counts import counted

FRAME_MS = 10  # the time between two feature frames
FRAME_SHIFT = 160  # the same in samples, at 16 kHz
FRAME_LENGTH = 400
FRAME_LEAD = 120  # how far the first feature frame reaches back before the first sample


class LayoutError(ValueError):
    """The graph is not what its metadata says, or cannot serve several streams. The message follows the file's name."""


class Features(Enum):
    """The kinds of input that graphs take."""

    KALDI = "kaldi"  # those with which icefall trains
    NEMO = "nemo"
    TELEPHONE = "telephone"  # the samples themselves, at 8 kHz


class Given(Enum):
    """The kinds of numbers that a graph takes for each stream beside its features and states."""

    WINDOW = "window"  # the number of frames in the window
    AGE = "age"  # the number of feature frames in all earlier steps of the stream
    LANGUAGE = "language"  # the number of the language of the stream


@dataclass(frozen=True)
class StatePort:
    """One state of the encoder: the input that takes it, its shape, and the axis of the streams.

    `output`: the name of the output with its new value.
    """

    input: Port
    shape: tuple[int, ...]  # with 1 for the streams
    axis: int
    output: str


StateShape = tuple[ElementType, tuple[int, ...], int]
"""The type of a state, its shape with 1 for the streams, and the axis of the streams."""


@dataclass(frozen=True)
class EncoderLayout:
    """The inputs and outputs of an encoder.

    Each window has `window` feature frames of `mels` numbers, and begins `step` frames after the last window. For each
    window, `output` has `frames` frames of `units` numbers (None if the file does not say how many). The first input
    takes the features. If they are `upright`, each column is a frame, otherwise each row is one; `output_upright` says
    the same of the output. `given`: the other inputs that are no states. `languages`: a stream may choose one of them.
    """

    window: int
    step: int
    mels: int
    frames: int
    units: int | None
    output: str
    states: tuple[StatePort, ...]
    features: Features = Features.KALDI
    upright: bool = False
    output_upright: bool = False
    given: tuple[tuple[Port, Given], ...] = ()
    languages: Languages | None = None

    @property
    def step_samples(self) -> int:
        """The number of samples between the beginnings of two windows."""
        return self.step * FRAME_SHIFT

    @property
    def state_bytes(self) -> int:
        """The bytes of memory for the states of one stream."""
        return sum(state.input.type.width * math.prod(state.shape) for state in self.states)

    @property
    def ahead_samples(self) -> int:
        """The number of samples after a step that the step's window needs too."""
        return (self.window - 1) * FRAME_SHIFT + FRAME_LENGTH - FRAME_LEAD - self.step_samples


class Metadata:
    """The numbers in the metadata of a graph."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def whole(self, key: str) -> int:
        """Return a positive number. Raise LayoutError if the metadata has none."""
        numbers = self.wholes(key)
        if len(numbers) != 1:
            raise LayoutError(f"has {self._values[key]!r} as {key} in its metadata, which must be one number")
        return numbers[0]

    def wholes(self, key: str, count: int | None = None) -> list[int]:
        """Return positive numbers, which commas separate. Raise LayoutError if there are none, or not `count`."""
        text = self._values.get(key)
        if text is None:
            raise LayoutError(f"has no {key} in its metadata")
        parts = [part.strip() for part in text.split(",")]
        if not all(part.isdecimal() and 0 < int(part) < 1_000_000 for part in parts):
            raise LayoutError(f"has {text[:80]!r} as {key} in its metadata, which must be positive numbers")
        if count is not None and len(parts) != count:
            raise LayoutError(f"has {len(parts)} numbers as {key} in its metadata, but {count} stacks of layers")
        return [int(part) for part in parts]


def check_port(port: Port, type_: ElementType, shape: Sequence[int | None], streams: int) -> None:
    """Check the type and the shape of an input or output. None means any size. `streams`: the axis of the streams."""
    if port.type is not type_:
        raise LayoutError(f"has {port.name} of the type {port.type.name.lower()}, not {type_.name.lower()}")
    if port.shape is None:
        raise LayoutError(f"does not say which shape {port.name} has")
    if len(port.shape) != len(shape):
        raise LayoutError(f"has {port.name} with {len(port.shape)} dimensions, not {len(shape)} as its metadata says")
    batch = port.shape[streams]
    if isinstance(batch, int):
        reason = f"{port.name} has a fixed batch: export it with a dynamic batch"
        raise LayoutError(f"computes exactly {counted(batch, 'stream')} at a time, because {reason}")
    for axis, (size, expected) in enumerate(zip(port.shape, shape, strict=True)):
        if axis != streams and expected is not None and isinstance(size, int) and size != expected:
            raise LayoutError(f"has {port.name} of the size {size}, where its metadata says {expected}")


def matching_states(inputs: Sequence[Port], outputs: Sequence[Port], expected: Sequence[StateShape]) -> list[StatePort]:
    """Return the states of these inputs and outputs, by position. Raise LayoutError if they differ from `expected`."""
    if len(inputs) != len(expected) or len(outputs) != len(expected):
        counts = f"{len(inputs)} states that go in and {len(outputs)} that come out"
        raise LayoutError(f"has {counts}, not {len(expected)} as its metadata says")
    states = []
    for port, result, (type_, shape, axis) in zip(inputs, outputs, expected, strict=True):
        check_port(port, type_, shape, axis)
        if result.type is not type_:
            raise LayoutError(f"has {result.name} of the type {result.type.name.lower()}, not {type_.name.lower()}")
        states.append(StatePort(port, shape, axis, result.name))
    return states
