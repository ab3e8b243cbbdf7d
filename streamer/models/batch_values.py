"""Finds the values in a graph that depend only on the number of streams, and puts a smaller graph in their place.

The exports of PyTorch compute sizes and positions again in every step, in thousands of small nodes. For a few streams,
that takes a sixth of the time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from streamer.models.editable_graph import EditableGraph, Node, Tensor
from streamer.models.onnx_file import ElementType, Port

_FIRST_VERSION: Final = 13  # the first version of operators in which Split and Squeeze take numbers as inputs
_PREFIX: Final = "of_streams"  # the names of new tensors begin with this


@dataclass(frozen=True)
class Linear:
    """Whole numbers that grow with the number of streams: `base`, and `each` for every stream.

    `single`: there is one number, and not a list.
    """

    base: tuple[int, ...]
    each: tuple[int, ...]
    single: bool


Value = Tensor | Linear


@dataclass(frozen=True)
class ValuesGraph:
    """A graph that gives the values with these names. `fed`: its inputs, of which only the shapes matter."""

    content: bytes
    names: list[str]
    fed: list[Port]


def values_graph(graph: EditableGraph, fed: Collection[str]) -> ValuesGraph | None:
    """Return the part of a graph that computes what depends only on the number of streams; None if there is nothing.

    `fed`: the inputs whose shapes depend only on this number. Weights of which only the shape is read are inputs of the
    part too.
    """
    if graph.version < _FIRST_VERSION:
        return None
    knowledge = dependence(graph.nodes, graph.weights, fed)
    names = [name for node in graph.nodes for name in node.outputs if name and knowledge[name] is Knowledge.VALUE]
    if not names:
        return None
    nodes, values, shapes = _needed(graph.nodes, names)
    unknown = {name for name, port in graph.weights.items() if port.type is ElementType.OTHER}
    weights = {name for name in graph.weights if name in values or (name in shapes and name in unknown)}
    ports = [port for port in (*graph.inputs, *graph.weights.values()) if port.name in shapes - weights]
    return ValuesGraph(graph.part(nodes, weights, ports, names), names, ports)


def _needed(nodes: Sequence[Node], names: Collection[str]) -> tuple[list[Node], set[str], set[str]]:
    """Return the nodes that compute these values, and the tensors of which they read the values, or only the shapes."""
    values, shapes, kept = set(names), set[str](), list[Node]()
    for node in reversed(nodes):
        if values.isdisjoint(node.outputs) and shapes.isdisjoint(node.outputs):
            continue
        kept.append(node)
        if node.operator in SIZES:
            shapes.update(node.inputs)
        elif not values.isdisjoint(node.outputs):
            values.update(node.inputs)
        else:
            shapes.update(node.inputs)
            values.update(node.inputs[place] for place in READ_FOR_SHAPE[node.operator] if place < len(node.inputs))
    return kept[::-1], values, shapes


def replace_values(graph: EditableGraph, values: Mapping[str, Value], streams: tuple[str, int]) -> set[str]:
    """Replace these values. Return the names of those that the rest of the graph still reads.

    `streams`: an input, and its axis of the streams.
    """
    values = {name: value for name, value in values.items() if name not in graph.outputs}
    remaining = [node for node in graph.nodes if not all(name in values for name in node.outputs)]
    remaining = _needed_for(remaining, graph.outputs)
    used = {name for node in remaining for name in node.inputs if name in values}
    places: dict[Value, str] = {}
    for name in sorted(used):
        places.setdefault(values[name], f"{_PREFIX}_{len(places)}")
    for value, place in places.items():
        if isinstance(value, Tensor):
            graph.add(place, value)
    for node in remaining:
        node.inputs = [places[values[name]] if name in used else name for name in node.inputs]
    linear = {value: place for value, place in places.items() if isinstance(value, Linear)}
    graph.nodes = [*_linear_nodes(graph, linear, streams), *remaining]
    return used


def _needed_for(nodes: Sequence[Node], outputs: Collection[str]) -> list[Node]:
    """Return the nodes that these outputs need."""
    needed, kept = set(outputs), list[Node]()
    for node in reversed(nodes):
        if not needed.isdisjoint(node.outputs):
            kept.append(node)
            needed.update(node.inputs)
    return kept[::-1]


def _linear_nodes(graph: EditableGraph, linear: Mapping[Linear, str], streams: tuple[str, int]) -> list[Node]:
    """Return nodes that compute all these numbers together, and give each value under its name."""
    if not linear:
        return []
    name, axis = streams
    base, each = (
        graph.add_numbers(f"{_PREFIX}_{part}", [number for value in linear for number in getattr(value, part)])
        for part in ("base", "each")
    )
    lengths = graph.add_numbers(f"{_PREFIX}_lengths", [len(value.base) for value in linear])
    place, first = graph.add_numbers(f"{_PREFIX}_axis", [axis]), graph.add_numbers(f"{_PREFIX}_first", [0])
    lists = [f"{output}_list" if value.single else output for value, output in linear.items()]
    sizes, count, product, total = (f"{_PREFIX}_{part}" for part in ("sizes", "count", "product", "total"))
    return [
        Node("Shape", [name], [sizes]),
        Node("Gather", [sizes, place], [count]),
        Node("Mul", [count, each], [product]),
        Node("Add", [product, base], [total]),
        Node("Split", [total, lengths], lists),
        *(Node("Squeeze", [f"{output}_list", first], [output]) for value, output in linear.items() if value.single),
    ]


# Finds the tensors in a graph whose shape or value depends only on the number of streams, and not on the audio.


class Knowledge(IntEnum):
    """What is certain about a tensor if the number of streams is fixed."""

    NOTHING = 0
    SHAPE = 1
    VALUE = 2  # and so also its shape
    CONSTANT = 3  # the value, which is the same for any number of streams


SIZES: Final = frozenset({"Shape", "Size"})
"""The operators that read only the shape of their input."""

_BY_SHAPES: Final = """
    Abs Add And Cast Ceil Clip Concat Constant Conv Cos Div Equal Erf Exp Flatten Floor Gather GatherElements Gemm
    Greater GreaterOrEqual HardSigmoid Identity LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax MatMul Max
    Min Mul Neg Not Or PRelu Pow Reciprocal Relu Round Sigmoid Sign Sin Softmax Softplus Sqrt Sub Tanh Transpose Where
    Xor
