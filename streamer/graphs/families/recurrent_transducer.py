"""Checks the predictor and the joiner of a transducer of NeMo. The predictor is a recurrent network with states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from streamer.graphs.layout import EncoderLayout, LayoutError, Metadata, check_port, matching_states
from streamer.graphs.onnx_file import ElementType, GraphFile, Port
from streamer.graphs.transducer import RecurrentTransducer

_FIXED: Final = 1  # the batch of some inputs in the published exports


def recurrent_transducer_of(
    encoder: GraphFile, layout: EncoderLayout, predictor: GraphFile, joiner: GraphFile
) -> RecurrentTransducer:
    """Return the two graphs beside an encoder, as NeMo exports them. Raise LayoutError if they do not fit together.

    The last token is the blank.
    """
    metadata = Metadata(encoder.metadata)
    try:
        layers, hidden, tokens = map(metadata.whole, ("pred_rnn_layers", "pred_hidden", "vocab_size"))
    except LayoutError as error:
        raise LayoutError(f"{encoder.path.name} {error}") from error
    if len(predictor.inputs) != 4 or len(predictor.outputs) != 4:
        raise LayoutError(f"{predictor.path.name} is not a decoder of NeMo: it must have two states")
    if len(joiner.inputs) != 2 or len(joiner.outputs) != 1:
        raise LayoutError(f"{joiner.path.name} is not a joiner: it must have two inputs and one output")
    state = (ElementType.FLOAT, (layers, 1, hidden), 1)
    try:
        predictor = _with_free_batch(predictor, (0, 0, 1, 1), (0, 0, 1, 1))
        check_port(predictor.inputs[0], ElementType.INT32, (1, 1), 0)
        check_port(predictor.inputs[1], ElementType.INT32, (1,), 0)
        check_port(predictor.outputs[0], ElementType.FLOAT, (1, None, 1), 0)
        states = matching_states(predictor.inputs[2:], predictor.outputs[2:], [state, state])
    except LayoutError as error:
        raise LayoutError(f"{predictor.path.name} {error}") from error
    try:
        joiner = _with_free_batch(joiner, (0, 0), (0,))
        check_port(joiner.inputs[0], ElementType.FLOAT, (1, layout.units, 1), 0)
        check_port(joiner.inputs[1], ElementType.FLOAT, (1, _units(predictor.outputs[0]), 1), 0)
        check_port(joiner.outputs[0], ElementType.FLOAT, (1, 1, 1, tokens + 1), 0)
    except LayoutError as error:
        raise LayoutError(f"{joiner.path.name} {error}") from error
    return RecurrentTransducer(predictor, joiner, tokens + 1, tokens, tuple(states))


def _with_free_batch(graph: GraphFile, inputs: Sequence[int], outputs: Sequence[int]) -> GraphFile:
    """Return the same graph, but with any number of streams where its file has exactly one.

    `inputs` and `outputs`: the axis of the streams in each of them. The published files were exported with one stream.
    The shape of a state has this number, but the graph can compute any number.
    """
    freed = {
        port.name: axis
        for ports, axes in ((graph.inputs, inputs), (graph.outputs, outputs))
        for port, axis in zip(ports, axes, strict=True)
        if port.shape is not None and len(port.shape) > axis and port.shape[axis] == _FIXED
    }
    return replace(
        graph,
        inputs=tuple(_free_port(port, freed) for port in graph.inputs),
        outputs=tuple(_free_port(port, freed) for port in graph.outputs),
        freed=freed,
    )


def _free_port(port: Port, axes: dict[str, int]) -> Port:
    if port.name not in axes or port.shape is None:
        return port
    axis = axes[port.name]
    return replace(port, shape=(*port.shape[:axis], "", *port.shape[axis + 1 :]))


def _units(port: Port) -> int | None:
    """Return how many numbers a row of this output has; None if the file does not say it."""
    units = port.shape[1] if port.shape else None
    return units if isinstance(units, int) else None
