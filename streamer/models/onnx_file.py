"""Reads the metadata, the inputs and the outputs of an ONNX file, and skips its weights.

An ONNX file is a protobuf message. This module reads only the few fields that matter. So a command can check a model of
several hundred megabytes in milliseconds, without onnxruntime, and before onnxruntime reads a damaged file.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from streamer.models.int8_graph import ROUNDING, Int8Graph, UnknownInt8
from streamer.models.protobuf import Content, Damaged, fields, number_of, part_of, text_of

Dimension = int | str
"""A fixed size, or the name of a size that may differ from run to run. The name may be empty."""

_LFS = b"version https://git-lfs"


class GraphFileError(ValueError):
    """The file is no complete ONNX graph. The message says what is wrong."""


class ElementType(IntEnum):
    """The types of tensors that streaming models use, with their numbers in ONNX."""

    FLOAT = 1
    INT32 = 6
    INT64 = 7
    BOOL = 9
    FLOAT16 = 10
    OTHER = 0

    @property
    def width(self) -> int:
        """The bytes of one element; four for OTHER."""
        return {ElementType.INT64: 8, ElementType.FLOAT16: 2, ElementType.BOOL: 1}.get(self, 4)

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

    `quantised`: it computes in int8, and must be rewritten before its use. `freed`: the axes of inputs and outputs that
    must be rewritten, because the file has exactly one stream there. `beside`: other files, with weights of the graph.
    """

    path: Path
    metadata: dict[str, str]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    quantised: bool
    beside: tuple[Path, ...] = ()
    freed: Mapping[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The bytes of all files of the graph."""
        return sum(path.stat().st_size for path in (self.path, *self.beside))


def read_graph_file(path: Path) -> GraphFile:
    """Read a file. Raise GraphFileError if it is damaged, cut off, or no ONNX graph."""
    try:
        with path.open("rb") as file:
            if not path.stat().st_size:
                raise GraphFileError(f"{path} is empty: copy it again")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                if content[: len(_LFS)] == _LFS:
                    raise GraphFileError(f"{path} is only a pointer to a file of Git LFS: run `git lfs pull` beside it")
                return _read(path, content)
    except OSError as error:
        raise GraphFileError(f"{path} cannot be read: {error.strerror}") from error
    except (Damaged, UnicodeDecodeError) as error:
        raise GraphFileError(f"{path} is cut off or is not an ONNX graph: copy it again") from error


def _read(path: Path, content: mmap.mmap) -> GraphFile:
    metadata: dict[str, str] = {}
    graph: tuple[int, int] | None = None
    for number, value in fields(content, 0, len(content)):
        if number == 7:
            graph = part_of(value)
        elif number == 14:
            pair = dict(fields(content, *part_of(value)))
            metadata[text_of(content, pair.get(1))] = text_of(content, pair.get(2))
    if graph is None:
        raise Damaged
    weights: set[str] = set()
    ends: dict[Path, int] = {}
    inputs: list[Port] = []
    outputs: list[Port] = []
    for number, value in fields(content, *graph):
        if number == 5:
            name, beside, end = _weight(path, content, part_of(value))
            weights.add(name)
            if beside is not None:
                ends[beside] = max(end, ends.get(beside, 0))
        elif number == 11:
            inputs.append(port_of(content, part_of(value)))
        elif number == 12:
            outputs.append(port_of(content, part_of(value)))
    for beside, end in ends.items():
        _check_beside(path, beside, end)
    # Old exports list their weights among the inputs too.
    real = tuple(port for port in inputs if port.name not in weights)
    if not real or not outputs:
        raise Damaged
    quantised = content.find(ROUNDING) >= 0
    if quantised:
        try:
            Int8Graph(content)
        except UnknownInt8 as error:
            unknown = f"{path} computes in int8 in a way that Streamer does not know ({error})"
            raise GraphFileError(f"{unknown}: use the file without .int8") from error
    return GraphFile(path, metadata, real, tuple(outputs), quantised, tuple(ends))


def _weight(path: Path, content: mmap.mmap, part: tuple[int, int]) -> tuple[str, Path | None, int]:
    """Return the name of a weight. If another file has its numbers, also return this file and where they end in it."""
    name, outside = "", {}
    for number, value in fields(content, *part):
        if number == 8:
            name = text_of(content, value)
        elif number == 13:
            pair = dict(fields(content, *part_of(value)))
            outside[text_of(content, pair.get(1))] = text_of(content, pair.get(2))
    if "location" not in outside:
        return name, None, 0
    try:
        end = int(outside.get("offset", 0)) + int(outside.get("length", 0))
    except ValueError:
        raise Damaged from None
    return name, path.parent / outside["location"], end


def _check_beside(path: Path, beside: Path, end: int) -> None:
    """Check that the file with weights of this graph exists and is complete."""
    if not beside.is_file():
        raise GraphFileError(f"{path} needs the file {beside.name} with its weights, which is not in the folder")
    with beside.open("rb") as file:
        if file.read(len(_LFS)) == _LFS:
            raise GraphFileError(f"{beside} is only a pointer to a file of Git LFS: run `git lfs pull` beside it")
    if beside.stat().st_size < end:
        raise GraphFileError(f"{beside} is cut off: {path.name} has weights beyond its end; copy it again")


def port_of(content: Content, part: tuple[int, int]) -> Port:
    """Return the input or output that this part of the file describes."""
    port = dict(fields(content, *part))
    name, kind, shape = text_of(content, port.get(1)), 0, None
    if 2 in port:
        for number, tensor in fields(content, *part_of(port[2])):
            if number != 1:
                continue
            for inner, value in fields(content, *part_of(tensor)):
                if inner == 1:
                    kind = number_of(value)
                elif inner == 2:
                    shape = tuple(
                        _dimension(content, part_of(dim)) for one, dim in fields(content, *part_of(value)) if one == 1
                    )
    return Port(name, ElementType(kind), shape)


def _dimension(content: Content, part: tuple[int, int]) -> Dimension:
    for number, value in fields(content, *part):
        if number == 1:
            return number_of(value)
        if number == 2:
            return text_of(content, value)
    return ""
