"""A graph as lists of nodes and constants, which can be changed and written again. Weights are not copied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from streamer.graphs.onnx_file import ElementType
from streamer.graphs.protobuf import Content, Damaged, Value, fields, number_of, numbers_of, part_of, text_of, written

_OPSET, _GRAPH = 8, 7  # numbers of fields in a model
_NODE, _WEIGHT = 1, 5  # in a graph
_ATTRIBUTE: Final = 5  # in a node
_NAME, _NUMBER, _NUMBERS, _TYPE = 1, 3, 8, 20  # in an attribute
_SOME_NUMBERS: Final = 7  # the type of an attribute


@dataclass
class Node:
    """A node: its operator, the names of its inputs and outputs, and its attributes as they are written."""

    operator: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, bytes] = field(default_factory=dict)
    domain: str = ""

    def number(self, name: str, default: int) -> int:
        """An attribute that is a number."""
        content = self.attributes.get(name, b"")
        found = [value for number, value in fields(content, 0, len(content)) if number == _NUMBER]
        return number_of(found[0]) if found else default

    def numbers(self, name: str) -> list[int] | None:
        """An attribute that is a list of numbers; None if the node does not have it."""
        content = self.attributes.get(name)
        if content is None:
            return None
        values = (value for number, value in fields(content, 0, len(content)) if number == _NUMBERS)
        return [number for value in values for number in numbers_of(content, value)]

    def set_numbers(self, name: str, numbers: Sequence[int]) -> None:
        """Change an attribute that is a list of numbers."""
        values = [(_NUMBERS, number) for number in numbers]
        self.attributes[name] = written([(_NAME, name.encode()), *values, (_TYPE, _SOME_NUMBERS)])

    @property
    def content(self) -> bytes:
        """The node as it is written."""
        return written(
            [
                *((1, name.encode()) for name in self.inputs),
                *((2, name.encode()) for name in self.outputs),
                (3, f"{self.outputs[0]}_{self.operator}".encode()),
                (4, self.operator.encode()),
                *((_ATTRIBUTE, content) for content in self.attributes.values()),
                *([(7, self.domain.encode())] if self.domain else []),
            ]
        )


class EditableGraph:
    """The graph of an ONNX file. Damaged if it is none."""

    def __init__(self, content: Content) -> None:
        self._view = memoryview(content)
        self._model = list(fields(content, 0, len(content)))
        graph = next((value for number, value in self._model if number == _GRAPH), None)
        if graph is None:
            raise Damaged
        self._others: list[tuple[int, Value]] = []  # the fields of the graph that are not nodes
        self.nodes: list[Node] = []
        for number, value in fields(content, *part_of(graph)):
            if number == _NODE:
                self.nodes.append(_node(content, part_of(value)))
            else:
                self._others.append((number, value))
        self.version = _version(content, (part_of(value) for number, value in self._model if number == _OPSET))
        """The version of the operators."""
        self._added: list[bytes] = []

    def add_numbers(self, name: str, numbers: Sequence[int]) -> str:
        """Add a list of whole numbers as a constant. Returns its name."""
        raw = b"".join(number.to_bytes(8, "little", signed=True) for number in numbers)
        self._added.append(written([(1, len(numbers)), (2, ElementType.INT64), (8, name.encode()), (9, raw)]))
        return name

    def written(self) -> bytes:
        """The content of a file with this graph."""
        graph = written(
            [
                *((_NODE, node.content) for node in self.nodes),
                *((number, self._kept(value)) for number, value in self._others),
                *((_WEIGHT, content) for content in self._added),
            ]
        )
        return written((number, graph if number == _GRAPH else self._kept(value)) for number, value in self._model)

    def _kept(self, value: Value) -> int | memoryview:
        return value if isinstance(value, int) else self._view[slice(*value)]


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
            found = dict(fields(content, begin, end))
            node.attributes[text_of(content, found.get(_NAME))] = bytes(content[begin:end])
    return node


def _version(content: Content, parts: Iterable[tuple[int, int]]) -> int:
    """The version of the standard operators."""
    for part in parts:
        found = dict(fields(content, *part))
        if not text_of(content, found.get(1)):
            return number_of(found.get(2, 0))
    return 0
