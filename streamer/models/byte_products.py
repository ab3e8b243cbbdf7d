"""Products of rows in bytes, each with a scale of its own, so that no row depends on another one.

    x' = QuantizeLinear(x / scales of the rows of x) -> MatMulIntegerToFloat(x', w', scale of w) -> Mul(scales)

Exports in int8 have one scale for all rows of a batch instead. `int8_graph` makes products of full numbers of them,
`DequantizeLinear(w', scale of w) -> MatMul(x, w)`, and `multiply_bytes` those above. The weights stay bytes in memory.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from typing import Final, Protocol

from streamer.models.editable_graph import EditableGraph, Node, Tensor
from streamer.models.graph_writer import CONTRIBUTED
from streamer.models.onnx_file import ElementType

_LEAST: Final = 1e-8  # a row of zeros has a scale, too
_AXES_ARE_AN_INPUT: Final = 18  # from this version of operators on


class NodeWriter(Protocol):
    """Adds nodes and constants to a graph."""

    version: int
    """Of the standard operators."""

    def node(self, operator: str, *inputs: str, domain: str = "", **attributes: Sequence[int]) -> str:
        """Add a node with one result, and return its name."""
        ...

    def constant(self, content: bytes, shape: Sequence[int], kind: ElementType) -> str:
        """Add a constant, and return its name."""
        ...


class RowProducts:
    """Writes products of rows in bytes. Those that read the same rows share their bytes.

    Processors without operations for bytes add up two products in 16 bits. So the bits of rows and of tables, with
    their signs, are 15 together.
    """

    def __init__(self, graph: NodeWriter, row_bits: int) -> None:
        self._graph, self._rounded = graph, dict[str, tuple[str, str]]()
        zero = 1 << (row_bits - 1)
        self._zero = graph.constant(bytes([zero]), [], ElementType.UINT8)
        self._one, self._least, self._step = (self._fraction(each) for each in (1.0, _LEAST, 1 / (zero - 1)))
        self._axes = None
        if graph.version >= _AXES_ARE_AN_INPUT:
            self._axes = graph.constant(struct.pack("<q", -1), [1], ElementType.INT64)

    def product(self, rows: str, table: str, scale: str, *zero: str) -> str:
        """Add the product of rows and a table of bytes, which has a scale for all of it or for each column."""
        rounded, scales = self._bytes(rows)
        inputs = (rounded, table, self._one, scale, self._zero, *zero)
        return self._graph.node("Mul", self._graph.node("MatMulIntegerToFloat", *inputs, domain=CONTRIBUTED), scales)

    def _bytes(self, rows: str) -> tuple[str, str]:
        """Return rows as bytes, and the scale of each row."""
        if rows not in self._rounded:
            write = self._graph.node
            lowest = write("Neg", self._reduced("ReduceMin", rows))
            scales = write("Mul", write("Max", self._reduced("ReduceMax", rows), lowest, self._least), self._step)
            scaled = write("Mul", rows, write("Reciprocal", scales))
            self._rounded[rows] = write("QuantizeLinear", scaled, self._one, self._zero), scales
        return self._rounded[rows]

    def _reduced(self, operator: str, rows: str) -> str:
        if self._axes is None:
            return self._graph.node(operator, rows, axes=[-1])
        return self._graph.node(operator, rows, self._axes)

    def _fraction(self, number: float) -> str:
        return self._graph.constant(struct.pack("<f", number), [], ElementType.FLOAT)


# Rewrites the products of a graph whose weights are bytes.

_FIRST_VERSION: Final = 13  # of operators: the first one with which this was tested
_TABLE: Final = 2  # the number of axes of a table
_BYTES: Final = (ElementType.UINT8, ElementType.INT8)
_ROW_BITS: Final = 7  # tables have eight


def multiply_bytes(content: bytes) -> bytes:
    """Return the content of a file whose products multiply bytes. If there is no such product, it is the same."""
    graph = EditableGraph(content)
    tables = {node.outputs[0]: node for node in graph.nodes if _is_table(graph, node)}
    read = Counter(node.inputs[1] for node in graph.nodes if _is_product(node, tables))
    if graph.version < _FIRST_VERSION or not read:
        return content
    readers = Counter(name for node in graph.nodes for name in node.inputs)
    unread = {name for name, count in read.items() if count == readers[name] and name not in graph.outputs}
    writer = _AddedNodes(graph)
    products = RowProducts(writer, _ROW_BITS)
    nodes: list[Node] = []
    for node in graph.nodes:
        if _is_product(node, tables):
            products.product(node.inputs[0], *tables[node.inputs[1]].inputs)
            nodes += writer.taken(node.outputs)
        elif not unread.intersection(node.outputs):
            nodes.append(node)
    graph.nodes = nodes
    graph.need(CONTRIBUTED)
    return graph.content()


def _is_table(graph: EditableGraph, node: Node) -> bool:
    """Return whether a node turns a constant table of bytes into full numbers, with no scale for a row of it."""
    if node.operator != "DequantizeLinear" or node.number("axis", 1) != 1:
        return False
    port = graph.weights.get(node.inputs[0])
    return port is not None and port.type in _BYTES and port.shape is not None and len(port.shape) == _TABLE


def _is_product(node: Node, tables: dict[str, Node]) -> bool:
    return node.operator == "MatMul" and node.inputs[1] in tables


class _AddedNodes:
    """The nodes that are added to a graph."""

    def __init__(self, graph: EditableGraph) -> None:
        self.version = graph.version
        self._graph, self._count, self._nodes = graph, 0, list[Node]()

    def node(self, operator: str, *inputs: str, domain: str = "", **attributes: Sequence[int]) -> str:
        """Add a node with one result, and return its name."""
        node = Node(operator, list(inputs), [self._name()], domain=domain)
        for name, numbers in attributes.items():
            node.set_numbers(name, numbers)
        self._nodes.append(node)
        return node.outputs[0]

    def constant(self, content: bytes, shape: Sequence[int], kind: ElementType) -> str:
        """Add a constant, and return its name."""
        return self._graph.add(self._name(), Tensor(kind, tuple(shape), content))

    def taken(self, outputs: list[str]) -> list[Node]:
        """Return the nodes that were added since. The last one has these outputs."""
        taken, self._nodes = self._nodes, []
        taken[-1].outputs = outputs
        return taken

    def _name(self) -> str:
        self._count += 1
        return f"rows_in_bytes_{self._count}"
