"""The layout of a model: the windows and states of its encoder, its languages, its other graphs, and its family."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from itertools import starmap
from pathlib import Path
from typing import Final, cast

from streamer.base.names import same_language
from streamer.base.text import counted
from streamer.models.onnx_file import ElementType, GraphFile, Port, whole_number

FRAME_MS = 10  # the time between two feature frames
FRAME_SHIFT = 160  # the same in samples, at 16 kHz
FRAME_LENGTH = 400
FRAME_LEAD = 120  # how far the first feature frame reaches back before the first sample

# The largest numbers of a model. None that was published comes near them, and a hostile one would take all memory.
MOST_TOKENS: Final = 1_000_000
MOST_STACKS: Final = 100
MOST_LAYERS: Final = 1000
LONGEST_WINDOW: Final = 3000  # frames: 30 s
MOST_MELS: Final = 1000  # numbers in a frame of features
LONGEST_CONTEXT: Final = 64  # tokens
MOST_STATE_BYTES: Final = 64 << 20  # of a stream
_LARGEST: Final = 999_999  # of all other numbers in the metadata


class LayoutError(ValueError):
    """The graph is not what its metadata says, or cannot serve several streams. The message follows the file's name."""


class Features(Enum):
    """The kinds of input that graphs take."""

    KALDI = "kaldi"  # those with which icefall trains
    NEMO = "nemo"
    NEMO_WHOLE = "nemo whole"  # as sherpa-onnx computes them for transducers of NeMo that hear whole utterances
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


@dataclass(frozen=True)
class Surroundings:
    """The audio around a step that is computed with it, in feature frames: `left` again, and `right` ahead of its step.

    If the features are `normalised`, each of their numbers has the mean 0 and the deviation 1 within a window. If
    windows are `alone`, each is computed by itself, because what follows its end would change its last frames.
    """

    left: int
    right: int
    normalised: bool = False
    alone: bool = False


StateShape = tuple[ElementType, tuple[int, ...], int]
"""The type of a state, its shape with 1 for the streams, and the axis of the streams."""


@dataclass(frozen=True)
class EncoderLayout:
    """The inputs and outputs of an encoder.

    Each window has `window` feature frames of `mels` numbers, and begins `step` frames after the last window. For each
    window, `output` has `frames` frames of `units` numbers (None if the file does not say how many). The first input
    takes the features. If they are `upright`, each column is a frame, otherwise each row is one; `output_upright` says
    the same of the output. `given`: the other inputs that are no states. `languages`: a stream may choose one of them.

    A graph without states computes the `surroundings` of a step again: its windows begin with them, and the first ones
    of a segment are shorter. Then `output` has frames for the whole window, of which those of the step count.
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
    surroundings: Surroundings | None = None

    @property
    def step_samples(self) -> int:
        """The number of samples between the beginnings of two windows."""
        return self.step * FRAME_SHIFT

    @property
    def state_bytes(self) -> int:
        """The bytes of memory for the states of one stream, or for its audio that is computed again."""
        left = 0 if self.surroundings is None else self.surroundings.left
        return bytes_of(self.states) + left * FRAME_SHIFT * ElementType.FLOAT16.width

    @property
    def times_computed(self) -> float:
        """How often the encoder computes each moment of audio."""
        return 1.0 if self.surroundings is None else self.window / self.step

    @property
    def ahead_samples(self) -> int:
        """The number of samples after a step that the step's window needs too."""
        if self.surroundings is not None:
            return self.surroundings.right * FRAME_SHIFT
        return (self.window - 1) * FRAME_SHIFT + FRAME_LENGTH - FRAME_LEAD - self.step_samples


class Metadata:
    """The numbers in the metadata of a graph."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def whole(self, key: str) -> int:
        """Return a positive number. Raise LayoutError if the metadata has none."""
        numbers = self.wholes(key)
        if len(numbers) != 1:
            raise LayoutError(f"has {self._values[key][:80]!r} as {key} in its metadata, which must be one number")
        return numbers[0]

    def at_most(self, key: str, most: int) -> int:
        """Return a positive number. Raise LayoutError if it is larger than `most`."""
        number = self.whole(key)
        if number > most:
            raise LayoutError(f"has {number} as {key} in its metadata, which is more than {most}")
        return number

    def layers(self) -> list[int]:
        """Return the number of layers of each stack. Raise LayoutError if there are too many."""
        layers = self.wholes("num_encoder_layers")
        if sum(layers) > MOST_LAYERS:
            raise LayoutError(f"has {sum(layers)} layers by its metadata, which is more than {MOST_LAYERS}")
        return layers

    def wholes(self, key: str, count: int | None = None) -> list[int]:
        """Return positive numbers, which commas separate. Raise LayoutError if there are none, or not `count`."""
        text = self._values.get(key)
        if text is None:
            raise LayoutError(f"has no {key} in its metadata")
        parts = text.split(",", MOST_STACKS)
        if len(parts) > MOST_STACKS:
            raise LayoutError(f"has more than {MOST_STACKS} numbers as {key} in its metadata, which no model has")
        numbers = [number for part in parts if (number := whole_number(part, _LARGEST))]
        if len(numbers) < len(parts):
            raise LayoutError(f"has {text[:80]!r} as {key} in its metadata, which must be positive numbers")
        if count is not None and len(numbers) != count:
            raise LayoutError(f"has {len(numbers)} numbers as {key} in its metadata, but {count} stacks of layers")
        return numbers


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
    size = bytes_of(states)
    if size > MOST_STATE_BYTES:
        raise LayoutError(f"needs {size >> 20} MiB for the state of each stream, and at most 64 MiB are allowed")
    return states


def bytes_of(states: Sequence[StatePort]) -> int:
    """Return the bytes of memory for these states of one stream."""
    return sum(state.input.type.width * math.prod(state.shape) for state in states)


def check_window(window: int, mels: int) -> None:
    """Raise LayoutError for a window that would take far more memory than that of any model."""
    if window > LONGEST_WINDOW:
        raise LayoutError(f"has windows of {window} frames, and the longest that is possible has {LONGEST_WINDOW}")
    if mels > MOST_MELS:
        raise LayoutError(f"has frames of {mels} numbers, and at most {MOST_MELS} are possible")


# The windows of a model without states: how much of the audio around a step is computed with it.

WINDOW_FILE: Final = "window.json"
"""The file in a model's folder with other windows than the usual ones."""