"""
_BY_FIRST: Final = "ConstantOfShape"
_BY_SECOND: Final = """
    Expand OneHot ReduceL2 ReduceMax ReduceMean ReduceMin ReduceSum Reshape Split Squeeze Tile TopK Unsqueeze
"""
READ_FOR_SHAPE: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys((*_BY_SHAPES.split(), *SIZES), ()),
    **dict.fromkeys(_BY_FIRST.split(), (0,)),
    **dict.fromkeys(_BY_SECOND.split(), (1,)),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "Slice": (1, 2, 3, 4),
}
"""All operators that are allowed. The shapes of all inputs, and the values of the inputs at these places, decide the
shape of the output."""


def dependence(nodes: Iterable[Node], constants: Collection[str], fed: Collection[str]) -> dict[str, Knowledge]:
    """Return what is certain about each tensor. `fed`: inputs whose shapes depend only on the number of streams."""
    knowledge = {**dict.fromkeys(fed, Knowledge.SHAPE), **dict.fromkeys(constants, Knowledge.CONSTANT)}
    for node in nodes:
        knowledge |= dict.fromkeys(node.outputs, _output_knowledge(node, knowledge))
    return knowledge


def _output_knowledge(node: Node, knowledge: Mapping[str, Knowledge]) -> Knowledge:
    """Return what is certain about the outputs of this node."""
    if node.operator not in READ_FOR_SHAPE or node.domain not in ("", "ai.onnx"):
        return Knowledge.NOTHING
    inputs = [knowledge.get(name, Knowledge.NOTHING) if name else Knowledge.CONSTANT for name in node.inputs]
    lowest = min(inputs, default=Knowledge.CONSTANT)
    if node.operator in SIZES and lowest is Knowledge.SHAPE:
        return Knowledge.VALUE
    if lowest is not Knowledge.SHAPE:
        return lowest
    read = [inputs[place] for place in READ_FOR_SHAPE[node.operator] if place < len(inputs)]
    return Knowledge.SHAPE if all(each >= Knowledge.VALUE for each in read) else Knowledge.NOTHING
