"""T-one: hears samples at 8 kHz, and keeps its whole state in one row of numbers."""

from __future__ import annotations

from streamer.graphs.families.family import Architecture, EncoderFamily, SearchKind
from streamer.graphs.layout import FRAME_MS, EncoderLayout, Features, LayoutError, Metadata, check_port, matching_states
from streamer.graphs.onnx_file import ElementType, GraphFile

SAMPLE_RATE = 8_000
_RESULT_MS = 30  # of each frame that comes out


def _layout(graph: GraphFile, search: SearchKind) -> EncoderLayout:
    """The layout of this model. LayoutError if it is not consistent."""
    metadata = Metadata(graph.metadata)
    if metadata.whole("sample_rate") != SAMPLE_RATE:
        raise LayoutError(f"hears {metadata.whole('sample_rate')} samples a second, not {SAMPLE_RATE} as T-one does")
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
    known = units if isinstance(units, int) else None
    # What is ahead of a window of feature frames is as long as the filter needs that halves the sample rate.
    step, numbers = length // FRAME_MS, FRAME_MS * SAMPLE_RATE // 1000
    return EncoderLayout(step, step, numbers, frames, known, result.name, tuple(states), Features.TELEPHONE)


T_ONE = EncoderFamily(
    Architecture.T_ONE,
    lambda metadata: metadata.get("model_type") == "t-one",
    _layout,
    ctc=True,
    transducer=None,
)
