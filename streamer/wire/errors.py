"""What is said to a client whose message cannot be served: close codes, code words and sentences."""

from __future__ import annotations

import json
from enum import IntEnum


class CloseCode(IntEnum):
    """Why a connection is closed; each cause has one code."""

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

    def __init__(self, code: str, close_code: CloseCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.close_code = close_code
        self.message = message


def bad(code: str, message: str) -> WireError:
    """A message of a client that cannot be understood."""
    return WireError(code, CloseCode.BAD_MESSAGE, message)


def kind_of(value: object) -> str:
    """What a value is, in words."""
    return named(type(value))


def named(kind: type) -> str:
    """A kind of JSON value in words."""
    return _KINDS[kind]


def shown(value: object) -> str:
    """A client's own value in a sentence: cut short, and escaped, for it may hold what UTF-8 cannot."""
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
