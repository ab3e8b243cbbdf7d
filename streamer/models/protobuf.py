"""Reads and writes protobuf messages by the numbers of their fields. ONNX files and tables of pieces are such messages.

A message is a list of fields. Each field has a number, and a value: a number, or bytes that mean text, numbers or
another message. Reading does not copy bytes: a value says where they begin and end.

A file may be hostile. A field of two bytes takes two hundred in memory. So the fields of a message have a limit, and
only those that matter are kept.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterable, Iterator
from typing import Final

MOST_FIELDS: Final = 1 << 18
"""The most fields of a message, and the most numbers of a field."""
_LONGEST: Final = (1 << 64) - 1

Content = mmap.mmap | bytes
Value = int | tuple[int, int]
"""A number, or where the bytes of the value begin and end."""

Pieces = list[bytes | memoryview]
"""A message in pieces, which follow each other."""


class Damaged(Exception):
    """The bytes are no protobuf message, or they end too early."""


def fields(content: Content, at: int, end: int) -> Iterator[tuple[int, Value]]:
    """Yield the fields of a message: the number of each, and its value. Raise Damaged if there are too many."""
    left = MOST_FIELDS
    while at < end:
        left -= 1
        if left < 0:
            raise Damaged
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


def values_of(content: Content, part: tuple[int, int], *numbers: int) -> dict[int, Value]:
    """Return the values of these fields of a message; of a field that is there several times, the last one."""
    return {number: value for number, value in fields(content, *part) if number in numbers}


def part_of(value: Value) -> tuple[int, int]:
    """Return where the bytes of a value are. Raise Damaged if it is a number."""
    if isinstance(value, int):
        raise Damaged
    return value


def number_of(value: Value) -> int:
    """Return a value that is a number. Raise Damaged if it is not."""
    if not isinstance(value, int):
        raise Damaged
    return value


def signed(number: int) -> int:
    """Return a number that may be negative: a message has it as if it had 64 bits without a sign."""
    return number - (1 << 64) if number >> 63 else number


def numbers_of(content: Content, value: Value) -> list[int]:
    """Return the numbers of a repeated field: the value is one of them, or bytes with all of them."""
    if isinstance(value, int):
        return [value]
    at, end = value
    numbers = []
    while at < end:
        number, at = _varint(content, at, end)
        numbers.append(number)
        if len(numbers) > MOST_FIELDS:
            raise Damaged
    return numbers


def text_of(content: Content, value: Value | None) -> str:
    """Return a value that is text; empty if there is no value."""
    if value is None:
        return ""
    begin, end = part_of(value)
    return content[begin:end].decode()


def copy_of(content: Content, value: Value) -> bytes | int:
    """Return the number of a value, or a copy of its bytes."""
    if isinstance(value, int):
        return value
    return content[slice(*value)]


def view_of(content: memoryview, value: Value) -> memoryview | int:
    """Return the number of a value, or a view of its bytes."""
    return value if isinstance(value, int) else content[slice(*value)]


def encode(values: Iterable[tuple[int, int | float | bytes | memoryview | Pieces]]) -> bytes:
    """Return a message with these fields. A value is a number, bytes, or a message in pieces.

    A fraction gets 32 bits.
    """
    return b"".join(pieces(values))


def pieces(values: Iterable[tuple[int, int | float | bytes | memoryview | Pieces]]) -> Pieces:
    """Return the same message in pieces, as a part of a larger message. So large values are copied only once."""
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
    value &= _LONGEST  # a negative number gets 64 bits
    result = bytearray()
    while value >= 0x80:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)


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
