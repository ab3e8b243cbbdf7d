"""The native protocol: `parse` checks a client's messages, `encode` writes those of the service. Pure.

`docs/reference/protocol.md` describes the protocol.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streamer.base.codes import ErrorCode
from streamer.base.text import json_text
from streamer.wire.errors import WireError, bad, kind_of, quote
from streamer.wire.options import SpeakerNames, Start, read

# A client's messages are short lists of options. Anything longer is audio in the wrong kind of frame.
LONGEST_TEXT = 64 * 1024
# The first message may have recordings of voices.
LONGEST_START = 768 * 1024
# Options are objects within lists within objects. No valid message is nested deeper than this.
DEEPEST = 8
# A close frame carries at most 125 bytes, two of which are the code.
LONGEST_REASON = 123


@dataclass(frozen=True)
class Flush:
    """Asks for the final of all audio so far."""


@dataclass(frozen=True)
class KeepAlive:
    """Keeps the session open while the client sends no audio."""


@dataclass(frozen=True)
class Stop:
    """Says that no more audio comes. The client still waits for the remaining finals."""


ClientMessage = Start | Flush | KeepAlive | SpeakerNames | Stop

_TYPES: dict[str, type[Start] | type[Flush] | type[KeepAlive] | type[SpeakerNames] | type[Stop]] = {
    "start": Start,
    "flush": Flush,
    "keepalive": KeepAlive,
    "speaker_names": SpeakerNames,
    "stop": Stop,
}


def name_of(message: ClientMessage) -> str:
    """Return the `type` of this message on the wire."""
    return next(name for name, kind in _TYPES.items() if isinstance(message, kind))


def parse(text: str, longest: int = LONGEST_TEXT) -> ClientMessage:
    """Read a client's text frame as a message. Raise WireError, which says what is wrong and what is expected.

    `longest`: how many characters it may have.
    """
    if len(text) > longest:
        limit = f"A text frame must have at most {longest} characters"
        raise bad(ErrorCode.BAD_MESSAGE, f"{limit}; send audio in binary frames.")
    try:
        content = json.loads(text)
    except ValueError:
        raise bad(ErrorCode.BAD_JSON, 'A text frame must be a JSON object such as {"type":"start"}.') from None
    except RecursionError:
        raise _too_deep() from None
    if _is_deeper(content, DEEPEST):
        raise _too_deep()
    if not isinstance(content, dict):
        raise bad(
            ErrorCode.BAD_JSON,
            f'A text frame must be a JSON object such as {{"type":"start"}}, not {kind_of(content)}.',
        )
    name = content.pop("type", None)
    if not isinstance(name, str) or name not in _TYPES:
        actual = quote(name) if isinstance(name, str) else kind_of(name)
        raise bad(ErrorCode.UNKNOWN_TYPE, f"'type' must be one of {', '.join(_TYPES)}, not {actual}.")
    message: ClientMessage = _TYPES[name](**read(_TYPES[name], name, content))
    if isinstance(message, Start) and message.resume is not None and len(content) > 1:
        why = "the session keeps the options that it was started with"
        raise bad(ErrorCode.BAD_OPTION, f"'resume' must be the only option: {why}.")
    return message


def encode(event: Mapping[str, object]) -> str:
    """Write a message of either direction as the text of one frame."""
    return json_text(event, separators=(",", ":"))


def _is_deeper(value: Any, levels: int) -> bool:
    """Return whether lists and objects are nested in more than `levels` levels. Works without recursion."""
    inner = [value]
    for _ in range(levels + 1):
        containers = [each for each in inner if isinstance(each, (dict, list))]
        if not containers:
            return False
        inner = [item for each in containers for item in (each.values() if isinstance(each, dict) else each)]
    return True


def _too_deep() -> WireError:
    what = 'A text frame must be a JSON object such as {"type":"start"}'
    return bad(ErrorCode.BAD_JSON, f"{what}, with lists and objects nested in at most {DEEPEST} levels.")


def close_reason(text: str) -> str:
    """Return a sentence, shortened if it does not fit into a close frame."""
    data = text.encode()
    if len(data) <= LONGEST_REASON:
        return text
    return data[: LONGEST_REASON - 3].decode(errors="ignore") + "…"
