"""Reads values that clients of other services send, in a query as text or in a message as JSON. Pure.

What is wrong raises WireError with a sentence that says what is right.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from typing import Final

from streamer.base.codes import ErrorCode
from streamer.base.json_types import JsonObject
from streamer.base.limits import DEFAULT_MODEL
from streamer.base.text import is_unicode
from streamer.wire.dialects.dialect import Languages
from streamer.wire.errors import bad, quote
from streamer.wire.native import LONGEST_TEXT

ON: Final = ("true", "1")
OFF: Final = ("", "false", "0", "none", "null")  # with these a client asks for nothing


def command_of(text: str, longest: int = LONGEST_TEXT) -> JsonObject | None:
    """Return a message of a client as an object; None if it is none, or too long."""
    try:
        content = json.loads(text) if len(text) <= longest else None
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def flag(name: str, value: object) -> bool:
    """Read what is on or off."""
    text = str(value).lower()
    if isinstance(value, (list, dict)) or text not in (*ON, *OFF):
        raise bad(ErrorCode.BAD_OPTION, f"'{name}' must be true or false, not {quote(value)}.")
    return text in ON


def number(name: str, value: object, bounds: tuple[float, float]) -> float:
    """Read a number within these bounds."""
    try:
        read = float(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        read = math.nan
    if not bounds[0] <= read <= bounds[1]:
        right = f"a number from {bounds[0]:g} to {bounds[1]:g}"
        raise bad(ErrorCode.BAD_OPTION, f"'{name}' must be {right}, not {quote(value)}.")
    return read


def whole(name: str, value: object, bounds: tuple[int, int]) -> int:
    """Read a number within these bounds, and round it."""
    return round(number(name, value, bounds))


def texts(name: str, value: object) -> list[str]:
    """Read a list of texts, which can be sent back. One text is a list too, also one in JSON; null is an empty one."""
    entries: object = value
    if isinstance(value, str):
        try:
            entries = json.loads(value) if value.startswith("[") else [value]
        except (ValueError, RecursionError):
            entries = None
    elif value is None:
        entries = []
    if not isinstance(entries, list) or not all(isinstance(entry, str) and is_unicode(entry) for entry in entries):
        raise bad(ErrorCode.BAD_OPTION, f"'{name}' must be a list of texts, not {quote(value)}.")
    return list(entries)


def samples(name: str, value: object) -> bytes:
    """Read audio that is a text in base64."""
    try:
        audio = base64.b64decode(value, validate=True) if isinstance(value, str) else None
    except ValueError:
        audio = None
    if audio is None:
        raise bad(ErrorCode.BAD_MESSAGE, f"'{name}' must be a string in base64, not {quote(value)}.")
    return audio


def part(parent: JsonObject, name: str) -> JsonObject:
    """Read an object within a message; an empty one if it is not there."""
    value = parent.get(name)
    if value is not None and not isinstance(value, dict):
        raise bad(ErrorCode.BAD_OPTION, f"'{name}' must be an object, not {quote(value)}.")
    return value or {}


def any_part(parent: object, name: str) -> JsonObject:
    """Return an object within another one; an empty one if it is not there, or something else."""
    value = parent.get(name) if isinstance(parent, dict) else None
    return value if isinstance(value, dict) else {}


def refuse(values: Mapping[str, object], reasons: Mapping[str, str]) -> None:
    """Refuse the first option that has a reason and is switched on."""
    for name, reason in reasons.items():
        if str(values.get(name, "")).lower() not in OFF:
            raise bad(ErrorCode.BAD_OPTION, f"'{name}' is not supported: {reason}. Leave it out.")


def languages_of(model: str, models: Mapping[str, Languages]) -> Languages:
    """Return the languages of the model that a client names; of the usual one if there is no such model."""
    return models.get(model, models.get(DEFAULT_MODEL, ()))
