"""Rewrites graphs whose inputs and outputs are for exactly one stream, so that they take any number of streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from streamer.graphs.protobuf import Content, copy_of, encode, fields, text_of

_GRAPH, _PORTS, _NAME, _SIZE, _SIZE_NAME = 7, (11, 12), 1, 1, 2  # numbers of fields; inputs and outputs are ports
_SHAPE: Final = (2, 1, 2)  # the path in a port: its type, the tensor there, the shape of the tensor
_STREAMS: Final = b"streams"


def with_free_batch(content: Content, axes: Mapping[str, int]) -> bytes:
    """Return the content of an ONNX file in which these axes of inputs and outputs may have any size.

    The nodes stay as they are. If they can compute only one stream, onnxruntime says so when it computes. Raise Damaged
    if this is no ONNX file.
    """

    def port(content: bytes) -> bytes:
        values = fields(content, 0, len(content))
        name = next((text_of(content, value) for number, value in values if number == _NAME), "")
        if name not in axes:
            return content
        return _change_at(content, _SHAPE, lambda shape: _free_axis(shape, axes[name]))

    return _change_each(content, (_GRAPH,), lambda graph: _change_each(graph, _PORTS, port))


def _free_axis(shape: bytes, axis: int) -> bytes:
    sizes = [copy_of(shape, value) for number, value in fields(shape, 0, len(shape)) if number == _SIZE]
    sizes[axis] = encode([(_SIZE_NAME, _STREAMS)])
    return encode((_SIZE, size) for size in sizes)


def _change_at(content: Content, path: tuple[int, ...], change: Callable[[bytes], bytes]) -> bytes:
    """Return the message after a change of the inner message to which this path leads."""
    first, *rest = path
    return _change_each(content, (first,), (lambda part: _change_at(part, tuple(rest), change)) if rest else change)


def _change_each(content: Content, numbers: tuple[int, ...], change: Callable[[bytes], bytes]) -> bytes:
    """Return the message after a change of each field with one of these numbers."""
    values = ((number, copy_of(content, value)) for number, value in fields(content, 0, len(content)))
    return encode(
        (number, change(value) if number in numbers and isinstance(value, bytes) else value) for number, value in values
    )
