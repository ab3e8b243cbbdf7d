"""Reads a form with a file (multipart/form-data) piece by piece. Fields come out whole, the file in pieces. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from streamer.wire.errors import WireError, bad

MOST_PARTS: Final = 300  # a form may have a part for each hotword
LONGEST_FIELDS: Final = 64 * 1024  # bytes of all fields together, without the file
_LONGEST_HEAD: Final = 8 * 1024  # of one part
_LONGEST_BOUNDARY: Final = 70
_BOUNDARY: Final = re.compile(r'boundary=(?:"([^"]+)"|([^\s;"]+))', re.IGNORECASE)
_PARAMETER: Final = re.compile(r';\s*([\w*-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;]+))')
FORM: Final = "multipart/form-data"


@dataclass(frozen=True)
class Field:
    """One field with its value."""

    name: str
    value: str


class _State(Enum):
    PREAMBLE = "preamble"  # before the first boundary
    BOUNDARY = "boundary"  # what follows a boundary
    HEAD = "head"  # of a part
    CONTENT = "content"
    OVER = "over"


def is_form(content_type: str) -> bool:
    """Return whether a body with this content type is a form."""
    return content_type.partition(";")[0].strip().lower() == FORM


class FormReader:
    """A reader that takes the bytes of a form, and yields its fields and the bytes of the part `file`."""

    def __init__(self, content_type: str) -> None:
        """Take the content type of the form. Raise WireError if it names no boundary."""
        match = _BOUNDARY.search(content_type)
        boundary = (match.group(1) or match.group(2)) if match else ""
        if not 1 <= len(boundary) <= _LONGEST_BOUNDARY or not boundary.isascii():
            raise _invalid("its type names no boundary")
        self._mark = b"\r\n--" + boundary.encode()
        self._buffer = bytearray(b"\r\n")  # so that a boundary at the very beginning counts too
        self._state = _State.PREAMBLE
        self._name = ""
        self._is_file = False
        self._value = bytearray()
        self._parts = 0
        self._field_bytes = 0  # of all fields together
        self.has_file = False  # a part `file` has begun

    @property
    def over(self) -> bool:
        """True when the last boundary has come."""
        return self._state is _State.OVER

    def feed(self, data: bytes) -> Iterator[Field | bytes]:
        """Take bytes, and yield complete fields and bytes of the file. Raise WireError if this is not a form."""
        self._buffer += data
        while True:
            before = self._state, len(self._buffer)
            if self._state is _State.OVER:
                self._buffer.clear()  # whatever follows is no part of the form
                return
            if self._state is _State.BOUNDARY:
                self._read_boundary()
            elif self._state is _State.HEAD:
                self._read_head()
            else:
                yield from self._read_content()
            if before == (self._state, len(self._buffer)):
                return

    def finish(self) -> None:
        """Check that the form is complete and has a file. Raise WireError if not."""
        if not self.over:
            raise _invalid("it ends before its last boundary")
        if not self.has_file:
            raise bad("bad_form", "The form has no part with the name 'file': send the recording in one.")

    def _read_boundary(self) -> None:
        if self._buffer.startswith(b"--"):
            self._state = _State.OVER
            return
        end = self._buffer.find(b"\r\n")
        if end < 0 and len(self._buffer) < _LONGEST_HEAD:
            return
        if end < 0 or self._buffer[:end].strip(b" \t"):
            raise _invalid("a boundary is not alone on its line")
        del self._buffer[: end + 2]
        self._state = _State.HEAD

    def _read_head(self) -> None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0 or end > _LONGEST_HEAD:
            if len(self._buffer) > _LONGEST_HEAD:
                raise _invalid(f"the head of a part is longer than {_LONGEST_HEAD} bytes")
            return
        self._name = _name_of(bytes(self._buffer[:end]).decode("utf-8", "replace"))
        del self._buffer[: end + 4]
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise _invalid(f"it has more than {MOST_PARTS} parts")
        self._is_file = self._name == "file"
        if self._is_file and self.has_file:
            raise bad("bad_form", "The form has two parts with the name 'file': send one recording in a request.")
        self.has_file = self.has_file or self._is_file
        self._value.clear()
        self._state = _State.CONTENT

    def _read_content(self) -> Iterator[Field | bytes]:
        """Yield everything up to the next boundary. Bytes that may be the beginning of a boundary wait for more."""
        end = self._buffer.find(self._mark)
        last = end if end >= 0 else max(0, len(self._buffer) - len(self._mark) + 1)
        content = bytes(self._buffer[:last])
        del self._buffer[: end + len(self._mark) if end >= 0 else last]
        state, self._state = self._state, _State.BOUNDARY if end >= 0 else self._state
        if state is _State.PREAMBLE:
            return
        if self._is_file:
            if content:
                yield content
            return
        self._field_bytes += len(content)
        if self._field_bytes > LONGEST_FIELDS:
            raise _invalid(f"its fields have more than {LONGEST_FIELDS} bytes together")
        self._value += content
        if end >= 0:
            yield Field(self._name, self._value.decode("utf-8", "replace"))


def _name_of(head: str) -> str:
    """Return the name of the part that has this head."""
    for line in head.split("\r\n"):
        title, _, value = line.partition(":")
        if title.strip().lower() == "content-disposition":
            for name, quoted, plain in _PARAMETER.findall(value):
                if name.lower() == "name":
                    return re.sub(r"\\(.)", r"\1", quoted) or str(plain)
    raise _invalid("a part has no name")


def _invalid(fault: str) -> WireError:
    return bad("bad_form", f"The body is not a valid form ({FORM}): {fault}.")
