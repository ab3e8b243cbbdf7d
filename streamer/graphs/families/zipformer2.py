"""Zipformer-2: the shapes of its windows and states, from the metadata of the export."""

from __future__ import annotations

from streamer.graphs.families.family import Architecture, EncoderFamily, SearchKind
from streamer.graphs.families.icefall import MELS, icefall_layout
from streamer.graphs.layout import EncoderLayout, LayoutError, Metadata, StateShape
from streamer.graphs.onnx_file import ElementType, GraphFile
from streamer.graphs.transducer import transducer_of

_EMBED_CHANNELS = 128
_KEYS = (
    "encoder_dims",
    "query_head_dims",
    "value_head_dims",
    "num_heads",
    "cnn_module_kernels",
    "left_context_len",
)


def _layout(graph: GraphFile, search: SearchKind) -> EncoderLayout:
    """Return the layout of this encoder or CTC model. Raise LayoutError if its graph and its metadata differ."""
    if graph.metadata.get("feature", "") not in ("", "fbank"):
        raise LayoutError(f"needs {graph.metadata['feature']!r} features, which Streamer does not compute")
    return icefall_layout(graph, _states(Metadata(graph.metadata)))


def _states(metadata: Metadata) -> list[StateShape]:
    layers = metadata.wholes("num_encoder_layers")
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
    _layout,
    ctc=True,
    transducer=transducer_of,
)
