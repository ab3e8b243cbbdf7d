"""Checks the other two graphs of a transducer: the predictor, which reads the tokens so far, and the joiner."""

from __future__ import annotations

from dataclasses import dataclass

from streamer.graphs.layout import EncoderLayout, LayoutError, Metadata, StatePort, check_port
from streamer.graphs.onnx_file import ElementType, GraphFile, Port


@dataclass(frozen=True)
class Transducer:
    """A predictor, which reads the tokens so far, and a joiner, which combines its result with a frame into scores.

    `vocabulary`: the number of tokens that get a score. In files, the predictor is called the decoder.
    """

    predictor: GraphFile
    joiner: GraphFile
    vocabulary: int
    blank: int


@dataclass(frozen=True)
class ContextTransducer(Transducer):
    """A transducer whose predictor reads the last `context` tokens and has no state."""

    context: int


@dataclass(frozen=True)
class RecurrentTransducer(Transducer):
    """A transducer whose predictor is a recurrent network: it reads the last token and its own `states`."""

    states: tuple[StatePort, ...]


AnyTransducer = ContextTransducer | RecurrentTransducer


def transducer_of(
    encoder: GraphFile, layout: EncoderLayout, predictor: GraphFile, joiner: GraphFile
) -> ContextTransducer:
    """Return the two graphs beside an encoder, as icefall exports them. Raise LayoutError if they do not match."""
    if len(predictor.inputs) != 1 or len(predictor.outputs) != 1:
        raise LayoutError(f"{predictor.path.name} is not a decoder of icefall: it has a state")
    if len(joiner.inputs) != 2 or len(joiner.outputs) != 1:
        raise LayoutError(f"{joiner.path.name} is not a joiner: it must have two inputs and one output")
    try:
        metadata = Metadata(predictor.metadata)
        context = metadata.whole("context_size")
        check_port(predictor.inputs[0], ElementType.INT64, (1, context), 0)
        width = _width(predictor.outputs[0])
    except LayoutError as error:
        raise LayoutError(f"{predictor.path.name} {error}") from error
    try:
        check_port(joiner.inputs[0], ElementType.FLOAT, (1, layout.units), 0)
        check_port(joiner.inputs[1], ElementType.FLOAT, (1, width), 0)
        check_port(joiner.outputs[0], ElementType.FLOAT, (1, None), 0)
        vocabulary = _width(joiner.outputs[0])
    except LayoutError as error:
        raise LayoutError(f"{joiner.path.name} {error}") from error
    tokens = metadata.whole("vocab_size")
    if vocabulary is not None and vocabulary != tokens:
        conflict = f"{predictor.path.name} has {tokens} tokens, but {joiner.path.name} scores {vocabulary}"
        raise LayoutError(f"{conflict}: they belong to different models")
    return ContextTransducer(predictor, joiner, tokens, 0, context)


def _width(port: Port) -> int | None:
    """Return how many numbers a row of this output has; None if the file does not say it."""
    last = port.shape[-1] if port.shape else None
    return last if isinstance(last, int) else None
