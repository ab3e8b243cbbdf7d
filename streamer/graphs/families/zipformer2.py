"""Zipformer-2: the shapes of its windows and states, from the metadata that its export writes."""

from __future__ import annotations

from collections.abc import Mapping

from streamer.graphs.families.family import Architecture, EncoderFamily, SearchKind
from streamer.graphs.layout import EncoderLayout, LayoutError, Metadata, StatePort, check_port, matching_states
from streamer.graphs.onnx_file import ElementType, GraphFile
from streamer.graphs.transducer import transducer_of

MELS = 80
SUBSAMPLING = 4  # feature frames for each frame that comes out
_EMBED_CHANNELS = 128

_Shape = tuple[ElementType, tuple[int, ...], int]


def _recognises(metadata: Mapping[str, str]) -> bool:
    return metadata.get("model_type") == "zipformer2"


def _layout(graph: GraphFile, search: SearchKind) -> EncoderLayout:
    """The layout of this encoder, or of this whole CTC model. LayoutError if it is not consistent."""
    metadata = Metadata(graph.metadata)
    window, step = metadata.whole("T"), metadata.whole("decode_chunk_len")
    if step % SUBSAMPLING or not step < window <= 2 * step:
        raise LayoutError(f"has windows of {window} frames every {step} frames, which is impossible for a Zipformer-2")
    if graph.metadata.get("feature", "") not in ("", "fbank"):
        raise LayoutError(f"needs {graph.metadata['feature']!r} features, which Streamer does not compute")
    features, result = graph.inputs[0], graph.outputs[0]
    check_port(features, ElementType.FLOAT, (1, window, MELS), 0)
    check_port(result, ElementType.FLOAT, (1, step // SUBSAMPLING, None), 0)
    units = result.shape[2] if result.shape else None
    known = units if isinstance(units, int) else None
    states = _states(graph, metadata)
    return EncoderLayout(window, step, MELS, step // SUBSAMPLING, known, result.name, states)


def _states(graph: GraphFile, metadata: Metadata) -> tuple[StatePort, ...]:
    layers = metadata.wholes("num_encoder_layers")
    dims, query, value, heads, kernels, left = (
        metadata.wholes(key, len(layers))
        for key in (
            *("encoder_dims", "query_head_dims", "value_head_dims", "num_heads"),
            *("cnn_module_kernels", "left_context_len"),
        )
    )
    expected: list[_Shape] = []
    for stack, count in enumerate(layers):
        key = (left[stack], 1, query[stack] * heads[stack])
        nonlinear = (1, 1, left[stack], 3 * dims[stack] // 4)
        values = (left[stack], 1, value[stack] * heads[stack])
        convolution = (1, dims[stack], kernels[stack] // 2)
        shapes = ((key, 1), (nonlinear, 1), (values, 1), (values, 1), (convolution, 0), (convolution, 0))
        expected += [(ElementType.FLOAT, shape, axis) for shape, axis in shapes] * count
    embedded = (1, _EMBED_CHANNELS, 3, ((MELS - 1) // 2 - 1) // 2)
    expected += [(ElementType.FLOAT, embedded, 0), (ElementType.INT64, (1,), 0)]
    return tuple(matching_states(graph.inputs[1:], graph.outputs[1:], expected))


ZIPFORMER2 = EncoderFamily(Architecture.ZIPFORMER2, _recognises, _layout, ctc=True, transducer=transducer_of)
