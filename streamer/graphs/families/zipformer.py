"""Zipformer, the first version: the shapes of its states, from the metadata of the export."""

from __future__ import annotations

from streamer.graphs.families.family import Architecture, EncoderFamily, SearchKind
from streamer.graphs.families.icefall import icefall_layout
from streamer.graphs.layout import EncoderLayout, Metadata, StateShape
from streamer.graphs.onnx_file import ElementType, GraphFile
from streamer.graphs.transducer import transducer_of


def _layout(graph: GraphFile, search: SearchKind) -> EncoderLayout:
    """Return the layout of this encoder. Raise LayoutError if its graph and its metadata differ."""
    metadata = Metadata(graph.metadata)
    layers = metadata.wholes("num_encoder_layers")
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
    _layout,
    ctc=False,
    transducer=transducer_of,
)
