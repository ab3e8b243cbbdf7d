"""Reads and writes protobuf messages, in which ONNX graphs and tables of pieces are kept, by numbers of fields.

A message is a list of fields. Each has a number, and a value: a number, or bytes that mean text, numbers or another
message. Bytes are not copied: a value says where they begin and end.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterable, Iterator
from typing import Final

_LONGEST: Final = (1 << 64) - 1

Content = mmap.mmap | bytes
Value = int | tuple[int, int]
"""A number, or where the bytes of the value begin and end."""

Pieces = list[bytes | memoryview]
"""A message, one after the other."""


class Damaged(Exception):
    """The bytes are no protobuf message, or end too early."""


def fields(content: Content, at: int, end: int) -> Iterator[tuple[int, Value]]:
    """The fields of a message: their numbers, and their numbers or where their bytes are."""
    while at < end:
        key, at = _varint(content, at, end)
        field, wire = key >> 3, key & 7
        value: Value
        if wire == 0:
            value, at = _varint(content, at, end)
        elif wire == 2:
            length, at = _varint(content, at, end)
            value, at = (at, at + length), at + length
        elif wire in (1, 5):
            value, at = (at, at + (8 if wire == 1 else 4)), at + (8 if wire == 1 else 4)
        else:
            raise Damaged
        if at > end or not field:
            raise Damaged
        yield field, value


def part_of(value: Value) -> tuple[int, int]:
    """Where the bytes of this value are. Damaged if it is a number."""
    if isinstance(value, int):
        raise Damaged
    return value


def number_of(value: Value) -> int:
    """This number. Damaged if it is something else."""
    if not isinstance(value, int):
        raise Damaged
    return value


def numbers_of(content: Content, value: Value) -> list[int]:
    """The numbers of a field that is repeated: this one, or all of them together in these bytes."""
    if isinstance(value, int):
        return [value]
    at, end = value
    found = []
    while at < end:
        number, at = _varint(content, at, end)
        found.append(number)
    return found


def text_of(content: Content, value: Value | None) -> str:
    """This text; empty if there is none."""
    if value is None:
        return ""
    begin, end = part_of(value)
    return content[begin:end].decode()


def copied(content: Content, value: Value) -> bytes | int:
    """This number, or the bytes of this value."""
    if isinstance(value, int):
        return value
    return content[slice(*value)]


def viewed(content: memoryview, value: Value) -> memoryview | int:
    """This number, or where the bytes of this value are, not copied."""
    return value if isinstance(value, int) else content[slice(*value)]


def written(values: Iterable[tuple[int, int | float | bytes | memoryview | Pieces]]) -> bytes:
    """A message with these fields: their numbers, and their numbers, bytes, or messages in pieces.

    A fraction is written in 32 bits.
    """
    return b"".join(pieces(values))


def pieces(values: Iterable[tuple[int, int | float | bytes | memoryview | Pieces]]) -> Pieces:
    """The same message in pieces, for a larger one. So what is large is copied only once."""
    parts: Pieces = []
    for field, value in values:
        if isinstance(value, float):
            parts += [_as_varint(field << 3 | 5), struct.pack("<f", value)]
        elif isinstance(value, int):
            parts += [_as_varint(field << 3), _as_varint(value)]
        elif isinstance(value, list):
            parts += [_as_varint(field << 3 | 2), _as_varint(sum(map(len, value))), *value]
        else:
            parts += [_as_varint(field << 3 | 2), _as_varint(len(value)), value]
    return parts


def _as_varint(value: int) -> bytes:
    value &= _LONGEST  # a negative number is written as one of 64 bits
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _varint(content: Content, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 64:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise Damaged
