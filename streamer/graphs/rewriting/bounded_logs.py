"""The logarithm of 1 + exp(y), as icefall exports its activations, without the search for sums that are too large.

Where exp(y) is too large for a number, the exported graph takes y itself: it compares each logarithm with infinity, and
chooses. Infinity is above the largest logarithm of a number, and all others are not. So the smaller one of the
logarithm and of y, with y no smaller than that largest one, is the same, and takes half the time.
"""

from __future__ import annotations

import math
from typing import Final

from streamer.graphs.onnx_file import ElementType
from streamer.graphs.rewriting.editable_graph import EditableGraph, Node, Tensor

_FIRST_VERSION: Final = 13  # of operators that were tried
_LARGEST: Final = bytes.fromhex("1872b142")  # the largest logarithm of a number of four bytes: 88.7228394
_BOUND: Final = "largest_logarithm"


def bound_logs(graph: EditableGraph) -> int:
    """Rewrite these logarithms. Returns how many there were."""
    if graph.version < _FIRST_VERSION:
        return 0
    made = {output: node for node in graph.nodes for output in node.outputs}
    nodes: list[Node] = []
    for node in graph.nodes:
        exponent = _exponent(node, made)
        nodes += [node] if exponent is None else _bounded(node, exponent)
    found = len(nodes) - len(graph.nodes)
    if found:
        graph.add(_BOUND, Tensor(ElementType.FLOAT, (), _LARGEST))
        graph.nodes = nodes
    return found


def _exponent(node: Node, made: dict[str, Node]) -> str | None:
    """If a node chooses between such a logarithm and its exponent, the name of the exponent."""
    if node.operator != "Where" or len(node.inputs) != 3:
        return None
    condition, exponent, logarithm = node.inputs
    compared = made.get(condition)
    if compared is None or compared.operator != "Equal" or logarithm not in compared.inputs:
        return None
    [other] = [name for name in compared.inputs if name != logarithm] or [""]
    log = _below(made.get(logarithm), made)
    total = None if log is None or log.operator != "Log" else made.get(log.inputs[0])
    if total is None or total.operator != "Add" or _number(made.get(other)) != math.inf:
        return None
    for power, one in (total.inputs, total.inputs[::-1]):
        found = made.get(power)
        if found is not None and found.operator == "Exp" and found.inputs == [exponent]:
            return exponent if _number(made.get(one)) == 1 else None
    return None


def _below(node: Node | None, made: dict[str, Node]) -> Node | None:
    """The node itself, or the one whose numbers it gives as numbers of four bytes."""
    if node is not None and node.operator == "Cast" and node.number("to", 0) == ElementType.FLOAT:
        return made.get(node.inputs[0])
    return node


def _number(node: Node | None) -> float | None:
    """The constant that a node gives; None if it is no single number of four bytes."""
    return None if node is None or node.operator != "Constant" else node.single_float


def _bounded(node: Node, exponent: str) -> list[Node]:
    [output] = node.outputs
    higher = f"{output}_bounded"
    return [Node("Max", [exponent, _BOUND], [higher]), Node("Min", [node.inputs[2], higher], [output])]