@dataclass(frozen=True)
class WindowTimes:
    """The usual windows, in seconds. The left part is that of Parakeet's own export for streaming.

    The other two are twice those of that export, because most models were not trained to hear so little.
    """

    left: float = 5.6
    step: float = 1.12
    right: float = 1.12


def window_times(folder: Path) -> WindowTimes:
    """Return the windows of the model in this folder: those of its file, or the usual ones.

    Raise LayoutError if the file cannot be used.
    """
    path = folder / WINDOW_FILE
    names = [field.name for field in fields(WindowTimes)]
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return WindowTimes()
    except (OSError, ValueError, RecursionError):
        values = None
    if not isinstance(values, dict) or not values.keys() <= set(names) or not all(map(_is_time, values.values())):
        raise LayoutError(f"has a {WINDOW_FILE} beside it that is no object with seconds for {', '.join(names)}")
    return WindowTimes(**values)


def window_frames(folder: Path, subsampling: int) -> tuple[int, int, int]:
    """Return the feature frames before a step, in it, and after it, which make whole frames of the output.

    Raise LayoutError if the folder has a file with windows that cannot be used.
    """
    times = window_times(folder)
    left, step, right = (
        round(seconds * 1000 / FRAME_MS / subsampling) * subsampling
        for seconds in (times.left, times.step, times.right)
    )
    return left, max(step, subsampling), right


def _is_time(value: object) -> bool:
    return type(value) in (int, float) and 0 <= cast(float, value) * 1000 <= LONGEST_WINDOW * FRAME_MS


# The languages of a model that takes the language as an input, from the metadata of the export.

AUTO: Final = "auto"
"""The choice by which the model itself finds out which language is spoken."""
_AUTO_NUMBER: Final = 101  # the number of AUTO if the metadata does not say it
_MOST_LANGUAGES: Final = 1000
_LONGEST_LANGUAGE: Final = 40  # characters of its name, which goes to clients and pages
_LARGEST_LANGUAGE: Final = (1 << 31) - 1  # the graph may take it as a number of 32 bits


@dataclass(frozen=True)
class Languages:
    """The languages of a model, by its own names. A stream may choose one of them.

    `numbers`: the number that the graph takes for each. `usual`: the number for streams without a choice.
    """

    numbers: Mapping[str, int]
    usual: int

    def number(self, language: str) -> int | None:
        """Return the number of this language, in any spelling; None if the model lacks it."""
        if language.strip().lower() == AUTO:
            return self.usual
        name = same_language(language, self.numbers)
        return None if name is None else self.numbers[name]


def languages_of(metadata: Mapping[str, str]) -> Languages:
    """Return the languages in the metadata; there may be none. Raise ValueError if they cannot be read."""
    usual = whole_number(metadata.get("auto_prompt_id", str(_AUTO_NUMBER)), _LARGEST_LANGUAGE)
    try:
        numbers = json.loads(metadata.get("prompt_dictionary", "{}"))
    except (ValueError, RecursionError):  # a list in a list, ten thousand times
        numbers = usual = None
    if usual is None:
        raise ValueError("has a prompt_dictionary or an auto_prompt_id in its metadata that cannot be read")
    if not isinstance(numbers, dict) or not all(starmap(_is_language, numbers.items())):
        raise ValueError("has a prompt_dictionary in its metadata that is not a table of languages and numbers")
    if len(numbers) > _MOST_LANGUAGES:
        raise ValueError(f"has {len(numbers)} languages in its metadata, and at most {_MOST_LANGUAGES} are possible")
    return Languages(numbers, numbers.get(AUTO, usual))


def _is_language(name: str, number: object) -> bool:
    """Return whether these are the name of a language, which others may print, and its number."""
    printable = name.isascii() and name.isprintable() and 0 < len(name) <= _LONGEST_LANGUAGE
    return printable and type(number) is int and 0 <= number <= _LARGEST_LANGUAGE


