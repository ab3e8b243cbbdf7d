"""Finals of a session, made by hand."""

from __future__ import annotations

from typing import Any


def word(text: str, start_ms: int, end_ms: int) -> dict[str, Any]:
    """A word of a final."""
    return {"word": text, "start_ms": start_ms, "end_ms": end_ms, "confidence": 0.9}


def final(*words: dict[str, Any], segment: int = 0) -> dict[str, Any]:
    """A final event with these words."""
    return {
        "type": "final",
        "n": 7,
        "segment": segment,
        "text": " ".join(each["word"] for each in words),
        "start_ms": words[0]["start_ms"],
        "end_ms": words[-1]["end_ms"],
        "confidence": 0.87,
        "words": list(words),
    }


def speech(count: int, *, start_ms: int = 0, each_ms: int = 300, text: str = "word") -> list[dict[str, Any]]:
    """This many words, one directly after the other."""
    return [word(text, start_ms + index * each_ms, start_ms + (index + 1) * each_ms) for index in range(count)]
