"""The encoders that icefall trains: Zipformer, Zipformer-2, Conformer and LSTM, from the metadata of their exports.

Those without states hear whole utterances, so they are computed by windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from streamer.models.layout import (
    FRAME_MS,
    Architecture,
    EncoderFamily,
    EncoderLayout,
    Given,
    LayoutError,
    Metadata,
    SearchKind,
    StateShape,
    Surroundings,
    check_port,
    check_window,
    matching_states,
    transducer_of,
    window_frames,
)
from streamer.models.onnx_file import ElementType, GraphFile, Port

MELS = 80
SUBSAMPLING = 4  # feature frames for each frame of the output
_LONGEST_WINDOW = 3  # in steps


def icefall_layout(graph: GraphFile, states: Sequence[StateShape], *, aged: bool = False) -> EncoderLayout:
    """Return the layout of an encoder with these states. Raise LayoutError if its graph and its metadata differ.

    `aged`: its last input is the age of each stream. This is no state, because the graph does not return it.
    """
    metadata = Metadata(graph.metadata)
    window, step = metadata.whole("T"), metadata.whole("decode_chunk_len")
    if step % SUBSAMPLING or not step < window <= _LONGEST_WINDOW * step:
        raise LayoutError(f"has windows of {window} frames every {step} frames, which is impossible for such a model")
    check_window(window, MELS)
    features, *inputs = graph.inputs
    result, *outputs = graph.outputs
    check_port(features, ElementType.FLOAT, (1, window, MELS), 0)
    check_port(result, ElementType.FLOAT, (1, step // SUBSAMPLING, None), 0)
    given: tuple[tuple[Port, Given], ...] = ()
    if aged and inputs:
        age = inputs.pop()
        check_port(age, ElementType.INT64, (1,), 0)
        given = ((age, Given.AGE),)
    units = result.shape[2] if result.shape else None
    units = units if isinstance(units, int) else None
    ports = tuple(matching_states(inputs, outputs, states))
    return EncoderLayout(window, step, MELS, step // SUBSAMPLING, units, result.name, ports, given=given)


# Conformer transducers: the shapes of their two states, from the metadata of the export.


def _conformer_layout(graph: GraphFile, search: SearchKind) -> EncoderLayout:
    """Return the layout of this encoder. Raise LayoutError if its graph and its metadata differ."""
    metadata = Metadata(graph.metadata)
    layers, dim = metadata.whole("num_encoder_layers"), metadata.whole("encoder_dim")
    lengths = metadata.whole("left_context"), metadata.whole("cnn_module_kernel") - 1
    return icefall_layout(graph, [(ElementType.FLOAT, (layers, length, 1, dim), 2) for length in lengths], aged=True)


CONFORMER = EncoderFamily(
    Architecture.CONFORMER,
    lambda metadata: metadata.get("model_type") == "conformer",
    _conformer_layout,
    ctc=False,
    transducer=transducer_of,
)


# Transducers with an LSTM as encoder: the shapes of its two states, from the metadata of the export.


def _lstm_layout(graph: GraphFile, search: SearchKind) -> EncoderLayout:
    """Return the layout of this encoder. Raise LayoutError if its graph and its metadata differ."""
    metadata = Metadata(graph.metadata)
    layers = metadata.whole("num_encoder_layers")
    sizes = metadata.whole("d_model"), metadata.whole("rnn_hidden_size")
    return icefall_layout(graph, [(ElementType.FLOAT, (layers, 1, size), 1) for size in sizes])


LSTM = EncoderFamily(
    Architecture.LSTM,
    lambda metadata: metadata.get("model_type") == "lstm",
    _lstm_layout,
    ctc=False,
    transducer=transducer_of,
)


# Zipformer, the first version: the shapes of its states, from the metadata of the export.


def _zipformer_layout(graph: GraphFile, search: SearchKind) -> EncoderLayout:
    """Return the layout of this encoder. Raise LayoutError if its graph and its metadata differ."""
    metadata = Metadata(graph.metadata)
    layers = metadata.layers()
    dims, attention, kernels, left = (
        metadata.wholes(key, len(layers))
        for key in ("encoder_dims", "attention_dims", "cnn_module_kernels", "left_context_len")
    )
    # The states are grouped by kind, and each group has the states of all stacks. A state has a row for every layer.
    stacks = list(zip(layers, dims, attention, kernels, left, strict=True))
    lengths: list[StateShape] = [(ElementType.INT64, (count, 1), 1) for count in layers]
    averages: list[StateShape] = [(ElementType.FLOAT, (count, 1, dim), 1) for count, dim, *_ in stacks]
    keys, values = (
        [(ElementType.FLOAT, (count, before, 1, width // part), 2) for count, _, width, _, before in stacks]
        for part in (1, 2)
    )
    convolutions: list[StateShape] = [
        (ElementType.FLOAT, (count, 1, dim, kernel - 1), 1) for count, dim, _, kernel, _ in stacks
    ]
    return icefall_layout(graph, [*lengths, *averages, *keys, *values, *values, *convolutions, *convolutions])


ZIPFORMER = EncoderFamily(
    Architecture.ZIPFORMER,
    lambda metadata: metadata.get("model_type") == "zipformer",
    _zipformer_layout,
    ctc=False,
    transducer=transducer_of,
)


# Zipformer-2: the shapes of its windows and states, from the metadata of the export.

_EMBED_CHANNELS = 128
_KEYS = (
    "encoder_dims",
    "query_head_dims",
    "value_head_dims",
    "num_heads",
    "cnn_module_kernels",
    "left_context_len",
)


def _zipformer2_layout(graph: GraphFile, search: SearchKind) -> EncoderLayout:
    """Return the layout of this encoder or CTC model. Raise LayoutError if its graph and its metadata differ."""
    if graph.metadata.get("feature", "") not in ("", "fbank"):
        raise LayoutError(f"needs {graph.metadata['feature'][:80]!r} features, which Streamer does not compute")
    return icefall_layout(graph, _states(Metadata(graph.metadata)))


def _states(metadata: Metadata) -> list[StateShape]:
    layers = metadata.layers()
    dims, query, value, heads, kernels, left = (metadata.wholes(key, len(layers)) for key in _KEYS)
    expected: list[StateShape] = []
    for stack, count in enumerate(layers):
        key = (left[stack], 1, query[stack] * heads[stack])
        nonlinear = (1, 1, left[stack], 3 * dims[stack] // 4)
        values = (left[stack], 1, value[stack] * heads[stack])
        convolution = (1, dims[stack], kernels[stack] // 2)
        shapes = ((key, 1), (nonlinear, 1), (values, 1), (values, 1), (convolution, 0), (convolution, 0))
        expected += [(ElementType.FLOAT, shape, axis) for shape, axis in shapes] * count
    embedded = (1, _EMBED_CHANNELS, 3, ((MELS - 1) // 2 - 1) // 2)
    expected += [(ElementType.FLOAT, embedded, 0), (ElementType.INT64, (1,), 0)]
    return expected


ZIPFORMER2 = EncoderFamily(
    Architecture.ZIPFORMER2,
    lambda metadata: metadata.get("model_type") == "zipformer2",
    _zipformer2_layout,
    ctc=True,
    transducer=transducer_of,
)


# Models that hear whole utterances: Zipformer, Zipformer-2 and Conformer, exported without states.

_WHOLE_CTC: Final = "zipformer2_ctc"
_WHOLE_TRANSDUCERS: Final = ("zipformer2", "zipformer", "conformer")
_STREAMING: Final = ("T", "decode_chunk_len")  # the metadata of an export with states
_LEAST_AHEAD: Final = 8  # feature frames that the last frame of a step reads after it
_PORTS: Final = 2  # features and frames, and how many there are of each


def _is_whole(metadata: Mapping[str, str]) -> bool:
    kind = metadata.get("model_type")
    return kind == _WHOLE_CTC or (kind in _WHOLE_TRANSDUCERS and not any(key in metadata for key in _STREAMING))


def _whole_layout(graph: GraphFile, search: SearchKind) -> EncoderLayout:
    """Return the layout of this encoder or CTC model. Raise LayoutError if its graph and its metadata differ.

    The first layers see what follows a window, whatever the graph knows of its length. So no window is padded.
    """
    with_ctc = graph.metadata["model_type"] == _WHOLE_CTC
    if with_ctc is not (search is SearchKind.CTC):
        kind = "a model with CTC, and no encoder" if with_ctc else "the encoder of a transducer, and no model with CTC"
        raise LayoutError(f"is {kind}")
    if graph.metadata.get("feature", "") not in ("", "fbank"):
        raise LayoutError(f"needs {graph.metadata['feature'][:80]!r} features, which Streamer does not compute")
    if len(graph.inputs) != _PORTS or not graph.outputs:
        ports = f"{len(graph.inputs)} inputs and {len(graph.outputs)} outputs"
        raise LayoutError(f"has {ports}, not those of an export for whole utterances")
    left, step, right = window_frames(graph.path.parent, SUBSAMPLING)
    if right < _LEAST_AHEAD:
        raise LayoutError(f"needs at least {_LEAST_AHEAD * FRAME_MS} ms after a step, not {right * FRAME_MS}")
    window = left + step + right
    check_window(window, MELS)
    features, length = graph.inputs
    check_port(features, ElementType.FLOAT, (1, window, MELS), 0)
    check_port(length, ElementType.INT64, (1,), 0)
    result = graph.outputs[0]
    check_port(result, ElementType.FLOAT, (1, None, None), 0)
    units = result.shape[2] if result.shape else None
    units = units if isinstance(units, int) else None
    around = Surroundings(left, right, alone=True)
    given = ((length, Given.WINDOW),)
    frames = step // SUBSAMPLING
    return EncoderLayout(window, step, MELS, frames, units, result.name, (), given=given, surroundings=around)


WHOLE_ICEFALL = EncoderFamily(Architecture.WHOLE_ICEFALL, _is_whole, _whole_layout, ctc=True, transducer=transducer_of)
