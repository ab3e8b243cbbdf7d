"""The models of NeMo: with caches, such as Nemotron, and without them, such as Parakeet.

Two inputs have one number for each stream: how many frames of its window count, and its language. The names of inputs
and outputs differ from export to export, so this module identifies them by their places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from streamer.models.layout import (
    LONGEST_WINDOW,
    WINDOW_FILE,
    Architecture,
    EncoderFamily,
    EncoderLayout,
    Features,
    Given,
    Languages,
    LayoutError,
    Metadata,
    RecurrentTransducer,
    SearchKind,
    StatePort,
    Surroundings,
    check_port,
    check_window,
    languages_of,
    matching_states,
    window_frames,
)
from streamer.models.onnx_file import ElementType, GraphFile, Port, whole_number

# Checks the predictor and the joiner of a transducer of NeMo. The predictor is a recurrent network with states.

_FIXED: Final = 1  # the batch of some inputs in the published exports
# A published joiner with durations has five: of 0 to 4 frames.
_FEWEST_DURATIONS: Final = 2
_MOST_DURATIONS: Final = 64


def recurrent_transducer_of(
    encoder: GraphFile, layout: EncoderLayout, predictor: GraphFile, joiner: GraphFile
) -> RecurrentTransducer:
    """Return the two graphs beside an encoder, as NeMo exports them. Raise LayoutError if they do not fit together.

    The last token is the blank.
    """
    metadata = Metadata(encoder.metadata)
    try:
        layers, hidden, tokens = map(metadata.whole, ("pred_rnn_layers", "pred_hidden", "vocab_size"))
    except LayoutError as error:
        raise LayoutError(f"{encoder.path.name} {error}") from error
    if len(predictor.inputs) != 4 or len(predictor.outputs) != 4:
        raise LayoutError(f"{predictor.path.name} is not a decoder of NeMo: it must have two states")
    if len(joiner.inputs) != 2 or len(joiner.outputs) != 1:
        raise LayoutError(f"{joiner.path.name} is not a joiner: it must have two inputs and one output")
    state = (ElementType.FLOAT, (layers, 1, hidden), 1)
    try:
        predictor = _with_free_batch(predictor, (0, 0, 1, 1), (0, 0, 1, 1))
        check_port(predictor.inputs[0], ElementType.INT32, (1, 1), 0)
        check_port(predictor.inputs[1], ElementType.INT32, (1,), 0)
        check_port(predictor.outputs[0], ElementType.FLOAT, (1, None, 1), 0)
        states = matching_states(predictor.inputs[2:], predictor.outputs[2:], [state, state])
    except LayoutError as error:
        raise LayoutError(f"{predictor.path.name} {error}") from error
    try:
        joiner = _with_free_batch(joiner, (0, 0), (0,))
        check_port(joiner.inputs[0], ElementType.FLOAT, (1, layout.units, 1), 0)
        check_port(joiner.inputs[1], ElementType.FLOAT, (1, _predictor_units(predictor.outputs[0]), 1), 0)
        durations = _durations(joiner.outputs[0], tokens + 1)
        check_port(joiner.outputs[0], ElementType.FLOAT, (1, 1, 1, tokens + 1 + durations), 0)
    except LayoutError as error:
        raise LayoutError(f"{joiner.path.name} {error}") from error
    return RecurrentTransducer(predictor, joiner, tokens + 1, tokens, tuple(states), durations)


def _durations(scores: Port, tokens: int) -> int:
    """Return how many durations a joiner scores beside these tokens: several, or none."""
    size = scores.shape[-1] if scores.shape else None
    durations = size - tokens if isinstance(size, int) else 0
    return durations if _FEWEST_DURATIONS <= durations <= _MOST_DURATIONS else 0


def _with_free_batch(graph: GraphFile, inputs: Sequence[int], outputs: Sequence[int]) -> GraphFile:
    """Return the same graph, but with any number of streams where its file has exactly one.

    `inputs` and `outputs`: the axis of the streams in each of them. The published files were exported with one stream.
    The shape of a state has this number, but the graph can compute any number.
    """
    freed = {
        port.name: axis
        for ports, axes in ((graph.inputs, inputs), (graph.outputs, outputs))
        for port, axis in zip(ports, axes, strict=True)
        if port.shape is not None and len(port.shape) > axis and port.shape[axis] == _FIXED
    }
    return replace(
        graph,
        inputs=tuple(_free_port(port, freed) for port in graph.inputs),
        outputs=tuple(_free_port(port, freed) for port in graph.outputs),
        freed=freed,
    )


def _free_port(port: Port, axes: dict[str, int]) -> Port:
    if port.name not in axes or port.shape is None:
        return port
    axis = axes[port.name]
    return replace(port, shape=(*port.shape[:axis], "", *port.shape[axis + 1 :]))


def _predictor_units(port: Port) -> int | None:
    """Return how many numbers a row of this output has; None if the file does not say it."""
    units = port.shape[1] if port.shape else None
    return units if isinstance(units, int) else None


_LANGUAGE: Final = "prompt_index"
_USUAL_INPUTS: Final = 5  # features, their length, and three caches
_OUTPUTS: Final = 5  # frames, their number, and three caches


def _recognises(metadata: Mapping[str, str]) -> bool:
    return "cache_last_channel_dim1" in metadata and "chunk_shift" in metadata


def _layout(graph: GraphFile, search: SearchKind) -> EncoderLayout:
    metadata = Metadata(graph.metadata)
    window, step, subsampling = map(metadata.whole, ("window_size", "chunk_shift", "subsampling_factor"))
    if step % subsampling or not step < window:
        windows = f"windows of {window} frames every {step} frames"
        raise LayoutError(f"has {windows}, which is impossible if it makes one frame of {subsampling}")
    multilingual = len(graph.inputs) == _USUAL_INPUTS + 1 and graph.inputs[-1].name == _LANGUAGE
    if len(graph.inputs) != _USUAL_INPUTS + multilingual or len(graph.outputs) != _OUTPUTS:
        ports = f"{len(graph.inputs)} inputs and {len(graph.outputs)} outputs"
        raise LayoutError(f"has {ports}, not those of an export with caches for streaming")
    features, length, *caches = graph.inputs
    mels = features.shape[1] if features.shape and len(features.shape) == 3 else None
    if not isinstance(mels, int) or mels < 1:
        raise LayoutError(f"does not say how many numbers a frame of {features.name} has")
    check_window(window, mels)
    check_port(features, ElementType.FLOAT, (1, mels, window), 0)
    check_port(length, ElementType.INT64, (1,), 0)
    given, languages = [(length, Given.WINDOW)], None
    if multilingual:
        check_port(caches[-1], ElementType.INT64, (1,), 0)
        given.append((caches.pop(), Given.LANGUAGE))
        languages = _languages(graph)
    transducer = search is SearchKind.TRANSDUCER
    frames = step // subsampling
    units = _units(graph.outputs[0], frames, None if transducer else metadata.whole("vocab_size") + 1)
    states = _caches(metadata, caches, graph.outputs[2:])
    layout = EncoderLayout(window, step, mels, frames, units, graph.outputs[0].name, states, Features.NEMO)
    return replace(layout, upright=True, output_upright=transducer, given=tuple(given), languages=languages)


def _languages(graph: GraphFile) -> Languages:
    try:
        return languages_of(graph.metadata)
    except ValueError as error:
        raise LayoutError(str(error)) from None


def _units(result: Port, frames: int, tokens: int | None) -> int | None:
    """Return how many numbers a frame has: with CTC one for each of `tokens`. A transducer's frames are columns."""
    check_port(result, ElementType.FLOAT, (1, None, frames) if tokens is None else (1, frames, tokens), 0)
    units = result.shape[1] if tokens is None and result.shape else tokens
    return units if isinstance(units, int) else None


