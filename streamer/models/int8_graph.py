"""Rewrites graphs that compute in int8, so that they compute in full numbers with the same weights.

An export in int8 rounds the input of a product to 256 steps, with one scale for the whole batch. So the numbers of a
stream would depend on the other streams. This module replaces the first line of nodes by the second:

    DynamicQuantizeLinear(x) -> MatMulInteger(x', w') -> Cast -> Mul(scale of x * scale of w)
    DequantizeLinear(w', scale of w) -> MatMul(x, w)

`byte_products` may then round each row of a product by itself. Convolutions (`ConvInteger`) are replaced in the same
way. Recurrent networks round inside (`DynamicQuantizeLSTM`), and their weights have another order of axes. onnxruntime
computes the weights only once, when it loads the graph. Weights in int8 that are looked up row by row (`Gather`,
`DequantizeLinear`) stay as they are, because their scales are fixed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streamer.models.protobuf import Content, Damaged, copy_of, encode, fields, part_of, text_of, view_of

ROUNDING: Final = b"DynamicQuantize"
"""The bytes that every graph which rounds its inputs contains."""
_GRAPH, _NODE, _WEIGHT, _INPUT, _OUTPUT, _NAME, _OPERATOR, _ATTRIBUTE = 7, 1, 5, 1, 2, 3, 4, 5  # numbers of fields
_TABLE: Final = 2  # the number of axes of a table
_FULL: Final = {"MatMulInteger": "MatMul", "ConvInteger": "Conv"}  # products in int8, and in full numbers
_RECURRENT: Final = "DynamicQuantizeLSTM"
# The places of weights, their scales and their zeros among the inputs. The other inputs are those of an LSTM.
_WEIGHT_PLACES: Final = ((1, 8, 9), (2, 10, 11))
_WITH_GRAPHS: Final = ("If", "Loop", "Scan")


class UnknownInt8(ValueError):
    """The graph rounds in a way that this module does not know. The message is the operator."""


@dataclass(frozen=True)
class _Node:
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    content: bytes


@dataclass(frozen=True)
class _Product:
    """A product in int8: the places of its nodes in order, and what it multiplies."""

    places: tuple[int, ...]
    operator: str  # the operator of the product in full numbers
    rounding: int  # the place of the node that rounds its input
    scales: int  # the place of the node that multiplies the scales
    input: str
    weights: tuple[str, ...]  # the names of the weights, their scale, and their zero if there is one
    output: str


class Int8Graph:
    """An ONNX file that computes in int8. Raises UnknownInt8 if it cannot be rewritten, Damaged if it is no graph."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._model = list(fields(content, 0, len(content)))
        graph = next((value for number, value in self._model if number == _GRAPH), None)
        if graph is None:
            raise Damaged
        self._graph = list(fields(content, *part_of(graph)))
        self._nodes = [_node(content[slice(*part_of(value))]) for number, value in self._graph if number == _NODE]
        self._axes = dict(_axes(content, part_of(value)) for number, value in self._graph if number == _WEIGHT)
        self._maker = {name: place for place, node in enumerate(self._nodes) for name in node.outputs}
        self._readers: dict[str, list[int]] = defaultdict(list)
        for place, node in enumerate(self._nodes):
            for name in node.inputs:
                self._readers[name].append(place)
        self._products = [self._product(place) for place, node in enumerate(self._nodes) if node.operator in _FULL]
        self._recurrent = {
            place: _full_recurrent(node, f"full_{place}", self._axes)
            for place, node in enumerate(self._nodes)
            if node.operator == _RECURRENT
        }
        self._dropped = {place for product in self._products for place in product.places} | self._recurrent.keys()
        self._drop_unread()
        for place, node in enumerate(self._nodes):
            hidden = node.operator in _WITH_GRAPHS and ROUNDING in node.content
            if place not in self._dropped and (node.operator.encode().startswith(ROUNDING) or hidden):
                raise UnknownInt8(next(self._readers_of(node), node.operator))

    def full_content(self) -> bytes:
        """Return the content of the file with products of full numbers."""
        products = {product.places[-1]: product for product in self._products}
        nodes: list[bytes] = []
        for place, node in enumerate(self._nodes):
            if place in products:
                nodes += self._full(products[place], f"full_{place}")
            elif place in self._recurrent:
                nodes += self._recurrent[place]
            elif place not in self._dropped:
                nodes.append(node.content)
        # Weights have many bytes, so they are copied only once, at the end.
        view = memoryview(self._content)
        others = [(number, view_of(view, value)) for number, value in self._graph if number != _NODE]
        graph = encode([*((_NODE, node) for node in nodes), *others])
        return encode((number, graph if number == _GRAPH else view_of(view, value)) for number, value in self._model)

    def _full(self, product: _Product, name: str) -> list[bytes]:
        node = self._nodes[product.places[0]]
        return [
            _node_content("DequantizeLinear", product.weights, name),
            _node_content(product.operator, (product.input, name), product.output, _attributes(node)),
        ]

    def _product(self, place: int) -> _Product:
        """Return the product whose node is at this place."""
        node = self._nodes[place]
        rounding_place = self._maker_of(node.inputs[0], "DynamicQuantizeLinear", node)
        cast = self._only_reader(node.outputs[0], "Cast", node)
        scaling = self._only_reader(self._nodes[cast].outputs[0], "Mul", node)
        scales = [name for name in self._nodes[scaling].inputs if name != self._nodes[cast].outputs[0]]
        if len(scales) != 1:
            raise UnknownInt8(node.operator)
        scales_place, rounding = self._maker_of(scales[0], "Mul", node), self._nodes[rounding_place]
        scale = [name for name in self._nodes[scales_place].inputs if name != rounding.outputs[1]]
        zeros = node.inputs[2:]
        if len(scale) != 1 or zeros[:1] != rounding.outputs[2:3]:
            raise UnknownInt8(node.operator)
        weights = (node.inputs[1], scale[0], *(name for name in zeros[1:] if name))
        if self._axes.get(scale[0]) and (self._axes.get(node.inputs[1]) != _TABLE or node.operator == "ConvInteger"):
            raise UnknownInt8(node.operator)  # a scale for each column is supported only for tables
        output = self._nodes[scaling].outputs[0]
        full = _FULL[node.operator]
        places = (place, cast, scaling)
        return _Product(places, full, rounding_place, scales_place, rounding.inputs[0], weights, output)

    def _maker_of(self, name: str, operator: str, product: _Node) -> int:
        """Return the place of the node that makes this value. Raise UnknownInt8 if it has another operator."""
        place = self._maker.get(name)
        if place is None or self._nodes[place].operator != operator:
            raise UnknownInt8(product.operator)
        return place

    def _only_reader(self, name: str, operator: str, product: _Node) -> int:
        readers = self._readers[name]
        if len(readers) != 1 or self._nodes[readers[0]].operator != operator:
            raise UnknownInt8(product.operator)
        return readers[0]

    def _drop_unread(self) -> None:
        """Drop the nodes that make scales and round inputs, if only dropped nodes read their outputs."""
        for helpers in ({product.scales for product in self._products}, {each.rounding for each in self._products}):
            self._dropped |= {
                place
                for place in helpers
                if all(reader in self._dropped for name in self._nodes[place].outputs for reader in self._readers[name])
            }

    def _readers_of(self, node: _Node) -> Iterator[str]:
        """Return the operators of the nodes that read this node's outputs."""
        return (
            self._nodes[reader].operator
            for name in node.outputs
            for reader in self._readers[name]
            if reader not in self._dropped
        )


