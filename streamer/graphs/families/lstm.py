"""Transducers with an LSTM as encoder: the shapes of its two states, from the metadata of the export."""

from __future__ import annotations

from streamer.graphs.families.family import Architecture, EncoderFamily, SearchKind
from streamer.graphs.families.icefall import icefall_layout
from streamer.graphs.layout import EncoderLayout, Metadata
from streamer.graphs.onnx_file import ElementType, GraphFile
from streamer.graphs.transducer import transducer_of


def _layout(graph: GraphFile, search: SearchKind) -> EncoderLayout:
    """Return the layout of this encoder. Raise LayoutError if its graph and its metadata differ."""
    metadata = Metadata(graph.metadata)
    layers = metadata.whole("num_encoder_layers")
    sizes = metadata.whole("d_model"), metadata.whole("rnn_hidden_size")
    return icefall_layout(graph, [(ElementType.FLOAT, (layers, 1, size), 1) for size in sizes])


LSTM = EncoderFamily(
    Architecture.LSTM,
    lambda metadata: metadata.get("model_type") == "lstm",
    _layout,
    ctc=False,
    transducer=transducer_of,
)
