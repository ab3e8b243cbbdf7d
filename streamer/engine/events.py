"""What the recogniser says about a stream. Times are milliseconds since the stream began, samples count from there."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True)
class SpokenWord:
    """A word of a final with its place in the stream."""

    word: str
    start_ms: int
    end_ms: int
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


@dataclass(frozen=True)
class Final:
    """The text of a finished segment; it never changes."""

    type: ClassVar[str] = "final"
    segment: int
    text: str
    start_ms: int
    end_ms: int
    audio_ms: int
    confidence: float
    words: tuple[SpokenWord, ...] | None = field(default=None)


@dataclass(frozen=True)
class Speech:
    """Somebody began ("start") or stopped ("end") speaking."""

    type: ClassVar[str] = "speech"
    state: str
    at_ms: int


@dataclass(frozen=True)
class Cut:
    """A segment starts afresh at this sample: nothing before it will be needed again."""

    type: ClassVar[str] = "cut"
    sample: int


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
    fields: dict[str, Any] = {"type": event.type}
    fields.update((name, value) for name, value in vars(event).items() if value is not None)
    if isinstance(event, Final) and event.words is not None:
        fields["words"] = [vars(word) for word in event.words]
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
