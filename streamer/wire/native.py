"""The native protocol: what a client may say, checked, and what the service says, encoded.

Pure: strings in, values out. `docs/protocol.md` is the same thing for people.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any

PATH = "/v1/stream"
SAMPLE_BYTES = 2
ENCODINGS = ("pcm_s16le",)
SAMPLE_RATES = (16000,)
CHANNELS = (1,)
STEPS_MS = (160, 320, 640)
SEARCHES = ("lexicon", "greedy")

# A client's messages are a handful of options: what is longer than this is audio in the wrong kind of frame.
LONGEST_TEXT = 64 * 1024
# A close frame carries at most 125 bytes, two of which are the code.
LONGEST_REASON = 123


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


@dataclass(frozen=True)
class Start:
    """Opens the session. Every option has a default."""

    encoding: str = "pcm_s16le"
    sample_rate: int = 16000
    channels: int = 1
    partials: bool = True
    words: bool = True
    speech: bool = True
    step_ms: int = 320
    search: str = "lexicon"
    live: bool = False

    def model_options(self) -> dict[str, Any]:
        """The part of the options that the recogniser acts on."""
        return {
            "step_ms": self.step_ms,
            "partials": self.partials,
            "words": self.words,
            "speech": self.speech,
            "search": self.search,
        }


@dataclass(frozen=True)
class Flush:
    """Everything so far becomes final now."""


@dataclass(frozen=True)
class KeepAlive:
    """The session stays open with no audio."""


@dataclass(frozen=True)
class Stop:
    """The end of the audio: the remaining finals are wanted."""


ClientMessage = Start | Flush | KeepAlive | Stop

_TYPES: dict[str, type[Start] | type[Flush] | type[KeepAlive] | type[Stop]] = {
    "start": Start,
    "flush": Flush,
    "keepalive": KeepAlive,
    "stop": Stop,
}


def name_of(message: ClientMessage) -> str:
    """The `type` under which a client sends this message."""
    return next(name for name, kind in _TYPES.items() if isinstance(message, kind))


def parse(text: str) -> ClientMessage:
    """One text frame of a client as a message; WireError says what is wrong and what is right."""
    if len(text) > LONGEST_TEXT:
        raise _bad("bad_message", f"A text frame has at most {LONGEST_TEXT} characters; audio goes in binary frames.")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise _bad("bad_json", 'A text frame must be a JSON object such as {"type":"start"}.') from None
    if not isinstance(content, dict):
        raise _bad(
            "bad_json",
            f'A text frame must be a JSON object such as {{"type":"start"}}, not {_kind(content)}.',
        )
    name = content.pop("type", None)
    if not isinstance(name, str) or name not in _TYPES:
        met = _shown(name) if isinstance(name, str) else _kind(name)
        raise _bad("unknown_type", f"'type' must be one of {', '.join(_TYPES)}, not {met}.")
    known = {field.name: field.default for field in fields(_TYPES[name])}
    unknown = [key for key in content if key not in known]
    if unknown:
        takes = f"it takes {', '.join(known)}" if known else "it takes none"
        raise _bad("unknown_option", f"'{name}' has no option {_shown(unknown[0])}; {takes}.")
    for key, value in content.items():
        expected = type(known[key])
        # type() and not isinstance(): a boolean is no number here, and 1 is no boolean.
        if type(value) is not expected:
            raise _bad("bad_option", f"'{key}' must be {_KINDS[expected]}, not {_kind(value)}.")
    message = _TYPES[name](**content)
    if isinstance(message, Start):
        _check(message)
    return message


def encode(event: Mapping[str, Any]) -> str:
    """A message as the text of one frame, in either direction."""
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"))


def close_reason(text: str) -> str:
    """A sentence cut to what fits into a close frame."""
    data = text.encode()
    if len(data) <= LONGEST_REASON:
        return text
    return data[: LONGEST_REASON - 3].decode(errors="ignore") + "…"


def _check(start: Start) -> None:
    for key, value, accepted in (
        ("encoding", start.encoding, ENCODINGS),
        ("sample_rate", start.sample_rate, SAMPLE_RATES),
        ("channels", start.channels, CHANNELS),
    ):
        if value not in accepted:
            raise WireError(
                "unsupported_audio",
                CloseCode.BAD_AUDIO,
                f"'{key}' {_shown(value)} is not supported; send {_listed(accepted)}.",
            )
    if start.step_ms not in STEPS_MS:
        raise _bad("bad_option", f"'step_ms' must be {_listed(STEPS_MS)}, not {_shown(start.step_ms)}.")
    if start.search not in SEARCHES:
        raise _bad("bad_option", f"'search' must be {_listed(SEARCHES)}, not {_shown(start.search)}.")


def _bad(code: str, message: str) -> WireError:
    return WireError(code, CloseCode.BAD_MESSAGE, message)


_KINDS: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number with a fraction",
    str: "a string",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def _kind(value: object) -> str:
    return _KINDS[type(value)]


def _listed(accepted: tuple[object, ...]) -> str:
    return " or ".join(str(value) for value in accepted)


def _shown(value: str | int) -> str:
    """A client's own value in a sentence: cut short, and escaped, for it may hold what UTF-8 cannot."""
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:39] + "…"
