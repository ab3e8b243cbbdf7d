"""Rewrites graphs whose inputs and outputs are for exactly one stream, so that they take any number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from streamer.graphs.protobuf import Content, copied, fields, text_of, written

_GRAPH, _PORTS, _NAME, _SIZE, _SIZE_NAME = 7, (11, 12), 1, 1, 2  # numbers of fields; inputs and outputs are ports
_SHAPE: Final = (2, 1, 2)  # in a port: of its type, of the tensor there, of its shape
_STREAMS: Final = b"streams"


def with_free_batch(content: Content, axes: Mapping[str, int]) -> bytes:
    """The content of an ONNX file, where these axes of its inputs and outputs may have any size. Damaged if it is none.

    What is written inside the graph stays: onnxruntime says so when it computes, if that was made for one stream only.
    """

    def port(content: bytes) -> bytes:
        values = fields(content, 0, len(content))
        name = next((text_of(content, value) for number, value in values if number == _NAME), "")
        if name not in axes:
            return content
        return _changed(content, _SHAPE, lambda shape: _freed(shape, axes[name]))

    return _each(content, (_GRAPH,), lambda graph: _each(graph, _PORTS, port))


def _freed(shape: bytes, axis: int) -> bytes:
    sizes = [copied(shape, value) for number, value in fields(shape, 0, len(shape)) if number == _SIZE]
    sizes[axis] = written([(_SIZE_NAME, _STREAMS)])
    return written((_SIZE, size) for size in sizes)


def _changed(content: Content, path: tuple[int, ...], change: Callable[[bytes], bytes]) -> bytes:
    """The message, where the message that this path leads to is changed."""
    first, *rest = path
    return _each(content, (first,), (lambda part: _changed(part, tuple(rest), change)) if rest else change)


def _each(content: Content, numbers: tuple[int, ...], change: Callable[[bytes], bytes]) -> bytes:
    """The message, where each field with one of these numbers is changed."""
    values = ((number, copied(content, value)) for number, value in fields(content, 0, len(content)))
    return written(
        (number, change(value) if number in numbers and isinstance(value, bytes) else value) for number, value in values
    )
