"""The frames that the decoder process sends to the service: each has a kind, a length and its content. Pure.

The service trusts no frame: a hostile recording may have taken the decoder over.
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Final

from streamer.base.limits import MOST_CHANNELS

LONGEST_FRAME: Final = 64 * 1024  # bytes of content
_LONGEST_MESSAGE: Final = 500
_HEAD: Final = struct.Struct(">cI")
HEAD_BYTES: Final = _HEAD.size


class FrameError(Exception):
    """The bytes are not a valid frame."""


class ProblemCode(str, Enum):
    """The reasons why a recording cannot be decoded."""

    UNKNOWN_FORMAT = "unknown_format"
    NO_AUDIO = "no_audio"
    DAMAGED = "damaged_audio"
    TOO_COSTLY = "too_costly"


@dataclass(frozen=True)
class Opened:
    """The recording can be decoded. `channels` are recognised separately; `seconds` is what its header claims."""

    channels: int
    seconds: float | None = None


@dataclass(frozen=True)
class Samples:
    """Samples of all channels, interleaved, int16 at 16 kHz."""

    pcm: bytes


@dataclass(frozen=True)
class Problem:
    """The recording cannot be decoded, or not any further. The message is a sentence for its sender."""

    code: ProblemCode
    message: str


@dataclass(frozen=True)
class End:
    """The whole recording was decoded."""


Frame = Opened | Samples | Problem | End
_KINDS: Final[dict[bytes, type[Opened] | type[Samples] | type[Problem] | type[End]]] = {
    b"o": Opened,
    b"s": Samples,
    b"p": Problem,
    b"e": End,
}


def encode(frame: Frame) -> bytes:
    """Write a frame."""
    content = b""
    if isinstance(frame, Samples):
        content = frame.pcm
    elif not isinstance(frame, End):
        content = json.dumps(asdict(frame)).encode()
    kind = next(kind for kind, type in _KINDS.items() if isinstance(frame, type))
    return _HEAD.pack(kind, len(content)) + content


def content_length(head: bytes) -> int:
    """Return how many bytes of content follow this head. FrameError if it is not valid."""
    kind, length = _HEAD.unpack(head)
    if kind not in _KINDS or length > LONGEST_FRAME:
        raise FrameError
    return int(length)


def decode(head: bytes, content: bytes) -> Frame:
    """Read a frame from its head and its content. FrameError if it is not valid."""
    kind = _KINDS[_HEAD.unpack(head)[0]]
    if kind is Samples:
        return Samples(content)
    if kind is End:
        return End()
    try:
        values = json.loads(content)
        if kind is Opened:
            seconds = values["seconds"]
            channels = int(values["channels"])
            if not 1 <= channels <= MOST_CHANNELS:
                raise FrameError
            return Opened(channels, None if seconds is None else float(seconds))
        return Problem(ProblemCode(values["code"]), str(values["message"])[:_LONGEST_MESSAGE])
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        raise FrameError from error
