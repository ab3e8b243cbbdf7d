"""Writes a graph as an ONNX file: nodes, constants, inputs and outputs, without the library `onnx`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from streamer.models.editable_graph import Node
from streamer.models.onnx_file import Dimension, ElementType
from streamer.models.protobuf import encode

_IR: Final = 8  # the version of the format
_OPSET: Final = 17  # the version of the standard operators
CONTRIBUTED: Final = "com.microsoft"
"""The domain of operators that only onnxruntime has."""

# The numbers of an attribute's fields, and the numbers of its types.
_NAME, _FLOAT, _NUMBER, _NUMBERS, _TYPE = 1, 2, 3, 8, 20
_TYPE_FLOAT, _TYPE_NUMBER, _TYPE_NUMBERS = 1, 2, 7

Attribute = int | float | Sequence[int]


class GraphWriter:
    """A writer of one graph. Its methods add a part, and return the name of the new value."""

    version = _OPSET

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._constants: list[bytes] = []
        self._inputs: list[bytes] = []
        self._outputs: list[bytes] = []
        self._values = 0

    def input(self, name: str, shape: Sequence[Dimension], kind: ElementType = ElementType.FLOAT) -> str:
        """Add an input."""
        self._inputs.append(_port(name, shape, kind))
        return name

    def output(self, value: str, shape: Sequence[Dimension], kind: ElementType = ElementType.FLOAT) -> None:
        """Make a value an output. Outputs have the order of these calls."""
        self._outputs.append(_port(value, shape, kind))

    def constant(self, content: bytes, shape: Sequence[int], kind: ElementType) -> str:
        """Add a constant with this content."""
        name = f"constant_{len(self._constants)}"
        dimensions = ((1, size) for size in shape)
        self._constants.append(encode([*dimensions, (2, kind), (8, name.encode()), (9, content)]))
        return name

    def numbers(self, *numbers: int) -> str:
        """Add a constant that is a list of whole numbers."""
        content = b"".join(number.to_bytes(8, "little", signed=True) for number in numbers)
        return self.constant(content, [len(numbers)], ElementType.INT64)

    def number(self, number: int) -> str:
        """Add a constant that is a single whole number."""
        return self.constant(number.to_bytes(8, "little", signed=True), [], ElementType.INT64)

    def node(self, operator: str, *inputs: str, domain: str = "", **attributes: Attribute) -> str:
        """Add a node with one result."""
        [value] = self.nodes(operator, *inputs, results=1, domain=domain, **attributes)
        return value

    def nodes(self, operator: str, *inputs: str, results: int, domain: str = "", **attributes: Attribute) -> list[str]:
        """Add a node with several results. The empty name stands for an input that is left out."""
        values = [f"value_{self._values + number}" for number in range(results)]
        self._values += results
        contents = {name: _attribute(name, value) for name, value in attributes.items()}
        self._nodes.append(Node(operator, list(inputs), values, contents, domain))
        return values

    def content(self) -> bytes:
        """Return the content of the file."""
        graph = encode(
            [
                *((1, node.content) for node in self._nodes),
                (2, b"graph"),
                *_repeated(5, self._constants),
                *_repeated(11, self._inputs),
                *_repeated(12, self._outputs),
            ]
        )
        versions = [encode([(1, b""), (2, _OPSET)]), encode([(1, CONTRIBUTED.encode()), (2, 1)])]
        return encode([(1, _IR), (7, graph), *_repeated(8, versions)])


def _repeated(field: int, contents: Iterable[bytes]) -> Iterable[tuple[int, bytes]]:
    return ((field, content) for content in contents)


def _attribute(name: str, value: Attribute) -> bytes:
    name_field = (_NAME, name.encode())
    if isinstance(value, float):
        return encode([name_field, (_FLOAT, value), (_TYPE, _TYPE_FLOAT)])
    if isinstance(value, int):
        return encode([name_field, (_NUMBER, value), (_TYPE, _TYPE_NUMBER)])
    return encode([name_field, *((_NUMBERS, number) for number in value), (_TYPE, _TYPE_NUMBERS)])


def _port(name: str, shape: Sequence[Dimension], kind: ElementType) -> bytes:
    sizes = [encode([(1, size) if isinstance(size, int) else (2, size.encode())]) for size in shape]
    dimensions = encode(_repeated(1, sizes))
    return encode([(1, name.encode()), (2, encode([(1, encode([(1, kind), (2, dimensions)]))]))])
