"""The values in a graph that follow from the number of streams: a smaller graph that gives them, and their replacement.

The exports of PyTorch compute sizes and positions anew in every step, in thousands of small nodes. For a few streams,
that takes a sixth of the time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streamer.graphs.onnx_file import ElementType, Port
from streamer.graphs.rewriting.dependence import READ_FOR_SHAPE, SIZES, Follows, dependence
from streamer.graphs.rewriting.editable_graph import EditableGraph, Node, Tensor

_FIRST_VERSION: Final = 13  # of operators in which Split and Squeeze take numbers as inputs
_MADE: Final = "of_streams"  # what the names of new tensors begin with


@dataclass(frozen=True)
class Linear:
    """Whole numbers that grow with the number of streams: `base`, and `each` for every stream.

    If `single`, they are one number, and not a list with one.
    """

    base: tuple[int, ...]
    each: tuple[int, ...]
    single: bool


Value = Tensor | Linear


@dataclass(frozen=True)
class ValuesGraph:
    """A graph that gives the values of these names. Of what is fed to it, only the shapes matter."""

    content: bytes
    names: list[str]
    fed: list[Port]


def values_graph(graph: EditableGraph, fed: Collection[str]) -> ValuesGraph | None:
    """The part of a graph that computes what follows from the number of streams; None if there is nothing.

    `fed`: the inputs whose shapes follow from it. Weights of which only the shape is read are fed as well.
    """
    if graph.version < _FIRST_VERSION:
        return None
    found = dependence(graph.nodes, graph.weights, fed)
    names = [name for node in graph.nodes for name in node.outputs if name and found[name] is Follows.VALUE]
    if not names:
        return None
    nodes, values, shapes = _needed(graph.nodes, names)
    unknown = {name for name, port in graph.weights.items() if port.type is ElementType.OTHER}
    weights = {name for name in graph.weights if name in values or (name in shapes and name in unknown)}
    ports = [port for port in (*graph.inputs, *graph.weights.values()) if port.name in shapes - weights]
    return ValuesGraph(graph.part(nodes, weights, ports, names), names, ports)


def _needed(nodes: Sequence[Node], names: Collection[str]) -> tuple[list[Node], set[str], set[str]]:
    """The nodes that compute these values, the tensors whose values they read, and those whose shapes they read."""
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


def replace_values(graph: EditableGraph, values: Mapping[str, Value], counted: tuple[str, int]) -> set[str]:
    """Replace these values. Returns the names of those that are read by what remains of the graph.

    `counted` is an input, and its axis that counts the streams.
    """
    values = {name: value for name, value in values.items() if name not in graph.outputs}
    remaining = [node for node in graph.nodes if not all(name in values for name in node.outputs)]
    remaining = _read(remaining, graph.outputs)
    used = {name for node in remaining for name in node.inputs if name in values}
    places: dict[Value, str] = {}
    for name in sorted(used):
        places.setdefault(values[name], f"{_MADE}_{len(places)}")
    for value, place in places.items():
        if isinstance(value, Tensor):
            graph.add(place, value)
    for node in remaining:
        node.inputs = [places[values[name]] if name in used else name for name in node.inputs]
    linear = {value: place for value, place in places.items() if isinstance(value, Linear)}
    graph.nodes = [*_computed(graph, linear, counted), *remaining]
    return used


def _read(nodes: Sequence[Node], outputs: Collection[str]) -> list[Node]:
    """The nodes that these outputs need."""
    needed, kept = set(outputs), list[Node]()
    for node in reversed(nodes):
        if not needed.isdisjoint(node.outputs):
            kept.append(node)
            needed.update(node.inputs)
    return kept[::-1]


def _computed(graph: EditableGraph, linear: Mapping[Linear, str], counted: tuple[str, int]) -> list[Node]:
    """Nodes that compute all these numbers together, and give each list of them under its name."""
    if not linear:
        return []
    name, axis = counted
    base, each = (
        graph.add_numbers(f"{_MADE}_{part}", [number for value in linear for number in getattr(value, part)])
        for part in ("base", "each")
    )
    lengths = graph.add_numbers(f"{_MADE}_lengths", [len(value.base) for value in linear])
    place, first = graph.add_numbers(f"{_MADE}_axis", [axis]), graph.add_numbers(f"{_MADE}_first", [0])
    lists = [f"{found}_list" if value.single else found for value, found in linear.items()]
    sizes, count, product, total = (f"{_MADE}_{part}" for part in ("sizes", "count", "product", "total"))
    return [
        Node("Shape", [name], [sizes]),
        Node("Gather", [sizes, place], [count]),
        Node("Mul", [count, each], [product]),
        Node("Add", [product, base], [total]),
        Node("Split", [total, lengths], lists),
        *(Node("Squeeze", [f"{found}_list", first], [found]) for value, found in linear.items() if value.single),
    ]
