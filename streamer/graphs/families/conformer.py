"""Conformer transducers: the shapes of their two states, from the metadata of the export.

The encoder also takes the age of each stream, so that it ignores frames from before the stream began. icefall counts
the age in frames after subsampling, but sherpa-onnx gives feature frames. So do we, because models are used that way.
"""

from __future__ import annotations

from streamer.graphs.families.family import Architecture, EncoderFamily, SearchKind
from streamer.graphs.families.icefall import icefall_layout
from streamer.graphs.layout import EncoderLayout, Metadata
from streamer.graphs.onnx_file import ElementType, GraphFile
from streamer.graphs.transducer import transducer_of


def _layout(graph: GraphFile, search: SearchKind) -> EncoderLayout:
    """Return the layout of this encoder. Raise LayoutError if its graph and its metadata differ."""
    metadata = Metadata(graph.metadata)
    layers, dim = metadata.whole("num_encoder_layers"), metadata.whole("encoder_dim")
    lengths = metadata.whole("left_context"), metadata.whole("cnn_module_kernel") - 1
    return icefall_layout(graph, [(ElementType.FLOAT, (layers, length, 1, dim), 2) for length in lengths], aged=True)


CONFORMER = EncoderFamily(
    Architecture.CONFORMER,
    lambda metadata: metadata.get("model_type") == "conformer",
    _layout,
    ctc=False,
    transducer=transducer_of,
)