def _caches(metadata: Metadata, inputs: list[Port], outputs: tuple[Port, ...]) -> tuple[StatePort, ...]:
    channel, time = (
        (ElementType.FLOAT, (1, *(metadata.whole(f"cache_last_{kind}_dim{axis}") for axis in (1, 2, 3))), 0)
        for kind in ("channel", "time")
    )
    return tuple(matching_states(inputs, outputs, [channel, time, (ElementType.INT64, (1,), 0)]))


FASTCONFORMER = EncoderFamily(
    Architecture.FASTCONFORMER, _recognises, _layout, ctc=True, transducer=recurrent_transducer_of
)


# Models that hear whole utterances, such as Parakeet. They have no caches, so they are computed by windows.

_KINDS: Final = ("EncDecCTC", "EncDecRNNT", "EncDecHybridRNNTCTC")  # how the names of their classes begin
_SIZES: Final = ("left_feature_frames", "chunk_feature_frames", "right_feature_frames")
_NORMALISED: Final = "per_feature"
_LARGEST_SUBSAMPLING: Final = 64


def _is_whole(metadata: Mapping[str, str]) -> bool:
    return metadata.get("model_type", "").startswith(_KINDS) and not _recognises(metadata)


def _whole_layout(graph: GraphFile, search: SearchKind) -> EncoderLayout:
    metadata, transducer = Metadata(graph.metadata), search is SearchKind.TRANSDUCER
    subsampling = metadata.at_most("subsampling_factor", _LARGEST_SUBSAMPLING)
    normalised = graph.metadata.get("normalize_type", "")
    if normalised not in ("", "NA", _NORMALISED):
        raise LayoutError(f"needs features that are normalised {normalised[:80]!r}, which Streamer does not compute")
    if graph.metadata.get("is_giga_am", "0") != "0":
        raise LayoutError("is a GigaAM, whose features Streamer does not compute")
    if len(graph.inputs) != _WHOLE_INPUTS or not graph.outputs:
        ports = f"{len(graph.inputs)} inputs and {len(graph.outputs)} outputs"
        raise LayoutError(f"has {ports}, not those of an export without caches")
    features, length = graph.inputs
    mels = features.shape[1] if features.shape and len(features.shape) == 3 else None
    if not isinstance(mels, int) or mels < 1:
        raise LayoutError(f"does not say how many numbers a frame of {features.name} has")
    left, step, right = _window(graph, subsampling)
    window = left + step + right
    check_window(window, mels)
    check_port(features, ElementType.FLOAT, (1, mels, window), 0)
    check_port(length, ElementType.INT64, (1,), 0)
    frames = window // subsampling
    units = _units(graph.outputs[0], frames, None if transducer else metadata.whole("vocab_size") + 1)
    kind = Features.NEMO_WHOLE if transducer else Features.NEMO
    layout = EncoderLayout(window, step, mels, step // subsampling, units, graph.outputs[0].name, (), kind)
    return replace(
        layout,
        upright=True,
        output_upright=transducer,
        given=((length, Given.WINDOW),),
        surroundings=Surroundings(left, right, normalised == _NORMALISED),
    )


_WHOLE_INPUTS: Final = 2  # features and their length


def _window(graph: GraphFile, subsampling: int) -> tuple[int, int, int]:
    """Return the feature frames before a step, in it, and after it."""
    folder = graph.path.parent
    if _SIZES[1] in graph.metadata:
        if (folder / WINDOW_FILE).exists():
            raise LayoutError(f"was exported for windows of its own, so {WINDOW_FILE} beside it must go")
        sizes: list[int | None] = [whole_number(graph.metadata.get(name, ""), LONGEST_WINDOW) for name in _SIZES]
        if None in sizes or not sizes[1] or any(size % subsampling for size in sizes if size):
            named = ", ".join(_SIZES)
            raise LayoutError(f"does not have as {named} numbers of feature frames that make whole frames")
    else:
        return window_frames(folder, subsampling)
    left, step, right = (size or 0 for size in sizes)
    return left, step, right


WHOLE_NEMO = EncoderFamily(
    Architecture.WHOLE_NEMO, _is_whole, _whole_layout, ctc=True, transducer=recurrent_transducer_of
)
