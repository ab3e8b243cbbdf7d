"""What the recogniser says about a stream. Times are milliseconds since the stream began, samples count from there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class SpokenWord:
    """A word with its place in the stream; `spoken` is what was said where `word` is the written form of it."""

    word: str
    start_ms: int
    end_ms: int
    confidence: float | None = None
    spoken: str | None = None


@dataclass(frozen=True)
class Alternative:
    """Another text that a final might have had, and how likely it is beside the others."""

    text: str
    confidence: float


@dataclass(frozen=True)
class Partial:
    """The text of the running segment; its first `stable` characters will not change."""

    type: ClassVar[str] = "partial"
    segment: int
    text: str
    stable: int
    start_ms: int
    audio_ms: int
    words: tuple[SpokenWord, ...] | None = None


@dataclass(frozen=True)
class Final:
    """The text of a finished segment; it never changes. `spoken` is there where `text` is the written form."""

    type: ClassVar[str] = "final"
    segment: int
    text: str
    start_ms: int
    end_ms: int
    audio_ms: int
    confidence: float
    words: tuple[SpokenWord, ...] | None = None
    spoken: str | None = None
    alternatives: tuple[Alternative, ...] | None = None


@dataclass(frozen=True)
class Speech:
    """Somebody began ("start") or stopped ("end") speaking."""

    type: ClassVar[str] = "speech"
    state: str
    at_ms: int


@dataclass(frozen=True)
class Cut:
    """A segment starts afresh at this sample: nothing before it will be needed again.

    `speaking` and `begins` are options for a stream that goes on from here.
    """

    type: ClassVar[str] = "cut"
    sample: int
    speaking: bool = False
    begins: bool = True


@dataclass(frozen=True)
class Flushed:
    """Everything up to here is final, as the flush asked."""

    type: ClassVar[str] = "flushed"
    audio_ms: int


@dataclass(frozen=True)
class Heard:
    """How much of the stream has arrived; the last event of every answer."""

    type: ClassVar[str] = "heard"
    sample: int
    audio_ms: int


Event = Partial | Final | Speech | Cut | Flushed | Heard


def as_json(event: Event) -> str:
    """The event as one JSON object with its `type` first; fields that are None are left out."""
    return json.dumps({"type": event.type, **_fields(event)}, separators=(",", ":"), ensure_ascii=False)


def _fields(of: object) -> dict[str, Any]:
    found = {name: value for name, value in vars(of).items() if value is not None}
    for name, value in found.items():
        if isinstance(value, tuple):
            found[name] = [_fields(part) for part in value]
    return found
