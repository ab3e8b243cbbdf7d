"""A graph as lists of nodes and constants, which code can change and write again. Weights are not copied."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from struct import unpack
from typing import Final

from streamer.models.onnx_file import MOST_AXES, ElementType, Port, port_of
from streamer.models.protobuf import (
    Content,
    Damaged,
    Value,
    encode,
    fields,
    number_of,
    numbers_of,
    part_of,
    pieces,
    text_of,
    values_of,
    view_of,
)

_OPSET, _GRAPH = 8, 7  # numbers of fields in a model
_NODE, _WEIGHT, _INPUT, _OUTPUT, _BETWEEN = 1, 5, 11, 12, 13  # in a graph; _BETWEEN has types of inner values
_ATTRIBUTE: Final = 5  # in a node
_NAME, _NUMBER, _TENSOR, _NUMBERS, _TYPE = 1, 3, 5, 8, 20  # in an attribute
_FLOAT_BYTES: Final = 4
_MOST_ATTRIBUTES: Final = 1000  # of a node
_SOME_NUMBERS: Final = 7  # the type of an attribute


@dataclass
class Node:
    """A node: its operator, the names of its inputs and outputs, and the encoded attributes."""

    operator: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, bytes] = field(default_factory=dict)
    domain: str = ""

    def number(self, name: str, default: int) -> int:
        """Return an attribute that is a number; the default if the node does not have it."""
        content = self.attributes.get(name, b"")
        values = [value for number, value in fields(content, 0, len(content)) if number == _NUMBER]
        return number_of(values[0]) if values else default

    def numbers(self, name: str) -> list[int] | None:
        """Return an attribute that is a list of numbers; None if the node does not have it."""
        content = self.attributes.get(name)
        if content is None:
            return None
        values = (value for number, value in fields(content, 0, len(content)) if number == _NUMBERS)
        return [number for value in values for number in numbers_of(content, value)]

    @property
    def single_float(self) -> float | None:
        """The value of a constant that is a single number of four bytes; None if it is something else."""
        content = self.attributes.get("value", b"")
        parts = [part_of(value) for number, value in fields(content, 0, len(content)) if number == _TENSOR]
        if not parts:
            return None
        tensor = values_of(content, parts[0], 1, 2, 9)
        raw = tensor.get(9)
        if 1 in tensor or tensor.get(2) != ElementType.FLOAT or raw is None:  # a tensor with a size is a list
            return None
        begin, end = part_of(raw)
        return float(unpack("<f", content[begin:end])[0]) if end - begin == _FLOAT_BYTES else None

    def set_numbers(self, name: str, numbers: Sequence[int]) -> None:
        """Set an attribute that is a list of numbers."""
        values = [(_NUMBERS, number) for number in numbers]
        self.attributes[name] = encode([(_NAME, name.encode()), *values, (_TYPE, _SOME_NUMBERS)])

    @property
    def content(self) -> bytes:
        """The encoded node."""
        return encode(
            [
                *((1, name.encode()) for name in self.inputs),
                *((2, name.encode()) for name in self.outputs),
                (3, f"{self.outputs[0]}_{self.operator}".encode()),
                (4, self.operator.encode()),
                *((_ATTRIBUTE, content) for content in self.attributes.values()),
                *([(7, self.domain.encode())] if self.domain else []),
            ]
        )


@dataclass(frozen=True)
class Tensor:
    """A constant. `numbers`: its numbers one after the other, each with the lowest byte first."""

    type: ElementType
    shape: tuple[int, ...]
    numbers: bytes

    @classmethod
    def of_numbers(cls, numbers: Sequence[int]) -> Tensor:
        """Return a constant that is a list of whole numbers."""
        content = b"".join(number.to_bytes(8, "little", signed=True) for number in numbers)
        return cls(ElementType.INT64, (len(numbers),), content)

    def content(self, name: str) -> bytes:
        """Return the encoded constant with this name."""
        sizes = ((1, size) for size in self.shape)
        return encode([*sizes, (2, self.type), (8, name.encode()), (9, self.numbers)])


class EditableGraph:
    """The graph of an ONNX file. Raises Damaged if this is no ONNX file.

    `inputs`: all inputs except weights. `outputs`: the names of the outputs. `weights`: the constants of the graph.
    """

    def __init__(self, content: Content) -> None:
        self._view = memoryview(content)
        self._model = list(fields(content, 0, len(content)))
        graph = next((value for number, value in self._model if number == _GRAPH), None)
        if graph is None:
            raise Damaged
        self._others: list[tuple[int, Value]] = []  # the fields of the graph that are not nodes
        self._weights: dict[str, Value] = {}
        self.weights: dict[str, Port] = {}
        self.nodes: list[Node] = []
        ports: list[Port] = []
        self.outputs: list[str] = []
        for number, value in fields(content, *part_of(graph)):
            if number == _NODE:
                self.nodes.append(_node(content, part_of(value)))
                continue
            self._others.append((number, value))
            if number == _WEIGHT:
                port = _weight(content, part_of(value))
                self.weights[port.name], self._weights[port.name] = port, value
            elif number == _INPUT:
                ports.append(port_of(content, part_of(value)))
            elif number == _OUTPUT:
                self.outputs.append(port_of(content, part_of(value)).name)
        # Old exports list their weights among the inputs too.
        self.inputs = [port for port in ports if port.name not in self.weights]
        self._versions = _versions(content, (part_of(value) for number, value in self._model if number == _OPSET))
        self.version = self._versions.get("", 0)
        """The version of the standard operators."""
        self._opsets: list[bytes] = []
        self._added: list[bytes] = []

    def add_numbers(self, name: str, numbers: Sequence[int]) -> str:
        """Add a list of whole numbers as a constant. Return its name."""
        return self.add(name, Tensor.of_numbers(numbers))

    def add(self, name: str, tensor: Tensor) -> str:
        """Add a constant. Return its name."""
        self._added.append(tensor.content(name))
        return name

    def need(self, domain: str) -> None:
        """Note that nodes have operators of this domain."""
        if domain not in self._versions:
            self._versions[domain] = 1
            self._opsets.append(encode([(1, domain.encode()), (2, 1)]))

    def content(self) -> bytes:
        """Return the content of a file with this graph."""
        return self._file(
            [
                *((_NODE, node.content) for node in self.nodes),
                *((number, self._view_of(value)) for number, value in self._others if number != _BETWEEN),
                *((_WEIGHT, content) for content in self._added),
            ]
        )

    def part(
        self, nodes: Iterable[Node], weights: Collection[str], inputs: Iterable[Port], outputs: Iterable[str]
    ) -> bytes:
        """Return the content of a file with only these nodes, weights, inputs and outputs."""
        return self._file(
            [
                *((_NODE, node.content) for node in nodes),
                (2, b"part"),
                *((_WEIGHT, self._view_of(value)) for name, value in self._weights.items() if name in weights),
                *((_INPUT, _port_content(port)) for port in inputs),
                *((_OUTPUT, encode([(1, name.encode())])) for name in outputs),
            ]
        )

    def _file(self, parts: Iterable[tuple[int, int | bytes | memoryview]]) -> bytes:
        graph = pieces(parts)
        model = ((number, graph if number == _GRAPH else self._view_of(value)) for number, value in self._model)
        return encode([*model, *((_OPSET, opset) for opset in self._opsets)])

    def _view_of(self, value: Value) -> int | memoryview:
        return view_of(self._view, value)


def _node(content: Content, part: tuple[int, int]) -> Node:
    node = Node("", [], [])
    for number, value in fields(content, *part):
        if number == 1:
            node.inputs.append(text_of(content, value))
        elif number == 2:
            node.outputs.append(text_of(content, value))
        elif number == 4:
            node.operator = text_of(content, value)
        elif number == 7:
            node.domain = text_of(content, value)
        elif number == _ATTRIBUTE:
            begin, end = part_of(value)
            attribute = values_of(content, (begin, end), _NAME)
            node.attributes[text_of(content, attribute.get(_NAME))] = bytes(content[begin:end])
            if len(node.attributes) > _MOST_ATTRIBUTES:
                raise Damaged
    return node


def _weight(content: Content, part: tuple[int, int]) -> Port:
    """Return the name, type and shape of a constant."""
    name, type_, shape = "", 0, list[int]()
    for number, value in fields(content, *part):
        if number == 1:
            shape += numbers_of(content, value)
            if len(shape) > MOST_AXES:
                raise Damaged
        elif number == 2:
            type_ = number_of(value)
        elif number == 8:
            name = text_of(content, value)
    return Port(name, ElementType(type_), tuple(shape))


def _port_content(port: Port) -> bytes:
    sizes = [(1, size) if isinstance(size, int) else (2, size.encode()) for size in port.shape or ()]
    shape = encode((1, encode([size])) for size in sizes)
    return encode([(1, port.name.encode()), (2, encode([(1, encode([(1, port.type), (2, shape)]))]))])


def _versions(content: Content, parts: Iterable[tuple[int, int]]) -> dict[str, int]:
    """Return the versions of the operators by their domain; the standard ones have none."""
    operators = (values_of(content, part, 1, 2) for part in parts)
    return {text_of(content, each.get(1)): number_of(each.get(2, 0)) for each in operators}
