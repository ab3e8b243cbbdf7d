"""Rewrites products with weights in bytes, so that bytes are multiplied, and no row depends on another one.

`int8_graph` leaves products of full numbers. This module replaces the first line of nodes by the second, in which each
row has a scale of its own instead of one for the whole batch:

    DequantizeLinear(w', scale of w) -> MatMul(x, w)
    x' = QuantizeLinear(x / scales of the rows of x) -> MatMulIntegerToFloat(x', w', scale of w) -> Mul(scales)

The weights stay bytes in memory.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from typing import Final

from streamer.models.editable_graph import EditableGraph, Node, Tensor
from streamer.models.graph_writer import CONTRIBUTED
from streamer.models.onnx_file import ElementType

_FIRST_VERSION: Final = 13  # of operators: the first one with which this was tested
_AXES_ARE_AN_INPUT: Final = 18  # from this version of operators on
_TABLE: Final = 2  # the number of axes of a table
_BYTES: Final = (ElementType.UINT8, ElementType.INT8)
_PREFIX: Final = "rows_in_bytes"
# Processors without operations for bytes add up two products in 16 bits. Weights have eight bits here, so rows have
# seven: 2 * 127 * 128 is less than 2 ** 15.
_ZERO: Final = 64
_LARGEST: Final = 63
_LEAST: Final = 1e-8  # a row of zeros has a scale, too


def multiply_bytes(content: bytes) -> bytes:
    """Return the content of a file whose products multiply bytes. If there is no such product, it is the same."""
    graph = EditableGraph(content)
    makers = {output: node for node in graph.nodes for output in node.outputs}
    readers: dict[str, int] = defaultdict(int)
    for node in graph.nodes:
        for name in node.inputs:
            readers[name] += 1
    tables = {
        output: node
        for output, node in makers.items()
        if node.operator == "DequantizeLinear" and _is_table(graph, node) and output not in graph.outputs
    }
    products = [node for node in graph.nodes if node.operator == "MatMul" and node.inputs[1] in tables]
    if graph.version < _FIRST_VERSION or not products:
        return content
    writer = _Writer(graph)
    replaced = {id(node): writer.product(node, tables[node.inputs[1]]) for node in products}
    read = {name: sum(node.inputs[1] == name for node in products) for name in tables}
    unread = {id(tables[name]) for name, count in read.items() if count == readers[name]}
    graph.nodes = [part for node in graph.nodes if id(node) not in unread for part in replaced.get(id(node), [node])]
    graph.need(CONTRIBUTED)
    return graph.content()


def _is_table(graph: EditableGraph, node: Node) -> bool:
    """Return whether a node turns a constant table of bytes into full numbers."""
    port = graph.weights.get(node.inputs[0])
    return port is not None and port.type in _BYTES and port.shape is not None and len(port.shape) == _TABLE


class _Writer:
    """Writes the nodes of products. Those that read the same rows share their bytes."""

    def __init__(self, graph: EditableGraph) -> None:
        self._rounded = set[str]()
        self._axes_are_an_input = graph.version >= _AXES_ARE_AN_INPUT
        self._axes = graph.add_numbers(f"{_PREFIX}_axes", [-1])
        for name, number in (("one", 1.0), ("least", _LEAST), ("step", 1 / _LARGEST)):
            graph.add(f"{_PREFIX}_{name}", Tensor(ElementType.FLOAT, (), struct.pack("<f", number)))
        graph.add(f"{_PREFIX}_zero", Tensor(ElementType.UINT8, (), bytes([_ZERO])))

    def product(self, node: Node, table: Node) -> list[Node]:
        """Return the nodes instead of this product with this table."""
        [output], rows = node.outputs, node.inputs[0]
        one, zero = (f"{_PREFIX}_{name}" for name in ("one", "zero"))
        weights, scale, *weights_zero = table.inputs
        nodes, (rounded, scales) = self._bytes(rows)
        inputs = [rounded, weights, one, scale, zero, *weights_zero]
        whole = f"{output}_{_PREFIX}"
        nodes.append(Node("MatMulIntegerToFloat", inputs, [whole], domain=CONTRIBUTED))
        return [*nodes, Node("Mul", [whole, scales], [output])]

    def _bytes(self, rows: str) -> tuple[list[Node], tuple[str, str]]:
        """Return the nodes that round these rows, if none do yet, and the names of their bytes and their scales."""
        names = [
            f"{rows}_{_PREFIX}_{part}" for part in ("bytes", "scales", "max", "min", "low", "top", "factor", "own")
        ]
        rounded, scales, highest, lowest, low, top, factor, scaled = names
        if rows in self._rounded:
            return [], (rounded, scales)
        self._rounded.add(rows)
        one, least, step, zero = (f"{_PREFIX}_{name}" for name in ("one", "least", "step", "zero"))
        nodes = [
            self._reduce("ReduceMax", rows, highest),
            self._reduce("ReduceMin", rows, lowest),
            Node("Neg", [lowest], [low]),
            Node("Max", [highest, low, least], [top]),
            Node("Mul", [top, step], [scales]),
            Node("Reciprocal", [scales], [factor]),
            Node("Mul", [rows, factor], [scaled]),
            Node("QuantizeLinear", [scaled, one, zero], [rounded]),
        ]
        return nodes, (rounded, scales)

    def _reduce(self, operator: str, rows: str, output: str) -> Node:
        node = Node(operator, [rows, self._axes] if self._axes_are_an_input else [rows], [output])
        if not self._axes_are_an_input:
            node.set_numbers("axes", [-1])
        return node
