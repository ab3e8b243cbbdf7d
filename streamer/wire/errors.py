"""The errors that a client receives, with close codes, code words (`streamer/base/codes.py`) and sentences."""

from __future__ import annotations

import json
from enum import IntEnum

from streamer.base.codes import ErrorCode


class CloseCode(IntEnum):
    """The reason why a connection is closed, as a number."""

    DONE = 1000
    REFUSED = 1008
    TOO_LARGE = 1009
    FAILED = 1011
    TRY_LATER = 1013
    BAD_MESSAGE = 4000
    BAD_AUDIO = 4001
    IDLE = 4008
    RESUMED_ELSEWHERE = 4010
    TOO_FAST = 4029


class WireError(Exception):
    """A client's message that cannot be served: a code word, the close code, a sentence for the client."""

    def __init__(self, code: ErrorCode, close_code: CloseCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.close_code = close_code
        self.message = message


def bad(code: ErrorCode, message: str) -> WireError:
    """Return the error for a message that cannot be understood."""
    return WireError(code, CloseCode.BAD_MESSAGE, message)


def kind_of(value: object) -> str:
    """Return the kind of a JSON value in words, for a message."""
    return kind_name(type(value))


def kind_name(kind: type) -> str:
    """Return a type of JSON values in words, for a message."""
    return _KINDS[kind]


def quote(value: object) -> str:
    """Return a client's value as a sentence can quote it: shortened, and escaped because it may not be valid UTF-8."""
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:39] + "…"


_KINDS: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number with a fraction",
    str: "a string",
    list: "a list",
    dict: "an object",
    type(None): "null",
}