@dataclass(frozen=True)
class Transducer:
    """A predictor, which reads the tokens so far, and a joiner, which combines its result with a frame into scores.

    `vocabulary`: the number of tokens that get a score. In files, the predictor is called the decoder.
    """

    predictor: GraphFile
    joiner: GraphFile
    vocabulary: int
    blank: int


@dataclass(frozen=True)
class ContextTransducer(Transducer):
    """A transducer whose predictor reads the last `context` tokens and has no state."""

    context: int


@dataclass(frozen=True)
class RecurrentTransducer(Transducer):
    """A transducer whose predictor is a recurrent network: it reads the last token and its own `states`."""

    states: tuple[StatePort, ...]
    durations: int = 0
    """How many scores the joiner gives beside those of the tokens: for the number of frames until the next token."""


AnyTransducer = ContextTransducer | RecurrentTransducer


def transducer_of(
    encoder: GraphFile, layout: EncoderLayout, predictor: GraphFile, joiner: GraphFile
) -> ContextTransducer:
    """Return the two graphs beside an encoder, as icefall exports them. Raise LayoutError if they do not match."""
    if len(predictor.inputs) != 1 or len(predictor.outputs) != 1:
        raise LayoutError(f"{predictor.path.name} is not a decoder of icefall: it has a state")
    if len(joiner.inputs) != 2 or len(joiner.outputs) != 1:
        raise LayoutError(f"{joiner.path.name} is not a joiner: it must have two inputs and one output")
    try:
        metadata = Metadata(predictor.metadata)
        context = metadata.at_most("context_size", LONGEST_CONTEXT)
        check_port(predictor.inputs[0], ElementType.INT64, (1, context), 0)
        width = _width(predictor.outputs[0])
    except LayoutError as error:
        raise LayoutError(f"{predictor.path.name} {error}") from error
    try:
        check_port(joiner.inputs[0], ElementType.FLOAT, (1, layout.units), 0)
        check_port(joiner.inputs[1], ElementType.FLOAT, (1, width), 0)
        check_port(joiner.outputs[0], ElementType.FLOAT, (1, None), 0)
        vocabulary = _width(joiner.outputs[0])
    except LayoutError as error:
        raise LayoutError(f"{joiner.path.name} {error}") from error
    tokens = metadata.whole("vocab_size")
    if vocabulary is not None and vocabulary != tokens:
        conflict = f"{predictor.path.name} has {tokens} tokens, but {joiner.path.name} scores {vocabulary}"
        raise LayoutError(f"{conflict}: they belong to different models")
    return ContextTransducer(predictor, joiner, tokens, 0, context)


def _width(port: Port) -> int | None:
    """Return how many numbers a row of this output has; None if the file does not say it."""
    last = port.shape[-1] if port.shape else None
    return last if isinstance(last, int) else None


# A family of public models: an architecture of the encoder, and the kind of search that reads its frames.


class Architecture(Enum):
    """The architectures of encoders that Streamer can compute."""

    ZIPFORMER2 = "Zipformer-2"
    ZIPFORMER = "Zipformer"  # the first version
    LSTM = "LSTM"
    CONFORMER = "Conformer"
    T_ONE = "T-one"
    FASTCONFORMER = "FastConformer"
    MOONSHINE = "Moonshine"
    WHOLE_NEMO = "Whole-utterance NeMo"  # without caches, such as Parakeet
    WHOLE_ICEFALL = "Whole-utterance icefall"  # the same: Zipformer, Zipformer-2 and Conformer


class SearchKind(Enum):
    """The kinds of search. The training of an encoder decides which kind reads its frames."""

    CTC = "with CTC"
    TRANSDUCER = "transducer"
    DECODER = "streaming"  # a decoder reads all frames of a segment again and again


@dataclass(frozen=True)
class Family:
    """A family of public models."""

    architecture: Architecture
    search: SearchKind

    @property
    def title(self) -> str:
        """The name of the family in commands and in the catalogue."""
        return f"{self.architecture.value} {self.search.value}"


Recognises = Callable[[Mapping[str, str]], bool]
LayoutOf = Callable[[GraphFile, SearchKind], EncoderLayout]
TransducerOf = Callable[[GraphFile, EncoderLayout, GraphFile, GraphFile], AnyTransducer]


@dataclass(frozen=True)
class EncoderFamily:
    """All families with one architecture, and how to check their graphs.

    `recognises` decides by the metadata of a graph whether it is such an encoder. `layout` checks the graph and returns
    its layout. `transducer` gets the encoder, its layout, the predictor and the joiner, and checks the last two; it is
    None if there are only models with CTC. Both raise LayoutError.
    """

    architecture: Architecture
    recognises: Recognises
    layout: LayoutOf
    ctc: bool
    transducer: TransducerOf | None

    @property
    def families(self) -> tuple[Family, ...]:
        """The families with this architecture that Streamer can use."""
        searches = [SearchKind.CTC] * self.ctc + [SearchKind.TRANSDUCER] * (self.transducer is not None)
        return tuple(Family(self.architecture, search) for search in searches)
