"""Reads the metadata, the inputs and the outputs of an ONNX file, and skips its weights.

An ONNX file is a protobuf message, and a file of onnxruntime's own format (`.ort`) is one of FlatBuffers. This module
reads only the few fields that matter. So a command can check a model of several hundred megabytes in milliseconds,
without onnxruntime, and before onnxruntime reads a damaged file.

The file may be hostile: what is kept of it has limits, and names that cannot be printed are refused.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path, PurePosixPath
from typing import Final

from streamer.models.int8_graph import ROUNDING, Int8Graph, UnknownInt8
from streamer.models.protobuf import Content, Damaged, fields, number_of, part_of, signed, text_of, values_of

Dimension = int | str
"""A fixed size, or the name of a size that may differ from run to run. The name may be empty."""

MOST_PORTS: Final = 4096  # inputs, and outputs
MOST_AXES: Final = 16
MOST_METADATA: Final = 4096
MOST_PARTS: Final = 1 << 17  # nodes, weights, inputs, outputs and types of inner values
LONGEST_NAME: Final = 1000
LARGEST_SIZE: Final = 1 << 31
_LARGEST_PLACE: Final = 1 << 62  # in a file
_OFTEN: Final = 2  # how often the bytes of a file with weights may be used, on average
_DIGITS: Final = 20  # of the largest number of 64 bits; Python refuses to read thousands of them with its own error
_LFS: Final = b"version https://git-lfs"


class GraphFileError(ValueError):
    """The file is no complete ONNX graph. The message says what is wrong."""


class ElementType(IntEnum):
    """The types of tensors that streaming models use, with their numbers in ONNX."""

    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    INT32 = 6
    INT64 = 7
    BOOL = 9
    FLOAT16 = 10
    OTHER = 0

    @property
    def width(self) -> int:
        """The bytes of one element; four for OTHER."""
        if self in (ElementType.UINT8, ElementType.INT8, ElementType.BOOL):
            return 1
        return {ElementType.INT64: 8, ElementType.FLOAT16: 2}.get(self, 4)

    @classmethod
    def _missing_(cls, value: object) -> ElementType:
        return cls.OTHER


@dataclass(frozen=True)
class Port:
    """An input or an output of a graph. `shape` is None if the file does not have it."""

    name: str
    type: ElementType
    shape: tuple[Dimension, ...] | None


@dataclass(frozen=True)
class GraphFile:
    """The metadata, the inputs and the outputs of an ONNX file.

    `quantised`: it computes in int8, and must be rewritten before its use. `alone`: it computes in int8 in a way that
    cannot be rewritten, with this operator. Its numbers depend on the whole batch, so each stream needs a run of its
    own. `freed`: the axes of inputs and outputs that
    must be rewritten, because the file has exactly one stream there. `beside`: other files, with weights of the graph.
    `ort`: the file has the format of onnxruntime, in which nothing can be rewritten.
    """

    path: Path
    metadata: dict[str, str]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    quantised: bool
    beside: tuple[Path, ...] = ()
    freed: Mapping[str, int] = field(default_factory=dict)
    ort: bool = False
    alone: str = ""

    @property
    def size(self) -> int:
        """The bytes of all files of the graph."""
        return sum(path.stat().st_size for path in (self.path, *self.beside))


def read_graph_file(path: Path) -> GraphFile:
    """Read a file. Raise GraphFileError if it is damaged, cut off, or no ONNX graph."""
    try:
        if path.exists() and not path.is_file():  # nothing may ever come out of a pipe
            raise GraphFileError(f"{path} is no file")
        with path.open("rb") as file:
            if not path.stat().st_size:
                raise GraphFileError(f"{path} is empty: copy it again")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                if content[: len(_LFS)] == _LFS:
                    raise GraphFileError(f"{path} is only a pointer to a file of Git LFS: run `git lfs pull` beside it")
                if content[len(_ORT_MARK) : 2 * len(_ORT_MARK)] == _ORT_MARK:
                    return _read_ort(path, content)
                return _read(path, content)
    except OSError as error:
        raise GraphFileError(f"{path} cannot be read: {error.strerror}") from error
    except (Damaged, UnicodeDecodeError, IndexError) as error:  # IndexError: a node in int8 without its inputs
        raise GraphFileError(f"{path} is cut off or is not an ONNX graph: copy it again") from error


def _read(path: Path, content: mmap.mmap) -> GraphFile:
    metadata: dict[str, str] = {}
    graph: tuple[int, int] | None = None
    for count, (number, value) in enumerate(fields(content, 0, len(content)), 1):
        _check_count(path, count, MOST_METADATA, "entries in its metadata")
        if number == 7:
            graph = part_of(value)
        elif number == 14:
            pair = values_of(content, part_of(value), 1, 2)
            metadata[text_of(content, pair.get(1))] = text_of(content, pair.get(2))
    if graph is None:
        raise Damaged
    weights: set[str] = set()
    outside: dict[Path, list[_Place]] = {}
    inputs: list[Port] = []
    outputs: list[Port] = []
    for count, (number, value) in enumerate(fields(content, *graph), 1):
        _check_count(path, count, MOST_PARTS, "nodes and weights")
        if number == 5:
            name, place = _weight(path, content, part_of(value))
            weights.add(name)
            if place is not None:
                outside.setdefault(place.file, []).append(place)
        elif number == 11:
            inputs.append(_checked(path, port_of(content, part_of(value))))
        elif number == 12:
            outputs.append(_checked(path, port_of(content, part_of(value))))
            _check_count(path, len(outputs), MOST_PORTS, "outputs")
    for beside, places in outside.items():
        _check_beside(path, beside, places)
    # Old exports list their weights among the inputs too.
    real = tuple(port for port in inputs if port.name not in weights)
    if not real or not outputs:
        raise Damaged
    _check_count(path, len(real), MOST_PORTS, "inputs")
    quantised, alone = content.find(ROUNDING) >= 0, ""
    if quantised:
        try:
            Int8Graph(content)
        except UnknownInt8 as error:
            quantised, alone = False, str(error)
    return GraphFile(path, metadata, real, tuple(outputs), quantised, tuple(outside), alone=alone)


def whole_number(text: str, most: int) -> int | None:
    """Return a number from 0 to `most` in decimal digits, as metadata has it; None if the text is anything else."""
    plain = text.strip()
    if not plain.isascii() or not plain.isdecimal() or len(plain) > _DIGITS:
        return None
    number = int(plain)
    return number if number <= most else None


def _check_count(path: Path, count: int, most: int, what: str) -> None:
    if count > most:
        raise GraphFileError(f"{path} has more than {most} {what}, which no model has")


def _checked(path: Path, port: Port) -> Port:
    """Return this input or output. Raise GraphFileError for a name that cannot be printed, or for wild sizes."""
    if len(port.name) > LONGEST_NAME or not port.name.isprintable():
        raise GraphFileError(f"{path} has an input or output named {port.name[:80]!r}, as no export would")
    wild = [size for size in port.shape or () if isinstance(size, int) and not 0 <= size < LARGEST_SIZE]
    if wild:
        raise GraphFileError(f"{path} has {port.name} of the size {wild[0]}, which is impossible")
    return port


# Weights in other files: a graph may only read files of its own folder, and only what is in them.


@dataclass(frozen=True)
class _Place:
    """Where the numbers of a weight are in another file. `length`: None if the graph does not say it."""

    file: Path
    offset: int
    length: int | None


def _weight(path: Path, content: mmap.mmap, part: tuple[int, int]) -> tuple[str, _Place | None]:
    """Return the name of a weight. If another file has its numbers, also return where they are."""
    name, outside = "", dict[str, str]()
    for number, value in fields(content, *part):
        if number == 8:
            name = text_of(content, value)
        elif number == 13:
            pair = values_of(content, part_of(value), 1, 2)
            outside[text_of(content, pair.get(1))] = text_of(content, pair.get(2))
            _check_count(path, len(outside), MOST_AXES, "facts about a weight outside of it")
    location = outside.get("location")
    if location is None:
        return name, None
    # An import copies no folders within the folder. And what lies outside belongs to somebody else.
    names = PurePosixPath(location).parts
    if len(names) != 1 or names[0] in ("..", "/") or "\\" in location or not location.isprintable():
        raise GraphFileError(f"{path} has weights in the file {location[:80]!r}, which is not in its own folder")
    offset, length = (_whole_place(path, location, outside.get(key)) for key in ("offset", "length"))
    return name, _Place(path.parent / names[0], offset or 0, length)


def _whole_place(path: Path, location: str, text: str | None) -> int | None:
    number = None if text is None else whole_number(text, _LARGEST_PLACE)
    if number is None and text is not None:
        raise GraphFileError(f"{path} has weights at the place {text[:80]!r} of {location}, which is impossible")
    return number


def _check_beside(path: Path, beside: Path, places: list[_Place]) -> None:
    """Check that the file with these weights of this graph exists, is complete, and has as many bytes as they need."""
    if not beside.is_file():
        raise GraphFileError(f"{path} needs the file {beside.name} with its weights, which is not in the folder")
    with beside.open("rb") as file:
        if file.read(len(_LFS)) == _LFS:
            raise GraphFileError(f"{beside} is only a pointer to a file of Git LFS: run `git lfs pull` beside it")
    size = beside.stat().st_size
    if size < max(place.offset + (place.length or 0) for place in places):
        raise GraphFileError(f"{beside} is cut off: {path.name} has weights beyond its end; copy it again")
    # Otherwise a thousand weights, each with all bytes of the file, would take a thousand times its memory.
    used = (size - place.offset if place.length is None else place.length for place in places)
    if sum(used) > _OFTEN * size:
        raise GraphFileError(f"{path} has weights that share the bytes of {beside.name}, as no export would")


# Inputs and outputs.


def port_of(content: Content, part: tuple[int, int]) -> Port:
    """Return the input or output that this part of the file describes."""
    port = values_of(content, part, 1, 2)
    name, kind, shape = text_of(content, port.get(1)), 0, None
    if 2 in port:
        for number, tensor in fields(content, *part_of(port[2])):
            if number != 1:
                continue
            for inner, value in fields(content, *part_of(tensor)):
                if inner == 1:
                    kind = number_of(value)
                elif inner == 2:
                    axes = [part_of(axis) for field, axis in fields(content, *part_of(value)) if field == 1]
                    if len(axes) > MOST_AXES:
                        raise Damaged
                    shape = tuple(_dimension(content, axis) for axis in axes)
    return Port(name, ElementType(kind), shape)


def _dimension(content: Content, part: tuple[int, int]) -> Dimension:
    for number, value in fields(content, *part):
        if number == 1:
            return signed(number_of(value))
        if number == 2:
            return text_of(content, value)
    return ""


# The same of a file in the format of onnxruntime. Its tables have numbered fields, each of which may be missing.

_ORT_MARK: Final = b"ORTM"  # after the first four bytes
_LARGEST_ORT: Final = 1 << 31  # bytes: places in such a file have 31 bits
_ROUNDS: Final = b"DynamicQuantize"  # how the names of operators begin that scale their input by the whole batch
_OF_SESSION, _OF_MODEL = 1, 7  # the fields with the model, and with its graph
_WEIGHTS, _VALUES, _INPUTS, _OUTPUTS = 0, 1, 5, 6  # of a graph
_BYTES: Final = 4  # of a weight
_NAME, _TYPE = 0, 2  # of a value
_TENSOR: Final = 1  # the kind of a type that is a tensor


class _Table:
    """A table of a message. Damaged if anything that is read lies outside of the file."""

    def __init__(self, content: mmap.mmap, at: int) -> None:
        self._content, self._at = content, at
        self._fields = at - self._unpack("<i", at)
        self._size = self._unpack("<H", self._fields)

    def number(self, field: int, form: str) -> int:
        """Return a number in this form of `struct`; 0 if the field is missing."""
        at = self._place(field)
        return 0 if at is None else self._unpack(form, at)

    def table(self, field: int) -> _Table:
        """Return the table in this field. Damaged if it is missing."""
        at = self._place(field)
        if at is None:
            raise Damaged
        return _Table(self._content, self._target(at))

    def text(self, field: int) -> str:
        """Return the text in this field; empty if it is missing."""
        at = self._place(field)
        return "" if at is None else self._text(self._target(at))

    def tables(self, field: int, most: int) -> Iterator[_Table]:
        """Yield the tables of a list. Damaged if there are more than `most`."""
        return (_Table(self._content, at) for at in self._targets(field, most))

    def texts(self, field: int, most: int) -> list[str]:
        """Return the texts of a list. Damaged if there are more than `most`."""
        return [self._text(at) for at in self._targets(field, most)]

    def check_bytes(self, field: int) -> None:
        """Raise Damaged if the bytes in this field are not all in the file."""
        place = self._place(field)
        if place is not None:
            at = self._target(place)
            if at + 4 + self._unpack("<I", at) > len(self._content):
                raise Damaged

    def _place(self, field: int) -> int | None:
        entry = 4 + 2 * field
        offset = self._unpack("<H", self._fields + entry) if entry + 2 <= self._size else 0
        return self._at + offset if offset else None

    def _target(self, at: int) -> int:
        return at + self._unpack("<I", at)

    def _targets(self, field: int, most: int) -> list[int]:
        place = self._place(field)
        if place is None:
            return []
        at = self._target(place)
        count = self._unpack("<I", at)
        if count > most:
            raise Damaged
        return [self._target(at + 4 + 4 * number) for number in range(count)]

    def _text(self, at: int) -> str:
        length = self._unpack("<I", at)
        if length > LONGEST_NAME or at + 4 + length > len(self._content):
            raise Damaged
        return self._content[at + 4 : at + 4 + length].decode()

    def _unpack(self, form: str, at: int) -> int:
        if at < 0 or at + struct.calcsize(form) > len(self._content):
            raise Damaged
        (number,) = struct.unpack_from(form, self._content, at)
        return int(number)


def _read_ort(path: Path, content: mmap.mmap) -> GraphFile:
    if len(content) > _LARGEST_ORT:
        raise Damaged
    (root,) = struct.unpack_from("<I", content, 0)
    graph = _Table(content, root).table(_OF_SESSION).table(_OF_MODEL)
    for weight in graph.tables(_WEIGHTS, MOST_PARTS):
        weight.check_bytes(_BYTES)
    names = graph.texts(_INPUTS, MOST_PORTS), graph.texts(_OUTPUTS, MOST_PORTS)
    wanted = {name for part in names for name in part}
    ports: dict[str, Port] = {}
    for value in graph.tables(_VALUES, MOST_PARTS):
        name = value.text(_NAME)
        if name in wanted:
            ports[name] = _checked(path, _ort_port(name, value))
    if not all(names) or ports.keys() != wanted:
        raise Damaged
    inputs, outputs = (tuple(ports[name] for name in part) for part in names)
    return GraphFile(path, {}, inputs, outputs, content.find(_ROUNDS) >= 0, ort=True)


def _ort_port(name: str, value: _Table) -> Port:
    kind = value.table(_TYPE)
    if kind.number(1, "<B") != _TENSOR:
        return Port(name, ElementType.OTHER, None)
    tensor = kind.table(2)
    try:
        sizes = [axis.table(0) for axis in tensor.table(1).tables(0, MOST_AXES)]
    except Damaged:  # the shape of an inner value, or of an output, may be unknown
        return Port(name, ElementType(tensor.number(0, "<i")), None)
    shape = tuple(size.number(1, "<q") if size.number(0, "<b") == 1 else size.text(2) for size in sizes)
    return Port(name, ElementType(tensor.number(0, "<i")), shape)
