"""Replaces the values in a graph that depend only on the number of streams. A smaller graph computes them once.

The exports of PyTorch compute sizes and positions again in every step, in thousands of small nodes. For a few streams,
that takes a sixth of the time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streamer.graphs.onnx_file import ElementType, Port
from streamer.graphs.rewriting.dependence import READ_FOR_SHAPE, SIZES, Knowledge, dependence
from streamer.graphs.rewriting.editable_graph import EditableGraph, Node, Tensor

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
