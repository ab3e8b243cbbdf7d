"""Rewrites a graph into one that takes any number of streams, and gives the same results in less time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from streamer.models.editable_graph import EditableGraph, Node, Tensor
from streamer.models.onnx_file import ElementType
from streamer.models.protobuf import Content, copy_of, encode, fields, text_of


def faster_graph(content: bytes) -> bytes:
    """Return the content of the file of such a graph. If there is nothing to rewrite, this is the same content."""
    graph = EditableGraph(content)
    count = flatten_convolutions(graph) + bound_logs(graph)
    return graph.content() if count else content


# Computes the logarithm of 1 + exp(y), which icefall's activations need, with fewer operators.

_FIRST_VERSION: Final = 13  # the first version of operators with which this was tested
_LARGEST: Final = bytes.fromhex("1872b142")  # the largest logarithm of a number of four bytes: 88.7228394
_BOUND: Final = "largest_logarithm"


def bound_logs(graph: EditableGraph) -> int:
    """Rewrite these logarithms. Return how many there were."""
    if graph.version < _FIRST_VERSION:
        return 0
    makers = {output: node for node in graph.nodes for output in node.outputs}
    nodes: list[Node] = []
    for node in graph.nodes:
        exponent = _exponent(node, makers)
        nodes += [node] if exponent is None else _bounded_log(node, exponent)
    count = len(nodes) - len(graph.nodes)
    if count:
        graph.add(_BOUND, Tensor(ElementType.FLOAT, (), _LARGEST))
        graph.nodes = nodes
    return count


def _exponent(node: Node, makers: dict[str, Node]) -> str | None:
    """Return the exponent's name if this node chooses between such a logarithm and its exponent; otherwise None."""
    if node.operator != "Where" or len(node.inputs) != 3:
        return None
    condition, exponent, logarithm = node.inputs
    comparison = makers.get(condition)
    if comparison is None or comparison.operator != "Equal" or logarithm not in comparison.inputs:
        return None
    [other] = [name for name in comparison.inputs if name != logarithm] or [""]
    log = _without_cast(makers.get(logarithm), makers)
    total = None if log is None or log.operator != "Log" else makers.get(log.inputs[0])
    if total is None or total.operator != "Add" or _number(makers.get(other)) != math.inf:
        return None
    for power, one in (total.inputs, total.inputs[::-1]):
        exponential = makers.get(power)
        if exponential is not None and exponential.operator == "Exp" and exponential.inputs == [exponent]:
            return exponent if _number(makers.get(one)) == 1 else None
    return None


def _without_cast(node: Node | None, makers: dict[str, Node]) -> Node | None:
    """Return this node. If it only converts numbers to four bytes, return the node that makes these numbers."""
    if node is not None and node.operator == "Cast" and node.number("to", 0) == ElementType.FLOAT:
        return makers.get(node.inputs[0])
    return node


def _number(node: Node | None) -> float | None:
    """Return the constant of a node; None if it is not a single number of four bytes."""
    return None if node is None or node.operator != "Constant" else node.single_float


def _bounded_log(node: Node, exponent: str) -> list[Node]:
    [output] = node.outputs
    higher = f"{output}_bounded"
    return [Node("Max", [exponent, _BOUND], [higher]), Node("Min", [node.inputs[2], higher], [output])]


# Turns convolutions along time, channel by channel, into convolutions of pictures with a height of one.

_HEIGHT: Final = 2  # the axis of the height in [streams, channels, height, time]
# Attributes with a number for each axis. For the height, this number is 1.
_ONE_FOR_HEIGHT: Final = ("kernel_shape", "strides", "dilations")


def flatten_convolutions(graph: EditableGraph) -> int:
    """Rewrite the convolutions of a graph. Return how many there were."""
    places = {place for place, node in enumerate(graph.nodes) if _along_time(node)}
    if not places or graph.version < _FIRST_VERSION:
        return 0
    axis = graph.add_numbers("flat_axis", [_HEIGHT])
    nodes: list[Node] = []
    for place, node in enumerate(graph.nodes):
        nodes += _flatten(node, axis) if place in places else [node]
    graph.nodes = nodes
    return len(places)


def _along_time(node: Node) -> bool:
    """Return whether a node is a convolution along one axis, in groups of channels."""
    return node.operator == "Conv" and len(node.numbers("kernel_shape") or ()) == 1 and node.number("group", 1) > 1


def _flatten(node: Node, axis: str) -> list[Node]:
    sound, weights, *bias = node.inputs
    [output] = node.outputs
    high_sound, high_weights, high_output = (f"{output}_flat_{part}" for part in ("sound", "weights", "output"))
    convolution = Node("Conv", [high_sound, high_weights, *bias], [high_output], dict(node.attributes))
    for name in _ONE_FOR_HEIGHT:
        if (numbers := node.numbers(name)) is not None:
            convolution.set_numbers(name, [1, *numbers])
    if (pads := node.numbers("pads")) is not None:
        before, after = pads
        convolution.set_numbers("pads", [0, before, 0, after])
    return [
        Node("Unsqueeze", [sound, axis], [high_sound]),
        Node("Unsqueeze", [weights, axis], [high_weights]),  # computed only once, when the graph is opened
        convolution,
        Node("Squeeze", [high_output, axis], [output]),
    ]


# Rewrites graphs whose inputs and outputs are for exactly one stream, so that they take any number of streams.

_GRAPH, _PORTS, _NAME, _SIZE, _SIZE_NAME = 7, (11, 12), 1, 1, 2  # numbers of fields; inputs and outputs are ports
_SHAPE: Final = (2, 1, 2)  # the path in a port: its type, the tensor there, the shape of the tensor
_STREAMS: Final = b"streams"


def with_free_batch(content: Content, axes: Mapping[str, int]) -> bytes:
    """Return the content of an ONNX file in which these axes of inputs and outputs may have any size.

    The nodes stay as they are. If they can compute only one stream, onnxruntime says so when it computes. Raise Damaged
    if this is no ONNX file.
    """

    def port(content: bytes) -> bytes:
        values = fields(content, 0, len(content))
        name = next((text_of(content, value) for number, value in values if number == _NAME), "")
        if name not in axes:
            return content
        return _change_at(content, _SHAPE, lambda shape: _free_axis(shape, axes[name]))

    return _change_each(content, (_GRAPH,), lambda graph: _change_each(graph, _PORTS, port))


def _free_axis(shape: bytes, axis: int) -> bytes:
    sizes = [copy_of(shape, value) for number, value in fields(shape, 0, len(shape)) if number == _SIZE]
    sizes[axis] = encode([(_SIZE_NAME, _STREAMS)])
    return encode((_SIZE, size) for size in sizes)


def _change_at(content: Content, path: tuple[int, ...], change: Callable[[bytes], bytes]) -> bytes:
    """Return the message after a change of the inner message to which this path leads."""
    first, *rest = path
    return _change_each(content, (first,), (lambda part: _change_at(part, tuple(rest), change)) if rest else change)


def _change_each(content: Content, numbers: tuple[int, ...], change: Callable[[bytes], bytes]) -> bytes:
    """Return the message after a change of each field with one of these numbers."""
    values = ((number, copy_of(content, value)) for number, value in fields(content, 0, len(content)))
    return encode(
        (number, change(value) if number in numbers and isinstance(value, bytes) else value) for number, value in values
    )
