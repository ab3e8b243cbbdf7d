"""The base of all encoders that icefall trains: they take Kaldi's features, and give one frame for every four."""

from __future__ import annotations

from collections.abc import Sequence

from streamer.graphs.layout import EncoderLayout, Given, LayoutError, Metadata, StateShape, check_port, matching_states
from streamer.graphs.onnx_file import ElementType, GraphFile, Port

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
