"""Titles before names: Mr., Dr. A stage of the written form. Pure."""

from __future__ import annotations

from streamer.engine.text.spoken_numbers import TrackedWords

# These are written like this before a name. Whether a name follows is known from its capital.
TITLES = {"mister": "Mr.", "missus": "Mrs.", "doctor": "Dr.", "saint": "St."}

_ALWAYS = {"mr": "Mr.", "mrs": "Mrs.", "ms": "Ms."}


def title_at(words: TrackedWords, at: int) -> tuple[str, int] | None:
    """The title that is always abbreviated and stands here, and the position after it."""
    word = words.at(at)
    return (_ALWAYS[word], at + 1) if word in _ALWAYS else None
