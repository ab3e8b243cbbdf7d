"""Events of a session, made by hand."""

from __future__ import annotations

from typing import Any

from streamer.commands.accuracy.results import TimedEvent


def arrived(*events: dict[str, Any]) -> list[TimedEvent]:
    """Events that arrive one millisecond apart."""
    return [TimedEvent(float(place), event) for place, event in enumerate(events)]


def partial(text: str, audio_ms: int, segment: int = 0, **more: int) -> dict[str, Any]:
    return {"type": "partial", "segment": segment, "text": text, "audio_ms": audio_ms, **more}


def final(text: str, segment: int = 0, **more: Any) -> dict[str, Any]:
    return {"type": "final", "segment": segment, "text": text, **more}
