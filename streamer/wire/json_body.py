"""Reads JSON bodies: with a recording in base64, which is decoded as it comes, or with the address of one. Pure.

OpenRouter made the first for OpenAI's path: `{"model": …, "input_audio": {"data": …, "format": …}, "language": …}`.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from enum import Enum
from typing import Final

from streamer.base.codes import ErrorCode
from streamer.base.json_types import JsonObject
from streamer.base.text import json_text
from streamer.wire.errors import WireError, bad
from streamer.wire.upload import LONGEST_FIELDS, Address, Field

_RECORDING: Final = re.compile(rb'"input_audio"\s*:\s*\{[^{}]*?"data"\s*:\s*"')
_CLOSING: Final = b'"}}'  # ends the document after the beginning of the recording
_ADDRESS: Final = b"data:"  # some clients send the recording as an address that has it within
_LONGEST_ADDRESS: Final = 256  # bytes before the recording in such an address


class _State(Enum):
    BEFORE = "before"  # the recording
    RECORDING = "recording"
    AFTER = "after"


class JsonReader:
    """A reader that takes the bytes of the JSON, and yields its fields and the bytes of the recording."""

    def __init__(self) -> None:
        self.has_file = False  # the recording has begun
        self._state = _State.BEFORE
        self._before = bytearray()
        self._after = bytearray()
        self._recording = _Base64()
        self._early: set[str] = set()  # the names of the fields before the recording

    def feed(self, data: bytes) -> Iterator[Field | bytes]:
        """Take bytes, and yield fields and bytes of the recording. Raise WireError if this is not such a document."""
        if self._state is _State.BEFORE:
            self._before += data
            match = _RECORDING.search(self._before)
            _check_length(match.end() if match else len(self._before))
            if match is None:
                return
            data = bytes(self._before[match.end() :])
            del self._before[match.end() :]
            document = _document(bytes(self._before) + _CLOSING)
            self._early = set(document)
            yield from _fields(document)
            self.has_file = True
            self._state = _State.RECORDING
        if self._state is _State.RECORDING:
            end = data.find(b'"')
            if recording := self._recording.decode(data if end < 0 else data[:end], whole=end >= 0):
                yield recording
            if end < 0:
                return
            data = data[end:]
            self._state = _State.AFTER
        self._after += data
        _check_length(len(self._after))

    def finish(self) -> Iterator[Field]:
        """Yield the fields after the recording. Raise WireError if the document is not complete, or has none."""
        document = _document(bytes(self._before + self._after))
        place = document.get("input_audio")
        if self._state is not _State.AFTER or not isinstance(place, dict) or place.get("data") != "":
            why = 'The JSON has no recording: send it in base64, as {"input_audio": {"data": …}}, or send a form.'
            raise bad(ErrorCode.BAD_FORM, why)
        yield from _fields({name: value for name, value in document.items() if name not in self._early})


class AddressReader:
    """A reader of JSON that names the address of the recording, as Deepgram's clients send it: `{"url": …}`."""

    has_file = False

    def __init__(self) -> None:
        self._text = bytearray()

    def feed(self, data: bytes) -> Iterator[Field | bytes]:
        """Take bytes, and yield nothing. Raise WireError if there are too many."""
        self._text += data
        _check_length(len(self._text))
        yield from ()

    def finish(self) -> Iterator[Address]:
        """Yield the address. Raise WireError if there is none."""
        address = _document(bytes(self._text)).get("url")
        if not isinstance(address, str) or not address.strip():
            raise bad(ErrorCode.BAD_FORM, "The JSON has no 'url' with the address of a recording.")
        yield Address(address.strip())


class _Base64:
    """Decodes base64 from a string of JSON, in pieces."""

    def __init__(self) -> None:
        self._begun = False
        self._rest = b""  # not decoded yet
        self._padded = False  # so nothing may follow

    def decode(self, text: bytes, *, whole: bool) -> bytes:
        """Return the bytes that are complete. `whole`: nothing follows. Raise WireError if it is not base64."""
        text = (self._rest + text).replace(rb"\/", b"/")  # some clients escape the slash
        if not self._begun:
            self._begun = whole or _is_complete(text)
            if not self._begun:
                self._rest = text
                return b""
            text = text.partition(b",")[2] if text.startswith(_ADDRESS) else text
        size = len(text) - (len(text) % 4 if not whole else 0)
        # A backslash at the end may be the first half of an escaped slash.
        size -= 4 if not whole and text[:size].endswith(b"\\") else 0
        text, self._rest = text[:size], text[size:]
        if not text:
            return b""
        if whole:
            text += b"=" * (-len(text) % 4)  # some clients leave the padding out
        if self._padded:
            raise _not_base64()
        self._padded = text.endswith(b"=")
        try:
            return base64.b64decode(text, validate=True)
        except ValueError:
            raise _not_base64() from None


def _is_complete(text: bytes) -> bool:
    """Return whether a text that may be an address has all that comes before its recording."""
    may_go_on = text.startswith(_ADDRESS) or _ADDRESS.startswith(text)
    return b"," in text or len(text) >= _LONGEST_ADDRESS or not may_go_on


def _document(text: bytes) -> JsonObject:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise bad(ErrorCode.BAD_FORM, "The body is not valid JSON.") from None
    if not isinstance(document, dict):
        raise bad(ErrorCode.BAD_FORM, "The body must be a JSON object.")
    return document


def _fields(document: JsonObject) -> Iterator[Field]:
    """Yield the fields as a form would have them. Those of objects have no meaning here."""
    for name, value in document.items():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, str):
                yield Field(name, each)
            elif isinstance(each, (bool, int, float)):
                yield Field(name, json_text(each))


def _check_length(size: int) -> None:
    if size > LONGEST_FIELDS:
        raise bad(ErrorCode.BAD_FORM, f"The JSON has more than {LONGEST_FIELDS} bytes beside the recording.")


def _not_base64() -> WireError:
    return bad(ErrorCode.BAD_FORM, "'input_audio.data' is not valid base64.")
