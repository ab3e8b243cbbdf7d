"""The layout of a streaming encoder: its windows of feature frames, and where its states keep their streams."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from streamer.graphs.languages import Languages
from streamer.graphs.onnx_file import ElementType, Port
from streamer.text.counts import counted

FRAME_MS = 10  # between two feature frames
FRAME_SHIFT = 160  # the same in samples, at 16 kHz
FRAME_LENGTH = 400
FRAME_LEAD = 120  # how far the first feature frame reaches back before the first sample


class LayoutError(ValueError):
    """The graph is not what its metadata says, or cannot serve several streams. The message goes on after its file."""


class Features(Enum):
    """What a graph hears."""

    KALDI = "kaldi"  # as icefall trains with them
    NEMO = "nemo"
    TELEPHONE = "telephone"  # the samples themselves, at 8 kHz


class Given(Enum):
    """A number for each stream that a graph takes beside its features and states."""

    WINDOW = "window"  # the frames of the window
    AGE = "age"  # the feature frames of the steps before, since the stream began
    LANGUAGE = "language"  # the number of the language of the stream


@dataclass(frozen=True)
class StatePort:
    """One state of the encoder: the input that takes it, its shape, and the axis of it that counts the streams.

    `output` is the name of its new value.
    """

    input: Port
    shape: tuple[int, ...]  # with 1 for the streams
    axis: int
    output: str


StateShape = tuple[ElementType, tuple[int, ...], int]
"""What a state must be: its type, its shape with 1 for the streams, and the axis that counts them."""


@dataclass(frozen=True)
class EncoderLayout:
    """How an encoder is fed.

    Each window has `window` feature frames of `mels` numbers, and begins `step` frames after the one before. It gives
    `frames` frames of `units` numbers (None if the file does not say how many) as `output`. The first input takes the
    features. If they are `upright`, each column is a frame, otherwise each row; `output_upright` says the same of the
    frames. `given` are the other inputs that are no states. `languages` are those of which a stream may choose one.
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
        """The samples between the beginnings of two windows."""
        return self.step * FRAME_SHIFT

    @property
    def state_bytes(self) -> int:
        """The memory that the states of one stream take."""
        return sum(state.input.type.width * math.prod(state.shape) for state in self.states)

    @property
    def ahead_samples(self) -> int:
        """The samples after a step that its window needs as well."""
        return (self.window - 1) * FRAME_SHIFT + FRAME_LENGTH - FRAME_LEAD - self.step_samples


class Metadata:
    """The numbers in the metadata of a graph."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def whole(self, key: str) -> int:
        """One positive number."""
        found = self.wholes(key)
        if len(found) != 1:
            raise LayoutError(f"has {self._values[key]!r} as {key} in its metadata, which must be one number")
        return found[0]

    def wholes(self, key: str, count: int | None = None) -> list[int]:
        """Positive numbers with commas between them, `count` of them if that is given."""
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
    """Check the type and the shape of an input or output; None is any size. `streams` is the axis of the streams."""
    if port.type is not type_:
        raise LayoutError(f"has {port.name} of the type {port.type.name.lower()}, not {type_.name.lower()}")
    if port.shape is None:
        raise LayoutError(f"does not say which shape {port.name} has")
    if len(port.shape) != len(shape):
        raise LayoutError(f"has {port.name} with {len(port.shape)} dimensions, not {len(shape)} as its metadata says")
    batch = port.shape[streams]
    if isinstance(batch, int):
        raise LayoutError(
            f"computes exactly {counted(batch, 'stream')} at a time, because {port.name} has a fixed batch: "
            "export it with a dynamic batch"
        )
    for axis, (found, expected) in enumerate(zip(port.shape, shape, strict=True)):
        if axis != streams and expected is not None and isinstance(found, int) and found != expected:
            raise LayoutError(f"has {port.name} of the size {found}, where its metadata says {expected}")


def matching_states(inputs: Sequence[Port], outputs: Sequence[Port], expected: Sequence[StateShape]) -> list[StatePort]:
    """The states that these inputs take and these outputs give, by position: types, shapes, axes of the streams."""
    if len(inputs) != len(expected) or len(outputs) != len(expected):
        raise LayoutError(
            f"has {len(inputs)} states that go in and {len(outputs)} that come out, not {len(expected)} as its "
            "metadata says"
        )
    found = []
    for port, result, (type_, shape, axis) in zip(inputs, outputs, expected, strict=True):
        check_port(port, type_, shape, axis)
        if result.type is not type_:
            raise LayoutError(f"has {result.name} of the type {result.type.name.lower()}, not {type_.name.lower()}")
        found.append(StatePort(port, shape, axis, result.name))
    return found
