"""What the encoders that icefall trains have in common: Kaldi's features, and a frame for every four of them."""

from __future__ import annotations

from collections.abc import Sequence

from streamer.graphs.layout import EncoderLayout, Given, LayoutError, Metadata, StateShape, check_port, matching_states
from streamer.graphs.onnx_file import ElementType, GraphFile, Port

MELS = 80
SUBSAMPLING = 4  # feature frames for each frame that comes out
_LONGEST_WINDOW = 3  # steps


def icefall_layout(graph: GraphFile, states: Sequence[StateShape], *, aged: bool = False) -> EncoderLayout:
    """The layout of an encoder with these states. LayoutError if it is not consistent.

    `aged`: its last input is the age of each stream, which is no state because the graph does not give it back.
    """
    metadata = Metadata(graph.metadata)
    window, step = metadata.whole("T"), metadata.whole("decode_chunk_len")
    if step % SUBSAMPLING or not step < window <= _LONGEST_WINDOW * step:
        raise LayoutError(f"has windows of {window} frames every {step} frames, which is impossible for such a model")
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
    known = units if isinstance(units, int) else None
    found = tuple(matching_states(inputs, outputs, states))
    return EncoderLayout(window, step, MELS, step // SUBSAMPLING, known, result.name, found, given=given)