def _full_recurrent(node: _Node, name: str, axes: Mapping[str, int]) -> list[bytes]:
    """Return the nodes of the same recurrent network in full numbers."""
    inputs, nodes = list(node.inputs[:8]), []
    for at, *scaling in _WEIGHT_PLACES:
        scale, zero = (node.inputs[place] for place in scaling)
        if axes.get(scale, _TABLE) >= _TABLE:
            raise UnknownInt8(node.operator)  # a scale for each number of a row
        nodes.append(_node_content("DequantizeLinear", (node.inputs[at], scale, zero), f"{name}_{at}_swapped"))
        nodes.append(_node_content("Transpose", (f"{name}_{at}_swapped",), f"{name}_{at}", [_SWAP_AXES]))
        inputs[at] = f"{name}_{at}"
    return [*nodes, _node_content("LSTM", inputs, node.outputs, _attributes(node))]


def _node_content(
    operator: str, inputs: Sequence[str], outputs: str | Sequence[str], attributes: Sequence[bytes] = ()
) -> bytes:
    names = [outputs] if isinstance(outputs, str) else outputs
    values: Iterable[tuple[int, bytes]] = [
        *((_INPUT, name.encode()) for name in inputs),
        *((_OUTPUT, name.encode()) for name in names),
        (_NAME, f"{names[0]}_{operator}".encode()),
        (_OPERATOR, operator.encode()),
        *((_ATTRIBUTE, attribute) for attribute in attributes),
    ]
    return encode(values)


def _attributes(node: _Node) -> list[bytes]:
    values = (
        copy_of(node.content, value)
        for number, value in fields(node.content, 0, len(node.content))
        if number == _ATTRIBUTE
    )
    return [value for value in values if isinstance(value, bytes)]


# The attribute `perm` of a transposition: its name, its type (numbers), and an order that swaps the last two axes.
_SWAP_AXES: Final = encode([(1, b"perm"), (20, 7), (8, 0), (8, 2), (8, 1)])


def _node(content: bytes) -> _Node:
    operator, inputs, outputs = "", [], []
    for number, value in fields(content, 0, len(content)):
        if number == _INPUT:
            inputs.append(text_of(content, value))
        elif number == _OUTPUT:
            outputs.append(text_of(content, value))
        elif number == _OPERATOR:
            operator = text_of(content, value)
    return _Node(operator, tuple(inputs), tuple(outputs), content)


def _axes(content: Content, part: tuple[int, int]) -> tuple[str, int]:
    """Return the name of a weight, and the number of its axes."""
    name, axes = "", 0
    for number, value in fields(content, *part):
        if number == 8:
            name = text_of(content, value)
        elif number == 1:
            # Each size is a field, or one field has all of them. Only the last byte of a number is less than 128.
            axes += 1 if isinstance(value, int) else sum(byte < 0x80 for byte in content[slice(*value)])
    return name, axes
