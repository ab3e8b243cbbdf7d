"""T-one, a model that takes samples at 8 kHz and keeps its whole state in one row of numbers."""

from __future__ import annotations

from streamer.graphs.families.family import Architecture, EncoderFamily, SearchKind
from streamer.graphs.layout import FRAME_MS, EncoderLayout, Features, LayoutError, Metadata, check_port, matching_states
from streamer.graphs.onnx_file import ElementType, GraphFile

SAMPLE_RATE = 8_000
_RESULT_MS = 30  # the length of each frame of the output


def _layout(graph: GraphFile, search: SearchKind) -> EncoderLayout:
    """Return the layout of this model. Raise LayoutError if its graph and its metadata differ."""
    metadata = Metadata(graph.metadata)
    if metadata.whole("sample_rate") != SAMPLE_RATE:
        raise LayoutError(f"takes {metadata.whole('sample_rate')} samples a second, not {SAMPLE_RATE} as T-one does")
    length = metadata.whole("frame_length_ms")
    if length % _RESULT_MS:
        raise LayoutError(f"has steps of {length} ms, which are no whole frames of {_RESULT_MS} ms")
    frames = length // _RESULT_MS
    signal, *inputs = graph.inputs
    result, *outputs = graph.outputs
    check_port(signal, ElementType.INT32, (1, length * SAMPLE_RATE // 1000, 1), 0)
    check_port(result, ElementType.FLOAT, (1, frames, None), 0)
    states = matching_states(inputs, outputs, [(ElementType.FLOAT16, (1, metadata.whole("state_dim")), 0)])
    units = result.shape[2] if result.shape else None
    units = units if isinstance(units, int) else None
    # The filter that halves the sample rate needs as much audio after a step as a window of feature frames would.
    step, numbers = length // FRAME_MS, FRAME_MS * SAMPLE_RATE // 1000
    return EncoderLayout(step, step, numbers, frames, units, result.name, tuple(states), Features.TELEPHONE)


T_ONE = EncoderFamily(
    Architecture.T_ONE,
    lambda metadata: metadata.get("model_type") == "t-one",
    _layout,
    ctc=True,
    transducer=None,
)
