"""Computes the logarithm of 1 + exp(y), which icefall's activations need, with fewer operators.

If exp(y) is too large for a number, its logarithm is infinity. So the exported graph compares each logarithm with
infinity, and takes y instead. Every other logarithm is at most L, the logarithm of the largest number. So
min(logarithm, max(y, L)) gives the same result, in half the time.
"""

from __future__ import annotations

import math
from typing import Final

from streamer.graphs.onnx_file import ElementType
from streamer.graphs.rewriting.editable_graph import EditableGraph, Node, Tensor

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
